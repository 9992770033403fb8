package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// ways are how a client reaches the exec-server.
var ways = []string{"stdio", "websocket"}

func remoteCases() []benchCase {
	var cases []benchCase
	for _, way := range ways {
		more := func(limit float64) []metric {
			return []metric{{unit: microseconds}, {name: "more", unit: microseconds, judge: valueMost, limit: limit}}
		}
		cases = append(cases,
			benchCase{name: "remote-exec-" + way, about: "/bin/true on pipes by Session.Exec: on an exec-server over " + way + ", and in this process",
				metrics: more(500), run: func(ctx context.Context, h *harness) ([]value, error) { return compareRemoteExecs(ctx, h, way) }},
			benchCase{name: "remote-echo-" + way, about: "17 bytes to cat on a raw PTY and back: a child on an exec-server over " + way + ", and one of the warden",
				metrics: more(100), run: func(ctx context.Context, h *harness) ([]value, error) { return compareRemoteEchoes(ctx, h, way) }})
	}
	return append(cases,
		benchCase{name: "remote-flood", about: "512 MiB through PTYs: a child on an exec-server over websocket, and one of the warden",
			metrics: []metric{{unit: megabytes, judge: atLeast, limit: 0.9}, {name: "cpu", unit: cpuPerGiB}}, run: compareRemoteFloods},
		benchCase{name: "remote-rest", about: "resident memory of an exec-server, without its warden: at rest after a command, and with 60 idle processes",
			metrics: []metric{{name: "at rest", unit: mebibytes, judge: valueMost, limit: 20}, {name: "60 idle processes", unit: mebibytes}}, run: measureRemoteRest})
}

// remote is an exec-server in a process of its own, with a client.
type remote struct {
	ptyio.Spawner
	cmd    *exec.Cmd
	remove func()
}

func startRemote(ctx context.Context, way string) (_ *remote, err error) {
	server, remove, err := buildExecbus(ctx)
	if err != nil {
		return nil, err
	}
	r := &remote{cmd: exec.CommandContext(ctx, server, "serve"), remove: remove}
	if way == "stdio" {
		r.cmd.Args = append(r.cmd.Args, "--listen", "stdio")
	}
	r.cmd.Stderr = os.Stderr
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		remove()
		return nil, err
	}
	if r.Spawner, err = connect(ctx, way, out, in); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

func connect(ctx context.Context, way string, out io.ReadCloser, in io.WriteCloser) (ptyio.Spawner, error) {
	if way == "stdio" {
		return client.Connect(ctx, out, in, client.Options{})
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, strings.TrimSpace(url), client.Options{})
}

func (r *remote) close() {
	_ = r.Close()
	r.stop()
}

func (r *remote) stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	_ = r.cmd.Wait()
	r.remove()
}

// compareRemoteExecs alternates between two runtimes: one runs its commands on a server.
func compareRemoteExecs(ctx context.Context, h *harness, way string) ([]value, error) {
	r, err := startRemote(ctx, way)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	here, stop, err := runner(nil)
	if err != nil {
		return nil, err
	}
	defer stop()
	there, stop, err := runner(r.Spawner)
	if err != nil {
		return nil, err
	}
	defer stop()
	turns := h.some(200, 40)
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var inside, outside []float64
		for range turns {
			for _, way := range []struct {
				session *execbus.Session
				took    *[]float64
			}{{here, &inside}, {there, &outside}} {
				began := time.Now()
				result, err := way.session.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/true"}})
				if err != nil || result.Running {
					return nil, nil, fmt.Errorf("%v, %w", result, err)
				}
				*way.took = append(*way.took, micros(time.Since(began)))
			}
		}
		in, out := median(inside), median(outside)
		return []float64{in, in}, []float64{out, out - in}, nil
	})
}

// runner makes a runtime with a session; a spawner that is nil is the runtime's own.
func runner(spawner ptyio.Spawner) (*execbus.Session, func(), error) {
	runtime, err := execbus.Start(execbus.Options{Spawner: spawner})
	if err != nil {
		return nil, nil, err
	}
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		return nil, nil, errors.Join(err, shutDown(runtime))
	}
	return session, func() { _ = shutDown(runtime) }, nil
}

func compareRemoteEchoes(ctx context.Context, h *harness, way string) ([]value, error) {
	r, err := startRemote(ctx, way)
	if err != nil {
		return nil, err
	}
	defer r.close()
	here, err := openChildEcho(ctx)
	if err != nil {
		return nil, wrap("here", err)
	}
	defer here.close()
	there, err := newChildEcho(ctx, r.Spawner)
	if err != nil {
		return nil, wrap("there", err)
	}
	turns := h.some(100, 30)
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		inside, outside, err := alternateEchoes(ctx, turns, here, there)
		if err != nil {
			return nil, nil, err
		}
		in, out := median(inside), median(outside)
		return []float64{in, in}, []float64{out, out - in}, nil
	})
}

func compareRemoteFloods(ctx context.Context, h *harness) ([]value, error) {
	r, err := startRemote(ctx, "websocket")
	if err != nil {
		return nil, err
	}
	defer r.close()
	own, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer own.Close()
	here := func(ctx context.Context, size int) error { return childFlood(ctx, own, size) }
	there := func(ctx context.Context, size int) error { return childFlood(ctx, r.Spawner, size) }
	return alternateFloods(ctx, h, here, there)
}

func measureRemoteRest(ctx context.Context, h *harness) ([]value, error) {
	var resting, loaded []float64
	for range max(h.pairs/3, 1) {
		rest, load, err := restOfRemote(ctx)
		if err != nil {
			return nil, err
		}
		resting, loaded = append(resting, rest), append(loaded, load)
	}
	return []value{single(resting), single(loaded)}, nil
}

// restOfRemote measures one server, in MiB.
func restOfRemote(ctx context.Context) (resting, loaded float64, err error) {
	r, err := startRemote(ctx, "websocket")
	if err != nil {
		return 0, 0, err
	}
	defer r.close()
	ended := make(chan struct{}, 1)
	if err := r.run(ctx, "/bin/true", func(event ptyio.Event) {
		if _, is := event.(ptyio.TreeEnded); is {
			ended <- struct{}{}
		}
	}); err != nil {
		return 0, 0, err
	}
	<-ended
	if resting, err = r.resident(ctx); err != nil {
		return 0, 0, err
	}
	for range idleProcesses {
		if err := r.run(ctx, "/bin/cat", func(ptyio.Event) {}); err != nil {
			return 0, 0, err
		}
	}
	loaded, err = r.resident(ctx)
	return resting, loaded, err
}

func (r *remote) run(ctx context.Context, program string, events func(ptyio.Event)) error {
	_, err := r.Spawn(ctx, ptyio.Launch{Argv: []string{program}, Env: environment(), Dir: "/", TTY: true, Events: events})
	return err
}

// resident is the server's memory after a rest, in MiB.
func (r *remote) resident(ctx context.Context) (float64, error) {
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	kib, err := residentKiB(strconv.Itoa(r.cmd.Process.Pid))
	return float64(kib) / 1024, err
}
