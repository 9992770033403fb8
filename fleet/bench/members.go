package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/fleet"
	"github.com/execbus/execbus/fleet/embedded"
	"github.com/execbus/execbus/tests/harness"
)

// roleFlag makes this program a member of a fleet: a server with a directory, or nodes with a URL, a first number, how many they are,
// and their LostAfter. It is not for users.
const roleFlag = "-role"

const (
	// lostAfter of nodes makes them read the books every 20 s. Where that is not what is measured they have their default.
	lostAfter = 12 * time.Second
	slots     = 5000
	// endWait is how long a member may take to end.
	endWait = 30 * time.Second
)

// traffic is what a node has sent and received.
type traffic struct{ Out, In uint64 }

// serve is the main function of a member. It says when it is ready, answers "memory" and "traffic" on its input, and ends with that.
func serve(words []string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var connections []*nats.Conn
	var end func() error
	switch {
	case words[0] == "server" && len(words) == 2:
		server, err := embedded.Start(embedded.Options{Dir: words[1], Listen: "127.0.0.1:0", Token: "bench"})
		if err != nil {
			return err
		}
		end = func() error { server.Close(); return nil }
		fmt.Println(server.URL())
	case words[0] == "nodes" && len(words) == 5:
		first, err1 := strconv.Atoi(words[2])
		many, err2 := strconv.Atoi(words[3])
		lost, err3 := time.ParseDuration(words[4])
		rt, err4 := execbus.Start(execbus.Options{})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return err
		}
		served := make(chan error, many)
		var ready sync.WaitGroup
		for n := range many {
			nc, err := fleet.Connect(words[1])
			if err != nil {
				return err
			}
			connections = append(connections, nc)
			ready.Add(1)
			go func() {
				served <- fleet.Serve(ctx, nc, rt, fleet.Node{ID: fmt.Sprint("n", first+n), Slots: slots, LostAfter: lost, Ready: ready.Done})
			}()
		}
		up := make(chan struct{})
		go func() { ready.Wait(); close(up) }()
		select {
		case err := <-served:
			return err
		case <-up:
		}
		end = func() (err error) {
			stop()
			for range many {
				err = errors.Join(err, <-served)
			}
			ending, cancel := context.WithTimeout(context.Background(), endWait)
			defer cancel()
			err = errors.Join(err, rt.Shutdown(ending))
			for _, nc := range connections {
				nc.Close()
			}
			return err
		}
		fmt.Println("ready")
	default:
		return fmt.Errorf("there is no such role: %q", words)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "memory":
			debug.FreeOSMemory()
			kib, err := harness.ResidentKiB(os.Getpid())
			if err != nil {
				return err
			}
			fmt.Println(kib)
		case "traffic":
			var sum traffic
			for _, nc := range connections {
				stats := nc.Stats()
				sum.Out, sum.In = sum.Out+stats.OutBytes, sum.In+stats.InBytes
			}
			text, _ := json.Marshal(sum)
			fmt.Println(string(text))
		}
	}
	return end()
}

// member is such a process.
type member struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said string
}

// ask sends a word and returns the answer.
func (m *member) ask(word string, answer any) error {
	if _, err := fmt.Fprintln(m.in, word); err != nil {
		return err
	}
	line, err := m.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

// world is a fleet of processes.
type world struct {
	dir     string
	members []*member // the server is the first
	nc      *nats.Conn
}

// newWorld starts a server and processes with so many nodes each. A LostAfter of zero is the default.
func newWorld(ctx context.Context, lost time.Duration, nodes ...int) (w *world, err error) {
	w = &world{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "execbus-fleet-bench-"); err != nil {
		return w, err
	}
	if err := w.start(ctx, "server", w.dir); err != nil {
		return w, err
	}
	url := w.members[0].said
	if w.nc, err = fleet.Connect(url); err != nil {
		return w, err
	}
	if err := fleet.Setup(ctx, w.nc, fleet.Settings{}); err != nil {
		return w, err
	}
	first := 0
	for _, many := range nodes {
		if err := w.start(ctx, "nodes", url, strconv.Itoa(first), strconv.Itoa(many), lost.String()); err != nil {
			return w, err
		}
		first += many
	}
	return w, nil
}

// start starts a member. It ends at the end of its input, so also when this process is gone.
func (w *world) start(ctx context.Context, words ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{roleFlag}, words...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us
	cmd.WaitDelay, cmd.Stderr = endWait, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel = func() error { _ = in.Close(); return nil }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	m := &member{cmd: cmd, in: in, out: bufio.NewReader(out)}
	w.members = append(w.members, m)
	line, err := m.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("a %s did not become ready: %w", words[0], err)
	}
	m.said = strings.TrimSpace(line)
	return nil
}

// close ends the members, the server last.
func (w *world) close() (err error) {
	if w.nc != nil {
		w.nc.Close()
	}
	for _, m := range slices.Backward(w.members) {
		_ = m.in.Close()
		err = errors.Join(err, m.cmd.Wait())
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// memory is the resident memory of all members, in KiB.
func (w *world) memory() (sum float64, err error) {
	for _, m := range w.members {
		var kib float64
		if err := m.ask("memory", &kib); err != nil {
			return 0, err
		}
		sum += kib
	}
	return sum, nil
}

// traffic is that of all nodes so far.
func (w *world) traffic() (sum traffic, err error) {
	for _, m := range w.members[1:] {
		var one traffic
		if err := m.ask("traffic", &one); err != nil {
			return sum, err
		}
		sum.Out, sum.In = sum.Out+one.Out, sum.In+one.In
	}
	return sum, nil
}
