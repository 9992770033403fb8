package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

const (
	// loadFloods is how many programs flood their pipes beside the echo, and loadSettle how long they do before it counts.
	loadFloods = 8
	loadSettle = 200 * time.Millisecond
)

// floodProgram writes the same line as fast as it is read.
var floodProgram = []string{"yes"}

func loadedCases() []benchCase {
	loaded := func(name, about string, typical, tail metric, open func(ctx context.Context) (echoer, error)) benchCase {
		typical.name, typical.unit, tail.name, tail.unit = "median", microseconds, "p99", microseconds
		return benchCase{name: name, about: about, metrics: []metric{typical, tail, {name: "floods", unit: megabytes}},
			run: func(ctx context.Context, h *harness) ([]value, error) { return compareLoadedEchoes(ctx, h, open) }}
	}
	return []benchCase{
		loaded("echo-loaded", "echo while 8 floods are read, by a runtime or by bare loops",
			metric{judge: atMost, limit: 1.5}, metric{judge: atMost, limit: 2}, openChildEcho),
		loaded("echo-loaded-session", "echo-session while the same floods are read", metric{}, metric{}, openSessionEcho),
	}
}

// compareLoadedEchoes gives each way its own floods, one way after the other.
func compareLoadedEchoes(ctx context.Context, h *harness, open func(ctx context.Context) (echoer, error)) ([]value, error) {
	runtime, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	defer shutDown(runtime)
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		return nil, err
	}
	bare, err := openBareEcho(ctx)
	if err != nil {
		return nil, wrap("bare", err)
	}
	defer bare.close()
	ours, err := open(ctx)
	if err != nil {
		return nil, wrap("ours", err)
	}
	defer ours.close()
	turns, lasts := h.some(3, 1), time.Duration(h.some(1000, 700))*time.Millisecond
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var bares, echoes loadedTurns
		for range turns {
			if err := bares.add(ctx, bare, bareFloods, lasts); err != nil {
				return nil, nil, wrap("bare", err)
			}
			floods := func(ctx context.Context) (floods, error) { return sessionFloods(ctx, session) }
			if err := echoes.add(ctx, ours, floods, lasts); err != nil {
				return nil, nil, wrap("ours", err)
			}
		}
		return bares.values(), echoes.values(), nil
	})
}

// floods are programs that flood while something else is measured.
type floods interface {
	// bytes is how much was read so far.
	bytes(ctx context.Context) (int64, error)
	end()
}

// loadedTurns are the turns of one way in one pair: the round trips, and MB/s of the floods.
type loadedTurns struct{ took, speeds []float64 }

func (t *loadedTurns) values() []float64 {
	return []float64{median(t.took), quantile(t.took, 0.99), median(t.speeds)}
}

func (t *loadedTurns) add(ctx context.Context, e echoer, start func(ctx context.Context) (floods, error), lasts time.Duration) error {
	f, err := start(ctx)
	if err != nil {
		return err
	}
	defer f.end()
	time.Sleep(loadSettle)
	before, err := f.bytes(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for time.Since(began) < lasts {
		if t.took, err = echoTurn(ctx, e, t.took); err != nil {
			return err
		}
	}
	took := time.Since(began)
	after, err := f.bytes(ctx)
	if err == nil && after == before {
		err = errors.New("the floods did not flow")
	}
	t.speeds = append(t.speeds, float64(after-before)/1e6/took.Seconds())
	return err
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
		result, err := l.session.Exec(ctx, messages.ExecCommand{Argv: floodProgram, NoWait: true})
		if err != nil {
			l.end()
			return err
		}
		l.ids = append(l.ids, result.Process)
	}
	return nil
}

func (l *sessionLoad) bytes(ctx context.Context) (int64, error) {
	totals, err := l.totals(ctx)
	return sum(totals), err
}

// totals is how much was read of each.
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
		all.Go(func() { _, _ = l.session.Terminate(ctx, messages.Terminate{Process: id, Grace: -1}) })
	}
	all.Wait()
}
