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
	return benchCase{name: "rest", about: "resident memory of a host that has run 2,000 commands and rests, and of its warden",
		metrics: []metric{{name: "host", unit: mebibytes, judge: valueMost, limit: 13}, {name: "warden", unit: mebibytes, judge: valueMost, limit: 8},
			{name: "bare Go program", unit: mebibytes}}, run: measureRest}
}

func measureRest(ctx context.Context, h *harness) ([]value, error) {
	var found [3][]float64
	for range max(h.pairs/3, 1) {
		for i, kind := range []string{"rest", "bare"} {
			helper, err := startHelper(ctx, kind, "0", "")
			if err != nil {
				return nil, err
			}
			var f footprint
			err = helper.ask(h.some(restCommands, restCommands/10), &f)
			helper.close()
			if err != nil {
				return nil, err
			}
			if i == 0 {
				found[0], found[1] = append(found[0], float64(f.Host)/1024), append(found[1], float64(f.Warden)/1024)
			} else {
				found[2] = append(found[2], float64(f.Host)/1024)
			}
		}
	}
	return []value{single(found[0]), single(found[1]), single(found[2])}, nil
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
