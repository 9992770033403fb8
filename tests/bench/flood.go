package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

const (
	// floodSize bytes go through one PTY while a pair is timed, and floodWhole bytes in the check before it.
	floodSize  = 64 << 20
	floodWhole = 512 << 20
	// floodPatience bounds one flood.
	floodPatience = 2 * time.Minute
	// floodPeriod is after how many bytes the pattern repeats: a prime, so that a lost page or batch shows.
	floodPeriod = 4093
)

// pattern holds a batch from any offset of the flood.
var pattern = func() []byte {
	p := make([]byte, floodPeriod+ptyio.MaxBatch)
	state := uint32(1)
	for i := range p {
		state = state*1664525 + 1013904223
		p[i] = byte(state >> 24)
		if i >= floodPeriod {
			p[i] = p[i-floodPeriod]
		}
	}
	return p
}()

func floodCases() []benchCase {
	flood := func(name, about string, speed, cpu metric, ours func() (flooder, func(), error)) benchCase {
		speed.unit, cpu.name, cpu.unit = megabytes, "cpu", cpuPerGiB
		return benchCase{name: name, about: about, metrics: []metric{speed, cpu},
			run: func(ctx context.Context, h *harness) ([]value, error) { return compareFloods(ctx, h, ours) }}
	}
	return []benchCase{
		flood("flood", "512 MiB through PTYs, a child of the warden", metric{judge: atLeast, limit: 1.15},
			metric{judge: atMost, limit: 1}, openChildFlood),
		flood("flood-runtime", "the same through a Session without a subscriber", metric{}, metric{}, openSessionFlood),
	}
}

// flooder sends size bytes through a new PTY and checks them.
type flooder func(ctx context.Context, size int) error

// compareFloods alternates short floods: the scheduler's choice of cores for reader and writer makes them several times as
// fast or slow.
func compareFloods(ctx context.Context, h *harness, open func() (flooder, func(), error)) ([]value, error) {
	ours, end, err := open()
	if err != nil {
		return nil, wrap("ours", err)
	}
	defer end()
	return alternateFloods(ctx, h, bareFlood, ours)
}

// alternateFloods alternates between two ways of a flood.
func alternateFloods(ctx context.Context, h *harness, bare, ours flooder) ([]value, error) {
	if err := ours(ctx, h.some(floodWhole, floodSize)); err != nil {
		return nil, wrap("ours", err)
	}
	turns := h.some(8, 2)
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var bares, floods floodTurns
		for range turns {
			if err := bares.add(ctx, bare); err != nil {
				return nil, nil, wrap("bare", err)
			}
			if err := floods.add(ctx, ours); err != nil {
				return nil, nil, wrap("ours", err)
			}
		}
		return bares.medians(), floods.medians(), nil
	})
}

// floodTurns are the floods of one way in one pair: MB/s, and seconds for each GiB.
type floodTurns struct{ speeds, cpus []float64 }

func (t *floodTurns) add(ctx context.Context, run flooder) error {
	cpu, began := cpuTime(), time.Now()
	err := run(ctx, floodSize)
	took, used := time.Since(began), cpuTime()-cpu
	t.speeds = append(t.speeds, floodSize/1e6/took.Seconds())
	t.cpus = append(t.cpus, used.Seconds()/floodSize*(1<<30))
	return err
}

func (t *floodTurns) medians() []float64 { return []float64{median(t.speeds), median(t.cpus)} }

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// floodArgv is this program again as the writer, on a terminal in raw mode.
func floodArgv(size int) ([]string, error) {
	self, err := os.Executable()
	return []string{"/bin/sh", "-c", `stty raw -echo && exec "$0" "$@"`, self, workerFlag, "flood", strconv.Itoa(size), ""}, err
}

// writeFlood is the helper that writes.
func writeFlood(size int, out io.Writer) error {
	for at := 0; at < size; {
		from := at % floodPeriod
		n, err := out.Write(pattern[from : from+min(size-at, ptyio.MaxBatch)])
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// floodCheck compares the bytes that arrive with those that were sent.
type floodCheck struct {
	at  int
	bad error
}

func (c *floodCheck) see(p []byte) {
	from := c.at % floodPeriod
	if c.bad == nil && !bytes.Equal(p, pattern[from:from+len(p)]) {
		c.bad = fmt.Errorf("the %d bytes at %d are not what was written", len(p), c.at)
	}
	c.at += len(p)
}

func (c *floodCheck) result(size int) error {
	if c.bad == nil && c.at != size {
		return fmt.Errorf("%d of %d bytes arrived", c.at, size)
	}
	return c.bad
}

func bareFlood(ctx context.Context, size int) error {
	argv, err := floodArgv(size)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = environment(), "/"
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	var check floodCheck
	buffer := make([]byte, ptyio.MaxBatch)
	for {
		n, err := terminal.Read(buffer)
		check.see(buffer[:n])
		if err != nil { // EIO is the end
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	return check.result(size)
}

func openChildFlood() (flooder, func(), error) {
	spawner, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return nil, nil, err
	}
	run := func(ctx context.Context, size int) error { return childFlood(ctx, spawner, size) }
	return run, func() { _ = spawner.Close() }, nil
}

func childFlood(ctx context.Context, spawner ptyio.Spawner, size int) error {
	argv, err := floodArgv(size)
	if err != nil {
		return err
	}
	var check floodCheck
	closed := make(chan struct{})
	events := func(event ptyio.Event) {
		switch e := event.(type) {
		case ptyio.Output:
			check.see(e.Bytes)
			e.Release()
		case ptyio.Closed:
			close(closed)
		}
	}
	if _, err = spawner.Spawn(ctx, ptyio.Launch{Argv: argv, Env: environment(), Dir: "/", TTY: true, Events: events}); err != nil {
		return err
	}
	select {
	case <-closed:
		return check.result(size)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(floodPatience):
		return errors.New("the flood did not come to its end")
	}
}

func openSessionFlood() (flooder, func(), error) {
	runtime, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = shutDown(runtime) }
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		end()
		return nil, nil, err
	}
	return func(ctx context.Context, size int) error { return sessionFlood(ctx, session, size) }, end, nil
}

// sessionFlood polls until the end. It counts the bytes that it gets, and those that were dropped.
func sessionFlood(ctx context.Context, session *execbus.Session, size int) error {
	argv, err := floodArgv(size)
	if err != nil {
		return err
	}
	result, err := session.Exec(ctx, messages.ExecCommand{Argv: argv, TTY: true, Yield: new(messages.MaxYield)})
	passed := 0
	for err == nil {
		passed += len(result.Output) + int(result.Omitted)
		if !result.Running {
			break
		}
		result, err = session.Poll(ctx, messages.Poll{Process: result.Process, NoTimeout: true})
	}
	if err == nil && passed != size {
		err = fmt.Errorf("%d of %d bytes arrived", passed, size)
	}
	return err
}
