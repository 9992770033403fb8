package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/creack/pty"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// message is sent there and back.
var message = []byte("seventeen bytes.\x00")

// echoArgv puts the terminal into raw mode, says so with one byte, and echoes.
var echoArgv = []string{"/bin/sh", "-c", "stty raw -echo && printf R && exec cat"}

func echoCases() []benchCase {
	echo := func(name, about string, typical, tail metric, open func(ctx context.Context) (echoer, error)) benchCase {
		typical.name, typical.unit, tail.name, tail.unit = "median", microseconds, "p99", microseconds
		return benchCase{name: name, about: about, metrics: []metric{typical, tail},
			run: func(ctx context.Context, h *harness) ([]value, error) { return compareEchoes(ctx, h, open) }}
	}
	return []benchCase{
		echo("echo", "17 bytes to cat on a raw PTY and back, a child of the warden",
			metric{judge: atMost, limit: 1.4}, metric{judge: atMost, limit: 2}, openChildEcho),
		echo("echo-session", "the same through Session.Write and a lossless subscription",
			metric{judge: atMost, limit: 1.5}, metric{}, openSessionEcho),
	}
}

// echoer is a cat with a way to talk to it.
type echoer interface {
	// roundTrip sends the message and returns when all of it is back.
	roundTrip(ctx context.Context) error
	close()
}

func compareEchoes(ctx context.Context, h *harness, open func(ctx context.Context) (echoer, error)) ([]value, error) {
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
	turns := h.some(100, 30)
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		bares, echoes, err := alternateEchoes(ctx, turns, bare, ours)
		if err != nil {
			return nil, nil, err
		}
		return []float64{median(bares), quantile(bares, 0.99)}, []float64{median(echoes), quantile(echoes, 0.99)}, nil
	})
}

// alternateEchoes takes turns between two ways, and returns how long each of their round trips took.
func alternateEchoes(ctx context.Context, turns int, bare, ours echoer) (bares, echoes []float64, err error) {
	for range turns {
		if bares, err = echoTurn(ctx, bare, bares); err != nil {
			return nil, nil, wrap("bare", err)
		}
		if echoes, err = echoTurn(ctx, ours, echoes); err != nil {
			return nil, nil, wrap("ours", err)
		}
	}
	return bares, echoes, nil
}

// echoTrips is the length of a turn. Turns are short because a round trip takes two to four times as long once the scheduler
// has spread the goroutines and processes over the cores, and that lasts for a while.
const echoTrips = 50

func echoTurn(ctx context.Context, e echoer, took []float64) ([]float64, error) {
	for range echoTrips {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		began := time.Now()
		if err := e.roundTrip(ctx); err != nil {
			return nil, err
		}
		took = append(took, micros(time.Since(began)))
	}
	return took, nil
}

// bareEcho uses blocking calls on the master side of the terminal.
type bareEcho struct {
	cmd      *exec.Cmd
	terminal *os.File
	buffer   []byte
}

func openBareEcho(ctx context.Context) (echoer, error) {
	cmd := exec.CommandContext(ctx, echoArgv[0], echoArgv[1:]...)
	cmd.Env, cmd.Dir = environment(), "/"
	terminal, err := pty.Start(cmd)
	if err != nil {
		return nil, err
	}
	e := &bareEcho{cmd: cmd, terminal: terminal, buffer: make([]byte, ptyio.MaxBatch)}
	if _, err := io.ReadFull(terminal, e.buffer[:1]); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *bareEcho) roundTrip(context.Context) error {
	if _, err := e.terminal.Write(message); err != nil {
		return err
	}
	back := 0
	for back < len(message) {
		n, err := e.terminal.Read(e.buffer[back:])
		if err != nil {
			return err
		}
		back += n
	}
	if !bytes.Equal(e.buffer[:back], message) {
		return errEcho(e.buffer[:back])
	}
	return nil
}

func errEcho(got []byte) error { return fmt.Errorf("%q came back as %q", message, got) }

func (e *bareEcho) close() {
	_ = e.terminal.Close() // SIGHUP ends cat
	_ = e.cmd.Wait()
}

// childEcho is a child of the warden.
type childEcho struct {
	spawner ptyio.Spawner
	child   ptyio.Child
	back    chan error // ready, then once for each message that came back
	got     []byte     // only the events of one stream touch it
	timer   *time.Timer
}

func openChildEcho(ctx context.Context) (echoer, error) {
	spawner, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return nil, err
	}
	return newChildEcho(ctx, spawner)
}

// newChildEcho opens an echo whose end closes the spawner.
func newChildEcho(ctx context.Context, spawner ptyio.Spawner) (echoer, error) {
	e := &childEcho{spawner: spawner, back: make(chan error, 2), timer: time.NewTimer(eventPatience)}
	var err error
	e.child, err = spawner.Spawn(ctx, ptyio.Launch{Argv: echoArgv, Env: environment(), Dir: "/", TTY: true, Events: e.event})
	if err == nil {
		err = e.await(ctx)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *childEcho) event(event ptyio.Event) {
	switch event := event.(type) {
	case ptyio.Output:
		e.got = append(e.got, event.Bytes...)
		event.Release()
		switch {
		case string(e.got) == "R" || bytes.Equal(e.got, message):
			e.back <- nil
			e.got = e.got[:0]
		case !bytes.HasPrefix(message, e.got):
			e.back <- errEcho(e.got)
		}
	case ptyio.Exited:
		e.back <- fmt.Errorf("cat ended with %s", event.Status)
	}
}

func (e *childEcho) await(ctx context.Context) error {
	select {
	case err := <-e.back:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-e.timer.C:
		return errors.New("the bytes did not come back")
	}
}

func (e *childEcho) roundTrip(ctx context.Context) error {
	e.timer.Reset(eventPatience)
	e.child.Write(message, time.Time{}, func(int, error) {})
	return e.await(ctx)
}

func (e *childEcho) close() { _ = e.spawner.Close() }

// sessionEcho goes through the whole runtime.
type sessionEcho struct {
	runtime *execbus.Runtime
	session *execbus.Session
	events  *bus.Subscription
	process messages.ProcessID
}

func openSessionEcho(ctx context.Context) (echoer, error) { return newSessionEcho(ctx) }

func newSessionEcho(ctx context.Context) (*sessionEcho, error) {
	runtime, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	e := &sessionEcho{runtime: runtime}
	if err := e.open(ctx); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *sessionEcho) open(ctx context.Context) (err error) {
	if e.session, err = e.runtime.OpenSession(execbus.SessionOptions{Dir: "/"}); err != nil {
		return err
	}
	if e.events, err = e.session.Events(execbus.Watch{Calls: []messages.CallID{"echo"}, Lossless: true}); err != nil {
		return err
	}
	p, err := e.session.Start(ctx, messages.ExecCommand{Call: "echo", Argv: echoArgv, TTY: true})
	if err != nil {
		return err
	}
	e.process = p.ID()
	return e.await(ctx, []byte("R"))
}

// await reads output until want has come.
func (e *sessionEcho) await(ctx context.Context, want []byte) error {
	var got []byte
	for !bytes.Equal(got, want) {
		event, err := e.events.Next(ctx)
		if err != nil {
			return err
		}
		switch event := event.(type) {
		case messages.OutputDelta:
			got = append(got, event.Bytes...)
		case messages.ExecEnded:
			return fmt.Errorf("cat ended with %s", event.Status)
		}
		if len(got) > len(want) {
			return errEcho(got)
		}
	}
	return nil
}

func (e *sessionEcho) roundTrip(ctx context.Context) error {
	if _, err := e.session.Write(ctx, messages.WriteStdin{Process: e.process, Bytes: message, UntilTaken: true}); err != nil {
		return err
	}
	return e.await(ctx, message)
}

func (e *sessionEcho) close() {
	if e.events != nil {
		e.events.Close()
	}
	shutDown(e.runtime)
}

// shutDown ends everything a runtime has started.
func shutDown(runtime *execbus.Runtime) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return runtime.Shutdown(ctx)
}
