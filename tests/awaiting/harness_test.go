//go:build linux

package awaiting

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

const patience = time.Minute

// pause is the time between two looks.
const pause = 2 * time.Millisecond

// serveWord makes this program a server.
const serveWord = "serve"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == serveWord {
		serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// testCase is a dialogue with one program.
type testCase struct {
	name  string
	needs string   // more programs, separated by spaces
	argv  []string // nil: script is run by bash
	// script is the text for bash -c.
	script string
	pipes  bool
	steps  []step
}

// step is what is typed, and what must come of it.
type step struct {
	send  string
	shows string // what the program has shown by then
	want  messages.InputKind
	plain bool   // it may be a line instead: the program is also built without a line editor
	guess bool   // the kind must be a guess
	by    string // the program that waits; empty for any
	// works says that the program works until it shows the text. Nobody must be said to wait for a line or a secret before.
	works bool
}

// dialogue is a program that runs.
type dialogue struct {
	*testing.T
	child ptyio.Child
	over  chan struct{} // closed when its tree and its output have ended

	mu     sync.Mutex // guards text, which the reader appends to
	text   strings.Builder
	events sync.WaitGroup
}

// talk starts a program.
func talk(t *testing.T, spawner ptyio.Spawner, enclosure ptyio.Enclosure, c testCase) *dialogue {
	t.Helper()
	argv := c.argv
	if argv == nil {
		argv = []string{"bash", "-c", c.script}
	}
	for _, program := range append(strings.Fields(c.needs), argv[0]) {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed", program)
		}
	}
	dir := t.TempDir()
	d := &dialogue{T: t, over: make(chan struct{})}
	d.events.Add(2)
	go func() {
		d.events.Wait()
		close(d.over)
	}()
	child, err := spawner.Spawn(t.Context(), ptyio.Launch{Argv: argv, Dir: dir, TTY: !c.pipes, OpenStdin: c.pipes, Merged: true, Sandbox: enclosure, Unattended: true,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "TERM=xterm", "SHELL=/bin/sh", "PS1=ready> ", "LANG=C.UTF-8", "EDITOR=vim", "PAGER=less",
			"LESS=", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_NOSYSTEM=1",
			"GOCACHE=" + dir + "/cache", "GOFLAGS=-mod=mod", "GOPATH=" + dir + "/go", "GO111MODULE=on", "GOTOOLCHAIN=local", "PYTHONDONTWRITEBYTECODE=1"},
		Events: func(event ptyio.Event) {
			switch e := event.(type) {
			case ptyio.Output:
				d.mu.Lock()
				d.text.Write(e.Bytes)
				d.mu.Unlock()
				e.Release()
			case ptyio.Closed, ptyio.TreeEnded:
				d.events.Done()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	d.child = child
	t.Cleanup(func() {
		child.EndTree(0)
		select {
		case <-d.over:
		case <-time.After(patience):
			t.Error("it does not end")
		}
	})
	return d
}

func (d *dialogue) shown() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// look asks what the program waits for. Text and answer agree: the text was shown when the program began to wait.
func (d *dialogue) look() *messages.AwaitedInput {
	d.Helper()
	awaited, err := d.child.(ptyio.Inquirer).AwaitedInput()
	if err != nil {
		d.Skipf("skipped: %v", err)
	}
	return awaited
}

// step takes one step, and reports whether it came out as it must. A program that does not come to what it must show decides nothing: it is
// of another version, or the machine is too slow.
func (d *dialogue) step(s step) bool {
	d.Helper()
	from := 0
	if s.send != "" {
		from = len(d.shown())
		d.child.Write([]byte(s.send), time.Now().Add(patience), func(ptyio.Taken, error) {}) // what is not taken has no effect that is shown
	}
	late := time.After(patience)
	for {
		before := d.shown()[from:]
		awaited := d.look()
		shown := d.shown()[from:]
		ready := strings.Contains(shown, s.shows)
		switch {
		case s.works && strings.Contains(before, s.shows):
			return true
		case awaited == nil:
		case s.works && ready: // it may wait again by now
		case ready && awaited.Guess == s.guess && (awaited.Kind == s.want || s.plain && awaited.Kind == messages.InputLine):
			if s.by == "" || awaited.Program == s.by {
				return true
			} // another may have been seen in the moment before
		case (awaited.Kind != messages.InputKeys || awaited.Only) && !awaited.Guess: // these end a call at once
			d.Errorf("after %q: %+v; it has shown %q", s.send, *awaited, shown)
			return false
		}
		select {
		case <-late:
			if !ready {
				d.Skipf("skipped: after %q it has not shown %q, but %q", s.send, s.shows, shown)
			}
			d.Errorf("after %q: want %q and %q by %q; it is %+v and has shown %q", s.send, s.want, s.shows, s.by, awaited, shown)
			return false
		case <-d.over:
			if s.works && strings.Contains(d.shown()[from:], s.shows) {
				return true
			}
			d.Skipf("skipped: after %q it has ended, and shown %q", s.send, d.shown()[from:])
		case <-time.After(pause):
		}
	}
}

func (d *dialogue) take(steps []step) {
	d.Helper()
	for _, s := range steps {
		if !d.step(s) {
			return
		}
	}
}

func newSpawner(t *testing.T, o sandbox.Options) ptyio.Spawner {
	t.Helper()
	spawner, err := sandbox.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := spawner.Close(); err != nil {
			t.Error(err)
		}
	})
	return spawner
}

// enclose confines what is started; it skips a level that this machine does not have.
func enclose(t *testing.T, spawner ptyio.Spawner, level messages.Assurance) ptyio.Enclosure {
	t.Helper()
	return encloseBy(t, spawner, level, messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite})
}

func encloseBy(t *testing.T, spawner ptyio.Spawner, level messages.Assurance, policy messages.SandboxPolicy) ptyio.Enclosure {
	t.Helper()
	e, err := spawner.Enclose(context.Background(), ptyio.Confinement{Dir: os.TempDir(), Least: level, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Release)
	if enforced, err := spawner.Can(ptyio.Launch{Argv: []string{"true"}, Sandbox: e}); err != nil || enforced.Level != level {
		t.Skipf("skipped: %s cannot be had here: %+v, %v", level, enforced, err)
	}
	return e
}
