package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

const (
	fullShells  = 1000
	quickShells = 200
	// atOnce bounds the shells that start at the same time, and shellYield how long each may take for its prompt.
	atOnce     = 100
	warmShells = 20
	shellYield = 3 * time.Second
)

func shellsCase() benchCase {
	return benchCase{name: "shells", about: "1,000 interactive shells on PTYs, through the whole runtime",
		metrics: []metric{
			{name: "rss of the host for each", unit: kibibytes, judge: valueMost, limit: 24},
			{name: "threads of the host", unit: pieces, judge: valueMost, limit: 10},
			{name: "threads of the warden", unit: pieces},
			{name: "rss of the warden", unit: kibibytes},
			{name: "rss of the warden for each", unit: kibibytes},
			{name: "descriptors of the host for each", unit: pieces},
			{name: "end of all", unit: milliseconds, judge: valueMost, limit: 700},
		}, run: measureShells}
}

// footprint is what a host and its warden occupy.
type footprint struct {
	Host, Warden  int // KiB
	Threads       int
	Descriptors   int
	WardenThreads int
}

// shellsAnswer is the helper's result.
type shellsAnswer struct {
	Before, After footprint
	End           float64 // ms from the request to end all to the end of the last tree
}

func measureShells(ctx context.Context, h *harness) ([]value, error) {
	count := h.some(fullShells, quickShells)
	if err := roomForShells(count); err != nil {
		return nil, err
	}
	var rss, threads, wardenThreads, warden, perShell, descriptors, ends []float64
	for round := range max(h.pairs/3, 1) {
		helper, err := startHelper(ctx, "shells", "0", "")
		if err != nil {
			return nil, err
		}
		var a shellsAnswer
		err = helper.ask(count, &a)
		helper.close()
		if err != nil {
			return nil, err
		}
		h.say("  run %d: %d shells; host %d → %d KiB, warden %d → %d KiB, threads %d + %d", round+1, count,
			a.Before.Host, a.After.Host, a.Before.Warden, a.After.Warden, a.After.Threads, a.After.WardenThreads)
		each := func(before, after int) float64 { return float64(after-before) / float64(count) }
		rss = append(rss, each(a.Before.Host, a.After.Host))
		threads = append(threads, float64(a.After.Threads))
		wardenThreads = append(wardenThreads, float64(a.After.WardenThreads))
		warden = append(warden, float64(a.After.Warden))
		perShell = append(perShell, each(a.Before.Warden, a.After.Warden))
		descriptors = append(descriptors, each(a.Before.Descriptors, a.After.Descriptors))
		ends = append(ends, a.End)
	}
	return []value{single(rss), single(threads), single(wardenThreads), single(warden), single(perShell), single(descriptors), single(ends)}, nil
}

// roomForShells checks the limits that a machine may set too low.
func roomForShells(count int) error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	// Go has raised the soft limit to the hard one. The host and the warden need a descriptor or two for each shell.
	if need := uint64(2*count + 200); files.Max < need {
		return fmt.Errorf("the hard limit of open files is %d and %d are needed: raise it with ulimit -Hn", files.Max, need)
	}
	most, err := strconv.Atoi(firstLine("/proc/sys/kernel/pty/max"))
	used, usedErr := strconv.Atoi(firstLine("/proc/sys/kernel/pty/nr"))
	if err == nil && usedErr == nil && most-used < count+50 {
		return fmt.Errorf("%d of %d terminals are in use: raise kernel.pty.max", used, most)
	}
	return nil
}

// answerShells is the helper: a host of that many shells.
func answerShells(out io.Writer) error {
	return serve(out, func(ctx context.Context, count int) (any, error) {
		runtime, err := execbus.Start(execbus.Options{})
		if err != nil {
			return nil, err
		}
		answer, err := hostShells(ctx, runtime, count)
		if ended := shutDown(runtime); err == nil {
			err = ended
		}
		return answer, err
	})
}

func hostShells(ctx context.Context, runtime *execbus.Runtime, count int) (a shellsAnswer, err error) {
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/", MaxProcesses: count + atOnce, WarnProcesses: count + atOnce})
	if err != nil {
		return a, err
	}
	if err := warmUp(ctx, session); err != nil {
		return a, wrap("warm up", err)
	}
	if a.Before, err = takeFootprint(ctx); err != nil {
		return a, err
	}
	if _, err := openShells(ctx, session, count); err != nil {
		return a, err
	}
	if a.After, err = takeFootprint(ctx); err != nil {
		return a, err
	}
	began := time.Now()
	err = session.Close(ctx)
	a.End = micros(time.Since(began)) / 1e3
	return a, err
}

// warmUp pages the code in and lets pools and stacks find their size.
func warmUp(ctx context.Context, session *execbus.Session) error {
	ids, err := openShells(ctx, session, warmShells)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := session.Terminate(ctx, messages.Terminate{Process: id}); err != nil {
			return err
		}
	}
	return nil
}

// openShells starts count shells and waits for their prompts.
func openShells(ctx context.Context, session *execbus.Session, count int) ([]messages.ProcessID, error) {
	argv := shell()
	ids, failed := make([]messages.ProcessID, count), make([]error, count)
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() != nil {
				failed[i] = ctx.Err()
				return
			}
			ids[i], failed[i] = openShell(ctx, session, argv)
		})
	}
	all.Wait()
	return ids, errors.Join(failed...)
}

func openShell(ctx context.Context, session *execbus.Session, argv []string) (messages.ProcessID, error) {
	result, err := session.Exec(ctx, messages.ExecCommand{Argv: argv, TTY: true, Yield: new(shellYield)})
	if err != nil {
		return 0, err
	}
	if !result.Running {
		return 0, fmt.Errorf("a shell ended with %s: %q", result.Status, result.Output)
	}
	if text := string(result.Output); !strings.Contains(text, "# ") && !strings.Contains(text, "$ ") {
		return 0, fmt.Errorf("a shell printed no prompt within %s: %q", shellYield, text)
	}
	return result.Process, nil
}

func shell() []string {
	if bash, err := exec.LookPath("bash"); err == nil {
		return []string{bash, "--norc", "--noprofile", "-i"}
	}
	return []string{"/bin/sh", "-i"}
}

// takeFootprint waits a moment, so that old goroutines and timers are gone, and measures.
func takeFootprint(ctx context.Context) (f footprint, err error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return f, ctx.Err()
	}
	warden, err := wardenPID("self")
	if err != nil {
		return f, err
	}
	debug.FreeOSMemory()
	if f.Host, err = residentKiB("self"); err != nil {
		return f, err
	}
	if f.Warden, err = residentKiB(warden); err != nil {
		return f, err
	}
	f.Threads, f.WardenThreads, f.Descriptors = entries("/proc/self/task"), entries("/proc/"+warden+"/task"), entries("/proc/self/fd")
	return f, nil
}

func entries(dir string) int {
	found, _ := os.ReadDir(dir)
	return len(found)
}

// residentKiB reads the kernel's exact count. The sum in /proc/PID/status is not exact, because the kernel collects it from
// several counters.
func residentKiB(pid string) (int, error) {
	text, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	rss := procField(string(text), "Rss:")
	if rss == 0 {
		return 0, errors.New("the kernel does not say how much memory a process has")
	}
	return rss, nil
}

// wardenPID finds the child of a host that is its warden.
func wardenPID(host string) (string, error) {
	lists, err := filepath.Glob("/proc/" + host + "/task/*/children")
	if err != nil {
		return "", err
	}
	for _, list := range lists {
		for _, pid := range strings.Fields(firstLine(list)) {
			if strings.HasPrefix(firstLine("/proc/"+pid+"/cmdline"), "execbus-warden") {
				return pid, nil
			}
		}
	}
	return "", errors.New("there is no warden among the children of the host")
}
