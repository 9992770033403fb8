package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/execbus/execbus"
)

// settleWait is how long the counts may take at a quiet point until they are back.
const settleWait = 10 * time.Second

// load keeps execbus busy between two quiet points.
type load interface {
	// warm lets every scenario happen once, before the baseline.
	warm(ctx context.Context)
	// round works for a while. It returns false when the load is complete.
	round(ctx context.Context, n int) bool
	// progress returns part of a progress line.
	progress() string
}

// soak is one run.
type soak struct {
	arguments
	out     *display
	faults  *faults
	watcher *watcher
	sampler *sampler
	judge   *judge
	host    *host
	home    *client // the session that lives as long as the runtime
	crew    *crew
	load    load
	before  sample // before the runtime was started

	interrupted bool
	hung        bool // a worker hangs
}

func newSoak(a arguments, progress io.Writer) (*soak, error) {
	s := &soak{arguments: a, out: newDisplay(progress)}
	s.faults = &faults{began: s.out.began, say: s.out}
	s.judge = &judge{faults: s.faults}
	if a.plot != "" { // now rather than after hours
		if err := os.WriteFile(a.plot, nil, 0o644); err != nil {
			return nil, err
		}
	}
	mark := nonce()
	var err error
	if s.watcher, err = newWatcher(mark); err != nil {
		return nil, err
	}
	if err := wakePoller(); err != nil {
		return nil, err
	}
	s.crew = newCrew(a.parallel)
	s.load = s.chooseLoad()
	s.sampler = startSampler(s)
	s.before, _ = s.sampler.take()
	if s.host, err = newHost(s.faults, mark); err != nil {
		s.sampler.stop()
		return nil, err
	}
	s.home, err = s.host.session(execbus.SessionOptions{MaxProcesses: 16 + 4*a.parallel})
	if err != nil {
		s.host.shutdown()
		s.sampler.stop()
		return nil, err
	}
	return s, nil
}

// wakePoller makes the Go runtime open the descriptors of its poller, so that they are counted from the beginning.
func wakePoller() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	return errors.Join(r.Close(), w.Close())
}

func (s *soak) chooseLoad() load {
	if s.commands > 0 {
		return &commands{soak: s, left: s.commands}
	}
	return &mix{soak: s, scenarios: matching(s.only)}
}

// title describes this run.
func (s *soak) title() string {
	what := fmt.Sprintf("%v of everything", s.duration)
	if s.commands > 0 {
		what = fmt.Sprintf("%d commands", s.commands)
	}
	return fmt.Sprintf("soak: %s, %d at a time, seed %d", what, s.parallel, s.seed)
}

// run does everything from the warm-up to the shutdown.
func (s *soak) run(ctx context.Context) {
	s.out.say("%s; %s, %d cores, uid %d", s.title(), runtime.Version(), runtime.GOMAXPROCS(0), os.Getuid())
	s.load.warm(ctx)
	s.quiet(ctx)
	s.sampler.keep(true)
	for n, more := 0, true; more && ctx.Err() == nil && !s.hung && !s.faults.tooMany(); n++ {
		more = s.load.round(ctx, n)
		s.quiet(ctx)
	}
	s.sampler.keep(false)
	s.interrupted = ctx.Err() != nil
	if !s.hung {
		s.end()
	}
	s.sampler.stop()
}

// quiet lets everything end, and compares the counts with the baseline.
func (s *soak) quiet(ctx context.Context) {
	if s.hung {
		return
	}
	s.host.drain(context.WithoutCancel(ctx), s.home)
	s.probe(ctx)
	began := time.Now()
	s.judge.begin()
	for {
		one, c := s.sampler.take()
		one.values[settling] = time.Since(began).Milliseconds()
		over := time.Since(began) > settleWait
		if s.judge.settled(one) || over {
			s.explain(s.judge.add(one), c)
			return
		}
		time.Sleep(settlePause)
	}
}

// settlePause is the time between two looks at a quiet point.
const settlePause = 50 * time.Millisecond

// probe runs a command on a terminal and one on pipes. So there is a warden, and it has run a command.
func (s *soak) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for i, tty := range []bool{true, false} {
		name := fmt.Sprintf("quiet%d.%d", len(s.judge.points), i)
		st := &step{ctx: ctx, host: s.host, client: s.home, dice: s.dice(0, i), name: name, scenario: "probe", epoch: s.host.epoch.Load()}
		command := sh(tty, "exit 23")
		if _, result := st.exec(ctx, command, want{codes: []int{23}, output: &flood{tty: tty}}); result == nil {
			s.faults.add(name, "no command can be run at a quiet point")
		}
	}
	s.home.ledger.settle()
	s.home.ledger.restart()
}

// explain describes what is behind a drift.
func (s *soak) explain(drifted []quantity, c census) {
	for _, q := range drifted {
		switch q {
		case goroutines:
			_ = pprof.Lookup("goroutine").WriteTo(s.out, 1)
		case heap:
			s.out.say("heap profile: %s", heapProfile())
		case zombies:
			s.out.say("zombies: %s", names(c.zombies))
		case descendants:
			s.out.say("descendants: %s", names(c.descendants))
		case descriptors, wardenDescriptors:
			s.out.say("descriptors of the host: %s", targets(os.Getpid()))
			s.out.say("descriptors of the warden: %s", targets(c.warden.pid))
		}
	}
}

// heapProfile writes a heap profile to a file and returns its name.
func heapProfile() string {
	file, err := os.CreateTemp("", "soak-heap-*.pprof")
	if err != nil {
		return err.Error()
	}
	if err := errors.Join(pprof.Lookup("heap").WriteTo(file, 0), file.Close()); err != nil {
		return err.Error()
	}
	return file.Name()
}

func names(all []proc) string {
	text := ""
	for _, p := range all {
		text += fmt.Sprintf("%s (pid %d, parent %d, state %c) ", p.name, p.pid, p.ppid, p.state)
	}
	return text
}

// targets lists what the descriptors of a process refer to.
func targets(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	var all []string
	for _, fd := range entries(dir) {
		if target, err := os.Readlink(dir + fd); err == nil {
			all = append(all, target)
		}
	}
	slices.Sort(all)
	return all
}

// end shuts the runtime down. After that everything must be as it was before its start.
func (s *soak) end() {
	s.host.drain(context.Background(), nil)
	s.host.shutdown()
	var one sample
	var c census
	for began := time.Now(); time.Since(began) < settleWait; time.Sleep(settlePause) {
		one, c = s.sampler.take()
		if s.leftovers(one, c) == "" {
			return
		}
	}
	s.faults.add("end", "after the shutdown there is left: %s", s.leftovers(one, c))
	s.explain([]quantity{goroutines, descriptors}, c)
}

func (s *soak) leftovers(one sample, c census) string {
	text := ""
	for _, q := range []quantity{descriptors, goroutines, zombies, descendants, ptys} {
		if now, then := one.values[q], s.before.values[q]; now > then {
			text += fmt.Sprintf("%d %s (before the start %d) ", now, facts[q].name, then)
		}
	}
	if c.warden.pid != 0 {
		text += fmt.Sprintf("the warden (pid %d) ", c.warden.pid)
	}
	return text
}
