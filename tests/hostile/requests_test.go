//go:build linux

package hostile_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// request is a command that cannot be run, and the error it must get.
type request struct {
	name    string
	command messages.ExecCommand
	code    messages.ErrorCode
	says    string
	user    bool // root is allowed to do it
}

// badRequests returns requests that must fail. It makes their files in dir.
func badRequests(t *testing.T, dir string) []request {
	t.Helper()
	file := func(name string, mode os.FileMode, text string) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, []byte(text), 0o600))
		must(os.Chmod(path, mode))
		return path
	}
	folder := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		must(os.Mkdir(path, 0o700))
		must(os.Chmod(path, mode))
		return path
	}
	link := func(name, target string) string {
		must(os.Symlink(target, filepath.Join(dir, name)))
		return filepath.Join(dir, name)
	}
	fifo := filepath.Join(dir, "fifo")
	must(syscall.Mkfifo(fifo, 0o700))
	deleted := folder("deleted", 0o700)
	must(os.Remove(deleted))
	busy := file("busy", 0o700, "\x7fELF")
	writer, err := os.OpenFile(busy, os.O_WRONLY, 0)
	must(err)
	t.Cleanup(func() { _ = writer.Close() })
	closed := folder("closed", 0)
	must(os.WriteFile(filepath.Join(folder("behind", 0o700), "program"), []byte("#!/bin/sh\n"), 0o700))
	must(os.Chmod(filepath.Join(dir, "behind"), 0))
	argv := func(words ...string) messages.ExecCommand { return messages.ExecCommand{Argv: words} }
	in := func(dir string) messages.ExecCommand { return messages.ExecCommand{Argv: []string{"true"}, Dir: dir} }
	with := func(change func(*messages.ExecCommand)) messages.ExecCommand {
		command := argv("true")
		change(&command)
		return command
	}
	environment := func(policy messages.EnvironmentPolicy) messages.ExecCommand {
		return messages.ExecCommand{Argv: []string{"true"}, Environment: &policy}
	}
	const invalid, failed, missing = messages.ErrInvalidRequest, messages.ErrSpawnFailed, messages.ErrNoSuchProgram
	return []request{
		{name: "missing program", command: argv("no-such-program-here"), code: missing},
		{name: "missing path", command: argv("/no/such/program"), code: missing},
		{name: "missing relative path", command: argv("./no-such-program"), code: missing},
		{name: "missing without PATH", command: environment(messages.EnvironmentPolicy{Exact: true, Set: map[string]string{"PATH": "/no/such"}}), code: missing},
		{name: "a directory", command: argv(dir), code: failed, says: "directory"},
		{name: "a file in place of a folder", command: argv("/etc/passwd/program"), code: failed},
		{name: "no execute permission", command: argv(file("plain", 0o644, "#!/bin/sh\n")), code: failed, says: "permission"},
		{name: "no execute permission, in PATH", command: messages.ExecCommand{Argv: []string{"plain"}, Environment: &messages.EnvironmentPolicy{
			Set: map[string]string{"PATH": dir}}}, code: failed, says: "executable"},
		{name: "behind a closed folder", command: argv(filepath.Join(dir, "behind", "program")), code: failed, says: "permission", user: true},
		{name: "bad interpreter", command: argv(file("orphan", 0o755, "#!/no/such/interpreter\n")), code: failed, says: "interpreter"},
		{name: "interpreter is a directory", command: argv(file("odd", 0o755, "#!/tmp\n")), code: failed},
		{name: "interprets itself", command: argv(file("loop", 0o755, "#!"+filepath.Join(dir, "loop")+"\n")), code: failed},
		{name: "no program", command: argv(file("garbage", 0o755, "\x01\x02\x03")), code: failed, says: "cannot run that file"},
		{name: "empty file", command: argv(file("empty", 0o755, "")), code: failed, says: "cannot run that file"},
		{name: "cut off binary", command: argv(file("cut", 0o755, "\x7fELF\x02\x01\x01")), code: failed},
		{name: "open for writing", command: argv(busy), code: failed, says: "busy"},
		{name: "a fifo", command: argv(fifo), code: failed, says: "permission"},
		{name: "a device", command: argv("/dev/null"), code: failed, says: "permission"},
		{name: "a loop of links", command: argv(link("round", filepath.Join(dir, "round"))), code: failed},
		{name: "a name too long", command: argv("/" + strings.Repeat("x", 5000)), code: failed},
		{name: "no command", command: messages.ExecCommand{}, code: invalid},
		{name: "empty argv", command: messages.ExecCommand{Argv: []string{}}, code: invalid},
		{name: "empty name", command: argv("", "x"), code: invalid},
		{name: "script and argv", command: messages.ExecCommand{Argv: []string{"true"}, Script: "true"}, code: invalid},
		{name: "shell without script", command: messages.ExecCommand{Argv: []string{"true"}, Shell: "bash"}, code: invalid},
		{name: "unknown shell", command: messages.ExecCommand{Script: "true", Shell: "/no/such/fish"}, code: invalid},
		{name: "NUL in an argument", command: argv("echo", "a\x00b"), code: invalid},
		{name: "NUL in the name", command: argv("ec\x00ho"), code: invalid},
		{name: "NUL in argv0", command: with(func(c *messages.ExecCommand) { c.Argv0 = "a\x00b" }), code: invalid},
		{name: "NUL in a script", command: messages.ExecCommand{Script: "echo a\x00b", Shell: "bash"}, code: invalid},
		{name: "NUL in the directory", command: in("/tmp\x00/x"), code: invalid, says: "dir: "},
		{name: "NUL in a variable", command: environment(messages.EnvironmentPolicy{Set: map[string]string{"A": "a\x00b"}}), code: invalid},
		{name: "= in a variable's name", command: environment(messages.EnvironmentPolicy{Set: map[string]string{"A=B": "c"}}), code: invalid},
		{name: "a variable without name", command: environment(messages.EnvironmentPolicy{Set: map[string]string{"": "c"}}), code: invalid},
		{name: "unknown inheritance", command: environment(messages.EnvironmentPolicy{Inherit: "everything"}), code: invalid},
		{name: "unknown fate of children", command: with(func(c *messages.ExecCommand) { c.OnLeaderExit = "adopt" }), code: invalid},
		{name: "negative yield", command: with(func(c *messages.ExecCommand) { c.Yield = new(time.Duration(-1)) }), code: invalid},
		{name: "negative grace", command: with(func(c *messages.ExecCommand) { c.Grace = new(time.Duration(math.MinInt64)) }), code: invalid},
		{name: "negative tokens", command: with(func(c *messages.ExecCommand) { c.MaxOutputTokens = new(-1) }), code: invalid},
		{name: "3 MiB argument", command: argv("true", strings.Repeat("a", 3<<20)), code: failed, says: "too long"},
		{name: "3 MiB of arguments", command: argv(slices.Repeat([]string{"true", strings.Repeat("a", 100<<10)}, 30)...), code: failed, says: "too long"},
		{name: "3 MiB script", command: messages.ExecCommand{Script: strings.Repeat("#", 3<<20), Shell: "bash"}, code: invalid, says: "at most 131071"},
		{name: "16 MiB of arguments", command: argv(slices.Repeat([]string{"true", strings.Repeat("a", 100<<10)}, 160)...), code: invalid},
		{name: "a quarter of a million arguments", command: argv(slices.Repeat([]string{"true"}, 1<<18)...), code: failed, says: "too long"},
		{name: "3 MiB variable", command: environment(messages.EnvironmentPolicy{Set: map[string]string{"A": strings.Repeat("a", 3<<20)}}), code: failed, says: "too long"},
		{name: "missing directory", command: in("/no/such/directory"), code: failed, says: "working directory"},
		{name: "deleted directory", command: in(deleted), code: failed, says: "working directory"},
		{name: "a file for a directory", command: in("/etc/passwd"), code: failed, says: "working directory"},
		{name: "a fifo for a directory", command: in(fifo), code: failed, says: "working directory"},
		{name: "a directory in a loop", command: in(filepath.Join(dir, "round", "x")), code: failed, says: "working directory"},
		{name: "a directory's name too long", command: in("/" + strings.Repeat("x/", 4000)), code: failed, says: "working directory"},
		{name: "unreadable directory", command: in(closed), code: failed, says: "permission", user: true},
	}
}

// Commands that cannot be run are requested on pipes and on terminals, with and without waiting, as commands and as runs.
func TestRequests(t *testing.T) {
	dir := scratch(t, "requests")
	t.Cleanup(func() {
		_ = os.Chmod(filepath.Join(dir, "behind"), 0o700)
		_ = os.Chmod(filepath.Join(dir, "closed"), 0o700)
	})
	cases := badRequests(t, dir)
	t.Run("in one session", func(t *testing.T) {
		h := open(t, execbus.Options{})
		neighbour := h.run(h.bash(false, `read x; exit 9`), false)
		had := len(descriptors())
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				ledger.enter(t)
				if c.user && os.Geteuid() == 0 {
					skip(t, "root may do it")
				}
				for _, tty := range []bool{false, true} {
					c.command.TTY, c.command.OpenStdin = tty, false
					_, err := h.Exec(h.ctx, c.command)
					c.judge(t, err)
					c.command.OpenStdin = true
					_, err = h.Start(h.ctx, c.command)
					c.judge(t, err)
				}
				_, err := h.Run(h.ctx, messages.RunCommand{Argv: c.command.Argv, Script: c.command.Script, Shell: c.command.Shell,
					Dir: c.command.Dir, Environment: c.command.Environment})
				if c.command.Argv0+string(c.command.OnLeaderExit) == "" && c.command.Yield == nil && c.command.Grace == nil && c.command.MaxOutputTokens == nil {
					c.judge(t, err)
				}
			})
		}
		if list, err := h.List(h.ctx); err != nil || len(list) != 1 {
			t.Errorf("the list has %d processes: %v", len(list), err)
		}
		neighbour.write("\n")
		if ended := neighbour.end(); ended.Status != messages.StatusExited(9) {
			t.Errorf("the neighbour: %s", ended.String())
		}
		if _, ok := within(patience, func() bool { return len(descriptors()) <= had }); !ok {
			t.Errorf("%d descriptors, before %d: %q", len(descriptors()), had, descriptors())
		}
		h.reaped()
	})
}

func (c request) judge(t *testing.T, err error) {
	t.Helper()
	code := codeOf(err)
	note(t, "%s", code)
	if code != c.code || err == nil || !strings.Contains(err.Error(), c.says) {
		t.Errorf("tty=%v, input=%v: %.300v; want %s that says %q", c.command.TTY, c.command.OpenStdin, err, c.code, c.says)
	}
}

// Sessions are opened in directories in which nothing can run.
func TestSessionsInBadDirectories(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	gone := filepath.Join(h.dir, "gone")
	must(os.Mkdir(gone, 0o700))
	session := h.session(execbus.SessionOptions{Dir: gone})
	if _, err := session.Exec(h.ctx, messages.ExecCommand{Argv: []string{"true"}}); err != nil {
		t.Error(err)
	}
	must(os.Remove(gone))
	for _, command := range []messages.ExecCommand{{Argv: []string{"true"}}, {Argv: []string{"true"}, Dir: "below"}, {Argv: []string{"./x"}}} {
		_, err := session.Exec(h.ctx, command)
		if codeOf(err) != messages.ErrSpawnFailed {
			t.Errorf("in a directory that is gone: %v", err)
		}
	}
	if result, err := session.Exec(h.ctx, messages.ExecCommand{Argv: []string{"true"}, Dir: ".."}); err != nil || result.Status != messages.StatusExited(0) {
		t.Errorf("beside it: %+v, %v", result, err)
	}
	note(t, "%s, and beside it code(0)", messages.ErrSpawnFailed)
}

func TestSizes(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	for _, c := range []struct {
		size messages.Size
		says string
	}{
		{messages.Size{}, "24 80"},
		{messages.Size{Rows: 1, Cols: 1}, "1 1"},
		{messages.Size{Rows: math.MaxUint16, Cols: math.MaxUint16}, "65535 65535"},
		{messages.Size{Cols: 7}, "24 7"},
	} {
		command := h.bash(true, `stty size; trap 'stty size; exit 3' WINCH; echo up; while :; do sleep 0.01; done`)
		command.Size = c.size
		p := h.run(command, false)
		p.awaitOutput(c.says + "\r\n")
		p.awaitOutput("up")
		if err := h.Resize(h.ctx, messages.Resize{Process: p.id, Size: messages.Size{Rows: 100, Cols: 100}}); err != nil {
			t.Error(err)
		}
		p.awaitOutput("100 100\r\n")
		p.end()
		p = h.run(h.bash(true, `trap 'stty size; exit 3' WINCH; echo up; while :; do sleep 0.01; done`), false)
		p.awaitOutput("up")
		want := c.says
		if c.size.OrDefault() == (messages.Size{}).OrDefault() { // the terminal already has that size, so there is no SIGWINCH
			want = ""
		}
		if err := h.Resize(h.ctx, messages.Resize{Process: p.id, Size: c.size}); err != nil {
			t.Error(err)
		}
		if want == "" {
			p.terminate()
		} else {
			p.awaitOutput(want + "\r\n")
		}
		p.end()
	}
	p := h.run(h.bash(false, `sleep $1`), false)
	if err := h.Resize(h.ctx, messages.Resize{Process: p.id, Size: messages.Size{}.OrDefault()}); codeOf(err) != messages.ErrNotATerminal {
		t.Errorf("resize pipes: %v", err)
	}
	p.terminate()
	p.end()
	note(t, "0x0 is 24x80, 65535x65535 is itself, pipes: %s", messages.ErrNotATerminal)
}

// operations returns everything that a caller can do with an id.
func operations(h *host, id messages.ProcessID) map[string]func() error {
	return map[string]func() error{
		"poll": func() error { _, err := h.Poll(h.ctx, messages.Poll{Process: id}); return err },
		"write": func() error {
			_, err := h.Write(h.ctx, messages.WriteStdin{Process: id, Bytes: []byte("x")})
			return err
		},
		"empty write": func() error { _, err := h.Write(h.ctx, messages.WriteStdin{Process: id}); return err },
		"close stdin": func() error { return h.CloseStdin(h.ctx, messages.CloseStdin{Process: id}) },
		"resize":      func() error { return h.Resize(h.ctx, messages.Resize{Process: id, Size: messages.Size{}.OrDefault()}) },
		"signal":      func() error { return h.Signal(h.ctx, messages.Signal{Process: id, Signal: 15}) },
		"signal tree": func() error { return h.Signal(h.ctx, messages.Signal{Process: id, Signal: 15, Tree: true}) },
		"terminate":   func() error { _, err := h.Terminate(h.ctx, messages.Terminate{Process: id}); return err },
		"read": func() error {
			_, err := h.Read(h.ctx, messages.ReadOutput{Process: id, Tail: 10})
			return err
		},
	}
}

func TestUnknownIDs(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	p := h.run(h.bash(false, `sleep $1`), false)
	for _, id := range []messages.ProcessID{0, -1, 999, 100_000, math.MaxInt, math.MinInt, messages.ProcessID(os.Getpid()) + 100_000} {
		for name, operation := range operations(h, id) {
			if code := codeOf(operation()); code != messages.ErrUnknownProcess {
				t.Errorf("%s of %d: %q", name, id, code)
			}
		}
	}
	other := *h
	other.Session = h.session(execbus.SessionOptions{})
	for name, operation := range operations(&other, p.id) {
		if code := codeOf(operation()); code != messages.ErrUnknownProcess {
			t.Errorf("%s from another session: %q", name, code)
		}
	}
	p.terminate()
	p.end()
	for name, operation := range operations(h, p.id) {
		want, first := messages.ErrProcessEnded, false
		switch name {
		case "read":
			want = ""
		case "poll", "empty write", "write": // the first of these gets the end
			first = true
		}
		if code := codeOf(operation()); code != want && (!first || code != "") {
			t.Errorf("%s after the end: %q", name, code)
		}
	}
	note(t, "%s; after the end %s", messages.ErrUnknownProcess, messages.ErrProcessEnded)
}

// A session forgets a process, and its id is given to another one. The id then names only the new process.
func TestRecycledIDs(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	h.Session = h.session(execbus.SessionOptions{DeterministicIDs: true, Dir: h.dir})
	var big []*program
	for range 8 { // they run first, and then their records fill the memory
		big = append(big, h.run(h.role(false, "flood", "4000000"), true))
		awaitEvent[messages.ExecExited](big[len(big)-1])
	}
	for range sample(40) {
		old := h.run(h.bash(false, `echo old; read x`), false)
		old.awaitOutput("old")
		stale := make(chan error)
		go func() { _, err := h.Poll(h.ctx, messages.Poll{Process: old.id, NoTimeout: true}); stale <- err }()
		old.write("\n")
		old.end()
		if err := <-stale; err != nil && codeOf(err) != messages.ErrProcessEnded {
			t.Errorf("the poll of the old one: %v", err)
		}
		h.forget(old.id)
		if code := codeOf(operations(h, old.id)["read"]()); code != messages.ErrUnknownProcess {
			t.Fatalf("the id %d is not forgotten: %q", old.id, code)
		}
	}
	note(t, "forgotten ids: %s", messages.ErrUnknownProcess)
}

// forget runs commands until the record of an id is dropped.
func (h *host) forget(id messages.ProcessID) {
	h.t.Helper()
	eventually(h.t, "the record is pushed out", func() bool {
		h.run(h.bash(false, `exit`), true).end()
		_, err := h.Read(h.ctx, messages.ReadOutput{Process: id, Tail: 1})
		return codeOf(err) == messages.ErrUnknownProcess
	})
}

// A session remembers commands that never ran. The memory for that must not grow with their size.
func TestRefusedCommandsHoldNoMemory(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	before := heapNow()
	const size, count = 16 << 20, 24
	for range count {
		_, err := h.Exec(h.ctx, messages.ExecCommand{Argv: []string{"true", strings.Repeat("x", size)}})
		if codeOf(err) != messages.ErrInvalidRequest {
			t.Errorf("16 MiB of arguments: %v", err)
		}
	}
	grown := heapNow() - before
	note(t, "%d commands of %d MiB: heap +%d MiB", count, size>>20, grown>>20)
	if grown > 64<<20 {
		t.Errorf("%d refused commands hold %d MiB", count, grown>>20)
	}
}
