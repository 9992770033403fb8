package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func firstCase() benchCase {
	return benchCase{name: "first", about: "the first command of a program: Start, OpenSession and Exec of /bin/true",
		metrics: []metric{{unit: milliseconds, judge: valueMost, limit: 6}, {name: "start", unit: milliseconds}}, run: measureFirst}
}

// firstAnswer is the helper's result, in ms.
type firstAnswer struct{ Start, All float64 }

// measureFirst uses a fresh process for each sample: later runtimes of a process find the code in memory.
func measureFirst(ctx context.Context, h *harness) ([]value, error) {
	var all, starts []float64
	for range 3 * h.pairs {
		helper, err := startHelper(ctx, "first", "0", "")
		if err != nil {
			return nil, err
		}
		var a firstAnswer
		err = helper.ask(0, &a)
		helper.close()
		if err != nil {
			return nil, err
		}
		all, starts = append(all, a.All), append(starts, a.Start)
	}
	return []value{single(all), single(starts)}, nil
}

func answerFirst(out io.Writer) error {
	return serve(out, func(ctx context.Context, _ int) (any, error) {
		began := time.Now()
		runtime, err := execbus.Start(execbus.Options{})
		if err != nil {
			return nil, err
		}
		a := firstAnswer{Start: micros(time.Since(began)) / 1e3}
		session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
		if err == nil {
			_, err = session.Exec(ctx, messages.ExecCommand{Argv: []string{program}})
		}
		a.All = micros(time.Since(began)) / 1e3
		if ended := shutDown(runtime); err == nil {
			err = ended
		}
		return a, err
	})
}

// restCommands is how many commands a host has run before it rests.
const restCommands = 2000

func restCase() benchCase {
	return benchCase{name: "rest", about: "resident memory of a host that has run 2,000 commands and rests, beside the same program with os/exec; and of its warden",
		metrics: []metric{{name: "host beyond bare Go", unit: mebibytes, judge: valueMost, limit: 5}, {name: "warden", unit: mebibytes, judge: valueMost, limit: 8},
			{name: "host", unit: mebibytes}, {name: "bare Go", unit: mebibytes}}, run: measureRest}
}

// measureRest compares with this very program: three quarters of a host's memory are pages of its executable, and how many those are
// is for the host, and for the page cache, to say.
func measureRest(ctx context.Context, h *harness) ([]value, error) {
	var beyond, wardens, hosts, bare []float64
	for range max(h.pairs/3, 1) {
		ours, err := askForRest(ctx, h, "rest")
		if err != nil {
			return nil, err
		}
		plain, err := askForRest(ctx, h, "bare")
		if err != nil {
			return nil, err
		}
		beyond, wardens = append(beyond, float64(ours.Host-plain.Host)/1024), append(wardens, float64(ours.Warden)/1024)
		hosts, bare = append(hosts, float64(ours.Host)/1024), append(bare, float64(plain.Host)/1024)
	}
	return []value{single(beyond), single(wardens), single(hosts), single(bare)}, nil
}

func askForRest(ctx context.Context, h *harness, kind string) (f footprint, err error) {
	helper, err := startHelper(ctx, kind, "0", "")
	if err != nil {
		return f, err
	}
	defer helper.close()
	return f, helper.ask(h.some(restCommands, restCommands/10), &f)
}

// answerRest is the helper: it runs so many commands through a session, and rests.
func answerRest(out io.Writer) error {
	return serve(out, func(ctx context.Context, count int) (f any, err error) {
		runtime, err := execbus.Start(execbus.Options{})
		if err != nil {
			return nil, err
		}
		session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
		for range count {
			if err == nil {
				_, err = session.Exec(ctx, messages.ExecCommand{Argv: []string{program}})
			}
		}
		if err == nil {
			f, err = takeFootprint(ctx)
		}
		if ended := shutDown(runtime); err == nil {
			err = ended
		}
		return f, err
	})
}

// answerBare is the helper with the same code that runs so many commands with os/exec.
func answerBare(out io.Writer) error {
	return serve(out, func(ctx context.Context, count int) (any, error) {
		for range count {
			if err := exec.CommandContext(ctx, program).Run(); err != nil {
				return nil, err
			}
		}
		debug.FreeOSMemory()
		resident, err := residentKiB(strconv.Itoa(os.Getpid()))
		return footprint{Host: resident}, err
	})
}
