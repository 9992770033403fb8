package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

const (
	// loadFloods is how many programs flood their pipes beside the echo, and loadSettle how long they do before the measurement
	// begins.
	loadFloods = 8
	loadSettle = 200 * time.Millisecond
)

// floodProgram writes the same line again and again, as fast as it is read.
var floodProgram = []string{"yes"}

func loadedCases() []benchCase {
	loaded := func(name, about string, typical, tail metric, open opener, sample sampler) benchCase {
		typical.name, typical.unit, tail.name, tail.unit = "median", microseconds, "p99", microseconds
		return benchCase{name: name, about: about, metrics: []metric{typical, tail, {name: "floods", unit: megabytes}},
			run: func(ctx context.Context, h *harness) ([]value, error) {
				return compareLoadedEchoes(ctx, h, open, sample)
			}}
	}
	return []benchCase{
		loaded("echo-loaded", "echo while a runtime reads 8 floods",
			metric{judge: atMost, limit: 1.5}, metric{judge: atMost, limit: 2}, openChildEcho, (*loadedPair).beside),
		loaded("echo-loaded-session", "echo-session while a runtime reads 8 floods", metric{}, metric{}, openSessionEcho, (*loadedPair).beside),
		loaded("echo-loaded-apart", "echo while 8 floods are read the same way as the echo", metric{}, metric{}, openChildEcho, (*loadedPair).apart),
	}
}

// loadedPair measures one pair of samples.
type loadedPair struct {
	session    *execbus.Session // of the floods
	bare, ours echoer
	lasts      time.Duration // of a sample
	turns      int           // in a sample
}

type (
	opener  func(ctx context.Context) (echoer, error)
	sampler func(p *loadedPair, ctx context.Context) (b, o []float64, err error)
)

func compareLoadedEchoes(ctx context.Context, h *harness, open opener, sample sampler) ([]value, error) {
	runtime, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	defer shutDown(runtime)
	p := &loadedPair{lasts: time.Duration(h.some(3000, 700)) * time.Millisecond, turns: h.some(3, 1)}
	if p.session, err = runtime.OpenSession(execbus.SessionOptions{Dir: "/"}); err != nil {
		return nil, err
	}
	if p.bare, err = openBareEcho(ctx); err != nil {
		return nil, wrap("bare", err)
	}
	defer p.bare.close()
	if p.ours, err = open(ctx); err != nil {
		return nil, wrap("ours", err)
	}
	defer p.ours.close()
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) { return sample(p, ctx) })
}

// beside alternates short turns of both echoes, beside the same floods.
func (p *loadedPair) beside(ctx context.Context) (b, o []float64, err error) {
	var bares, echoes []float64
	speed, err := during(ctx, p.floods, func() error {
		for began := time.Now(); time.Since(began) < 2*p.lasts; {
			if bares, err = echoTurn(ctx, p.bare, bares); err != nil {
				return wrap("bare", err)
			}
			if echoes, err = echoTurn(ctx, p.ours, echoes); err != nil {
				return wrap("ours", err)
			}
		}
		return nil
	})
	return loadedValues(bares, speed), loadedValues(echoes, speed), err
}

// apart gives each way its own floods, one way after the other.
func (p *loadedPair) apart(ctx context.Context) (b, o []float64, err error) {
	var bares, echoes, bareSpeeds, speeds []float64
	turn := func(e echoer, start starter, took, speeds *[]float64) error {
		speed, err := during(ctx, start, func() (err error) {
			for began := time.Now(); time.Since(began) < p.lasts/time.Duration(p.turns) && err == nil; {
				*took, err = echoTurn(ctx, e, *took)
			}
			return err
		})
		*speeds = append(*speeds, speed)
		return err
	}
	for range p.turns {
		if err := turn(p.bare, bareFloods, &bares, &bareSpeeds); err != nil {
			return nil, nil, wrap("bare", err)
		}
		if err := turn(p.ours, p.floods, &echoes, &speeds); err != nil {
			return nil, nil, wrap("ours", err)
		}
	}
	return loadedValues(bares, median(bareSpeeds)), loadedValues(echoes, median(speeds)), nil
}

func (p *loadedPair) floods(ctx context.Context) (floods, error) {
	return sessionFloods(ctx, p.session)
}

func loadedValues(took []float64, speed float64) []float64 {
	return []float64{median(took), quantile(took, 0.99), speed}
}

type starter func(ctx context.Context) (floods, error)

// floods are programs that flood while something else is measured.
type floods interface {
	// bytes returns how many bytes were read so far.
	bytes(ctx context.Context) (int64, error)
	end()
}

// during calls do beside floods. It returns their speed meanwhile, in MB/s.
func during(ctx context.Context, start starter, do func() error) (speed float64, err error) {
	f, err := start(ctx)
	if err != nil {
		return 0, err
	}
	defer f.end()
	time.Sleep(loadSettle)
	before, err := f.bytes(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	after, err := f.bytes(ctx)
	if err == nil && after == before {
		err = errors.New("the floods did not flow")
	}
	return float64(after-before) / 1e6 / took.Seconds(), err
}

// bareLoad reads each flood in a loop.
type bareLoad struct {
	cmds    []*exec.Cmd
	readers sync.WaitGroup
	read    atomic.Int64
}

func bareFloods(context.Context) (floods, error) {
	l := &bareLoad{}
	for range loadFloods {
		cmd := exec.Command(floodProgram[0], floodProgram[1:]...)
		cmd.Env, cmd.Dir = environment(), "/"
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			l.end()
			return nil, err
		}
		l.cmds = append(l.cmds, cmd)
		l.readers.Go(func() { l.drain(stdout) })
	}
	return l, nil
}

func (l *bareLoad) drain(from io.Reader) {
	buffer := make([]byte, ptyio.MaxBatch)
	for {
		n, err := from.Read(buffer)
		l.read.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func (l *bareLoad) bytes(context.Context) (int64, error) { return l.read.Load(), nil }

func (l *bareLoad) end() {
	for _, cmd := range l.cmds {
		_ = cmd.Process.Kill()
	}
	l.readers.Wait()
	for _, cmd := range l.cmds {
		_ = cmd.Wait()
	}
}

// sessionLoad leaves the reading to the runtime; nobody subscribes to it.
type sessionLoad struct {
	session *execbus.Session
	ids     []messages.ProcessID
}

func sessionFloods(ctx context.Context, session *execbus.Session) (floods, error) {
	l := &sessionLoad{session: session}
	return l, l.start(ctx, loadFloods)
}

func (l *sessionLoad) start(ctx context.Context, count int) error {
	for range count {
		p, err := l.session.Start(ctx, messages.ExecCommand{Argv: floodProgram})
		if err != nil {
			l.end()
			return err
		}
		l.ids = append(l.ids, p.ID())
	}
	return nil
}

func (l *sessionLoad) bytes(ctx context.Context) (int64, error) {
	totals, err := l.totals(ctx)
	return sum(totals), err
}

// totals returns how many bytes of each flood were read.
func (l *sessionLoad) totals(ctx context.Context) ([]int64, error) {
	totals := make([]int64, len(l.ids))
	for i, id := range l.ids {
		page, err := l.session.Read(ctx, messages.ReadOutput{Process: id, Tail: 1})
		if err != nil {
			return nil, fmt.Errorf("flood %d: %w", id, err)
		}
		totals[i] = page.Total
	}
	return totals, nil
}

// stop stops the programs. What they have written is read when it returns.
func (l *sessionLoad) stop(ctx context.Context) error {
	for _, id := range l.ids {
		if err := l.session.Signal(ctx, messages.Signal{Process: id, Signal: syscall.SIGSTOP}); err != nil {
			return fmt.Errorf("flood %d: %w", id, err)
		}
	}
	for before := int64(-1); ; time.Sleep(loadSettle) {
		now, err := l.bytes(ctx)
		if err != nil || now == before {
			return err
		}
		before = now
	}
}

func sum(numbers []int64) (all int64) {
	for _, n := range numbers {
		all += n
	}
	return all
}

func (l *sessionLoad) end() {
	ctx, cancel := context.WithTimeout(context.Background(), eventPatience)
	defer cancel()
	var all sync.WaitGroup
	for _, id := range l.ids {
		all.Go(func() { _, _ = l.session.Terminate(ctx, messages.Terminate{Process: id, Grace: new(time.Duration)}) })
	}
	all.Wait()
}
