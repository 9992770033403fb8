package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/record"
	"github.com/execbus/execbus/tests/harness"
	"github.com/execbus/execbus/tests/proc"
)

const (
	// restCommands is how many commands a program has run before it rests, and restTime for how long it does.
	restCommands = 2000
	restTime     = time.Second
	memoryFloods = 100
	// memoryKept is how much of so many floods the runtime keeps, in MiB: for each 1 MiB that nobody has polled, and the log.
	memoryKept = memoryFloods * 2.5
)

func memoryRows() []row {
	resting := []metric{{name: "at rest", unit: mebibytes, judge: most, limit: 20}}
	return []row{
		{name: "rest", about: "resident memory of a small host that has run 2,000 commands and rests", fresh: true, open: rests,
			metrics: []metric{{name: "host", unit: mebibytes, judge: most, limit: 21}, {name: "warden", of: "warden", unit: mebibytes, judge: most, limit: 8},
				{name: "threads of the host", of: "threads", unit: pieces}}},
		{name: "mcp-rest", about: "resident memory of a server for MCP, without its warden, after a command",
			metrics: resting, fresh: true, open: restOfServer(func(ctx context.Context, s *scope) *server { return s.mcp(ctx).server })},
		{name: "remote-rest", about: "the same of an exec-server", metrics: resting, fresh: true, open: restOfServer(execServer)},
		{name: "memory-floods", about: "100 floods of 8 s through the runtime", fresh: true, open: manyFloods,
			metrics: []metric{{name: "rss grown", of: "grown", unit: mebibytes}, {name: "rss beyond twice what is kept", of: "beyond", unit: mebibytes, judge: most, limit: 64},
				{name: "live heap beyond what is kept", of: "live", unit: mebibytes, judge: most, limit: 8}, {name: "floods", of: "floods", unit: megabytes}}},
		{name: "shells", about: "1,000 interactive shells on PTYs in one session", fresh: true, open: shells,
			metrics: []metric{{name: "rss of the host for each", of: "rss", unit: kibibytes, judge: most, limit: 24}, {name: "threads of the host", of: "threads", unit: pieces, judge: most, limit: 10},
				{name: "threads of the warden", of: "warden threads", unit: pieces}, {name: "rss of the warden", of: "warden", unit: kibibytes},
				{name: "descriptors of the host for each", of: "descriptors", unit: pieces}, {name: "end of all", of: "end", unit: milliseconds, judge: most, limit: 700}}},
		{name: "shells-kept", about: "200 interactive shells whose output goes to files, with an audit log, compared with the same without", fresh: true, open: keptShells,
			metrics: []metric{{name: "heap and stacks for each", unit: kibibytes, judge: atMost, limit: 1.05}, {name: "goroutines for each", of: "goroutines", unit: pieces, judge: atMost, limit: 1.05},
				{name: "descriptors for each", of: "descriptors", unit: pieces, judge: atMost, limit: 1.05}, {name: "with recordings, heap and stacks", of: "recorded", unit: kibibytes}}},
	}
}

// resident waits, and returns the memory of a process in MiB.
func resident(ctx context.Context, pid int) float64 {
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		must(ctx.Err())
	}
	return float64(get(harness.ResidentKiB(pid))) / 1024
}

// rests measures a small program, because most of a resting host's memory are pages of its executable.
func rests(ctx context.Context, s *scope) pair {
	dir, commands := s.build(ctx, "tests/cost/embedded"), s.some(restCommands, restCommands/10)
	return pair{ours: func(ctx context.Context, took series) {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "embedded"), strconv.Itoa(commands))
		cmd.Stderr = os.Stderr
		stdin, stdout := get(cmd.StdinPipe()), get(cmd.StdoutPipe())
		must(cmd.Start())
		defer func() {
			_ = stdin.Close()
			_ = cmd.Wait()
		}()
		if said := get(bufio.NewReader(stdout).ReadString('\n')); said != "resting\n" {
			must(fmt.Errorf("the host printed %q", said))
		}
		took.add("", resident(ctx, cmd.Process.Pid))
		took.add("threads", float64(harness.Threads(cmd.Process.Pid)))
		took.add("warden", float64(get(harness.ResidentKiB(harness.Warden(cmd.Process.Pid))))/1024)
	}}
}

// restOfServer measures a server that has run a command.
func restOfServer(open func(ctx context.Context, s *scope) *server) opener {
	return func(ctx context.Context, s *scope) pair {
		v := open(ctx, s)
		return pair{ours: func(ctx context.Context, took series) { took.add("", resident(ctx, v.cmd.Process.Pid)) }}
	}
}

func execServer(ctx context.Context, s *scope) *server {
	v, session := s.remoteSession(ctx, "websocket")
	s.plain(ctx, session)
	return v
}

// manyFloods measures this process, a host of many floods.
func manyFloods(ctx context.Context, s *scope) pair {
	if free := harness.Field("/proc/meminfo", "MemAvailable:") >> 10; free < 2048 {
		must(fmt.Errorf("only %d MiB of memory are available", free))
	}
	_, session := s.open(execbus.Options{}, crowded(memoryFloods))
	s.plain(ctx, session) // starts the warden
	return pair{ours: func(ctx context.Context, took series) {
		debug.FreeOSMemory()
		before := get(harness.ResidentKiB(os.Getpid()))
		load, peak := startFloods(ctx, session, memoryFloods), before
		for range s.some(80, 20) {
			time.Sleep(time.Second / 10)
			peak = max(peak, get(harness.ResidentKiB(os.Getpid())))
		}
		took.add("floods", load.speed(ctx))
		load.stop(ctx) // what comes during a collection counts as live
		debug.FreeOSMemory()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		grown := float64(peak-before) / 1024
		took.add("grown", grown)
		took.add("beyond", grown-2*memoryKept)
		took.add("live", float64(stats.HeapAlloc)/(1<<20)-memoryKept)
	}}
}

// shells measures this process, a host of many shells.
func shells(ctx context.Context, s *scope) pair {
	count := s.some(manyShells, manyShells/5)
	_, session := s.open(execbus.Options{}, crowded(count))
	openShells(ctx, session, 20) // pages the code in, and lets pools and stacks find their size
	must(session.TerminateAll(ctx))
	return pair{ours: func(ctx context.Context, took series) {
		descriptors := func() int { return len(proc.Descriptors(os.Getpid())) }
		debug.FreeOSMemory()
		before, fds := resident(ctx, os.Getpid()), descriptors()
		openShells(ctx, session, count)
		debug.FreeOSMemory()
		after, warden := resident(ctx, os.Getpid()), harness.Warden(os.Getpid())
		took.add("rss", (after-before)*1024/float64(count))
		took.add("threads", float64(harness.Threads(os.Getpid())))
		took.add("warden", float64(get(harness.ResidentKiB(warden))))
		took.add("warden threads", float64(harness.Threads(warden)))
		took.add("descriptors", float64(descriptors()-fds)/float64(count))
		began := time.Now()
		must(session.Close(ctx))
		took.add("end", millis(time.Since(began)))
	}}
}

// keptShells measures this process, a host of idle shells, after a warm-up.
func keptShells(ctx context.Context, s *scope) pair {
	count, dir := s.some(200, 50), s.directory()
	resting := func(options execbus.Options, recorded bool) (kept, goroutines, descriptors float64) {
		limits := crowded(count)
		if recorded {
			limits.Record = record.Options{Dir: filepath.Join(dir, "recordings")}
		}
		host, session := s.open(options, limits)
		openShells(ctx, session, 20)
		must(session.TerminateAll(ctx))
		before, routines, fds := inUse(), runtime.NumGoroutine(), len(proc.Descriptors(os.Getpid()))
		openShells(ctx, session, count)
		each := func(now, then int) float64 { return float64(now-then) / float64(count) }
		kept, goroutines, descriptors = each(inUse(), before)/1024, each(runtime.NumGoroutine(), routines), each(len(proc.Descriptors(os.Getpid())), fds)
		must(host.Shutdown(ctx))
		return kept, goroutines, descriptors
	}
	files := execbus.Options{Spool: execbus.SpoolOptions{Dir: filepath.Join(dir, "output")}, Audit: execbus.AuditOptions{File: filepath.Join(dir, "audit.jsonl")}}
	way := func(options execbus.Options) loop {
		return func(ctx context.Context, took series) {
			kept, goroutines, descriptors := resting(options, false)
			took.add("", kept)
			took.add("goroutines", goroutines)
			took.add("descriptors", descriptors)
		}
	}
	resting(files, true) // the first ones, which grow the buffers, do not count
	ours := way(files)
	return pair{bare: way(execbus.Options{}), ours: func(ctx context.Context, took series) {
		ours(ctx, took)
		kept, _, _ := resting(files, true)
		took.add("recorded", kept)
	}}
}

// inUse is the memory of the heap and of stacks after a collection and a rest, in bytes.
func inUse() int {
	time.Sleep(restTime)
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc + stats.StackInuse)
}
