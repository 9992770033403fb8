//go:build linux

package ptyio_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestATerminalHas24RowsAnd80ColumnsUnlessAsked(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		for size, want := range map[messages.Size]string{
			{}: "24 80", {Rows: 50, Cols: 132}: "50 132", {Rows: 7}: "7 80", {Rows: 65535, Cols: 65535}: "65535 65535",
		} {
			l := shell(true, "stty size")
			l.Size = size
			r := start(t, spawner, l)
			r.awaitEnd(t)
			if got := strings.TrimSpace(r.text()); got != want {
				t.Errorf("asked for %v: got %q, want %q", size, got, want)
			}
		}
	})
}

func TestPipesTellStdoutAndStderrApart(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, shell(false, "echo to stdout; echo to stderr >&2"))
		r.awaitEnd(t)
		if out, err := r.output[messages.StreamStdout].String(), r.output[messages.StreamStderr].String(); out != "to stdout\n" || err != "to stderr\n" {
			t.Errorf("stdout %q, stderr %q", out, err)
		}
	})
}

func TestInputOnPipesIsTheNullDeviceUnlessAsked(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		l := shell(false, "readlink /proc/self/fd/0; cat; echo end")
		l.OpenStdin = false
		r := start(t, spawner, l)
		r.awaitOutput(t, "end")
		if got := r.text(); got != "/dev/null\nend\n" {
			t.Errorf("output %q", got)
		}
	})
}

func TestAProgramSeesTheNameItIsGiven(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		l := shell(tty, `tr '\0' '|' </proc/$$/cmdline`)
		l.Argv0 = "-other"
		r := start(t, spawner, l)
		r.awaitEnd(t)
		if got := r.text(); !strings.HasPrefix(got, "-other|-c|") {
			t.Errorf("command line %q", got)
		}
	})
}

// programs makes dir/{a,b}/tool, of which only the one in b can be executed, and dir/link, a link to dir/a.
func programs(t *testing.T) string {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/tool": 0o644, "b/tool": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho found\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "deep/est"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("deep/est", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAProgramIsFoundInThePathOfItsOwnEnvironment(t *testing.T) {
	dir := programs(t)
	cases := map[string]struct{ argv0, path string }{
		"absolute folder":                   {"tool", "/nowhere:" + dir + "/b"},
		"folder relative to Dir":            {"tool", "b"},
		"what cannot be executed is passed": {"tool", dir + "/a:" + dir + "/b"},
		"relative to Dir":                   {"b/tool", "/nowhere"},
		"through a link's parent":           {"link/../../b/tool", "/nowhere"},
	}
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		for name, c := range cases {
			l := launch(false, c.argv0)
			l.Dir, l.Env = dir, []string{"PATH=" + c.path}
			t.Run(name, func(t *testing.T) {
				r := start(t, spawner, l)
				r.awaitEnd(t)
				if r.text() != "found\n" {
					t.Errorf("output %q", r.text())
				}
			})
		}
	})
}

func TestWhatCannotBeExecutedIsATypedErrorAndLeavesNothing(t *testing.T) {
	dir := programs(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	closed, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = closed.Close(), other.Close()
	with := func(change func(*ptyio.Launch), argv ...string) func(bool) ptyio.Launch {
		return func(tty bool) ptyio.Launch {
			l := launch(tty, argv...)
			change(&l)
			return l
		}
	}
	same := func(*ptyio.Launch) {}
	cases := map[string]struct {
		launch func(tty bool) ptyio.Launch
		code   messages.ErrorCode
		says   string
	}{
		"no such file":        {with(same, dir+"/none"), messages.ErrNoSuchProgram, "no such program"},
		"not in PATH":         {with(same, "no-such-program-anywhere"), messages.ErrNoSuchProgram, "PATH"},
		"not executable":      {with(same, dir+"/a/tool"), messages.ErrSpawnFailed, "permission"},
		"a folder":            {with(same, dir), messages.ErrSpawnFailed, "directory"},
		"no such interpreter": {with(same, write("lost", "#!/no/such/interpreter\n")), messages.ErrSpawnFailed, "interpreter"},
		"not a program":       {with(same, write("noise", "\x01\x02\x03\x04")), messages.ErrSpawnFailed, "run"},
		"argument too long":   {with(same, "/bin/echo", strings.Repeat("x", 200<<10)), messages.ErrSpawnFailed, "too long"},
		"no such directory": {with(func(l *ptyio.Launch) { l.Dir = dir + "/none" }, "/bin/true"),
			messages.ErrSpawnFailed, "working directory"},
		"a directory with a newline": {with(func(l *ptyio.Launch) { l.Dir = "/usr\n" }, "/bin/true"),
			messages.ErrSpawnFailed, `spawn "/usr\n": the working directory cannot be used: `},
		"a directory with a NUL": {with(func(l *ptyio.Launch) { l.Dir = "/usr\x00" }, "/bin/true"),
			messages.ErrInvalidRequest, `spawn dir: "/usr\x00" contains a NUL byte`},
		"a variable with a NUL": {with(func(l *ptyio.Launch) { l.Env = append(l.Env, "A=\x00") }, "/bin/true"),
			messages.ErrInvalidRequest, "spawn environment: "},
		"an inherited file that is closed": {with(func(l *ptyio.Launch) { l.Inherit = []ptyio.Inherited{{FD: 3, File: closed}} }, "/bin/true"),
			messages.ErrInvalidRequest, "closed"},
		"an empty command": {with(same), messages.ErrInvalidRequest, "empty"},
	}
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		start(t, spawner, launch(tty, "/bin/true")).awaitEnd(t) // the warden opens its own descriptors before the test counts them
		var before int
		eventually(t, "the descriptors of the first child are closed", func() bool {
			last := before
			before = descriptors()
			return last == before
		})
		for name, c := range cases {
			l := c.launch(tty)
			l.Events = func(event ptyio.Event) { t.Errorf("%s: event %T", name, event) }
			child, err := spawner.Spawn(t.Context(), l)
			if len(l.Inherit) > 0 && isRemote(spawner) {
				c.code, c.says = messages.ErrUnsupported, "descriptors"
			}
			mustBe(t, err, c.code)
			if child != nil || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: child %v, error %v", name, child, err)
			}
		}
		eventually(t, "as few descriptors as before", func() bool { return descriptors() <= before })
	})
}

func TestAShellOnATerminalAnswersAndExits(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, launch(true, "sh"))
		r.awaitOutput(t, "$ ")
		r.write(t, "echo six times seven is $((6*7))\n")
		r.awaitOutput(t, "seven is 42")
		r.write(t, "exit 3\n")
		if status := r.awaitEnd(t); status != messages.StatusExited(3) {
			t.Errorf("status %v", status)
		}
	})
}

func TestPipesCarryInputThereAndBack(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, launch(false, "cat"))
		text := string(letters(300 << 10))
		r.write(t, text)
		if err := r.closeStdin(t); err != nil {
			t.Fatal(err)
		}
		if status := r.awaitEnd(t); status != messages.StatusExited(0) || r.text() != text {
			t.Errorf("status %v, %d bytes came back", status, len(r.text()))
		}
	})
}

func TestAChildLeadsAKernelSessionOfItsOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := start(t, spawner, shell(tty, `cut -d" " -f5,6 /proc/self/stat`))
		r.awaitEnd(t)
		want := fmt.Sprintf("%d %d", r.PID(), r.PID())
		if got := strings.TrimSpace(r.text()); got != want {
			t.Errorf("group and session %q, want %q", got, want)
		}
	})
}

func TestDescriptorsOfAChildBlock(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		if isRemote(spawner) {
			t.Skip("descriptors cannot be passed to a server")
		}
		ours, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		defer theirs.Close()
		l := shell(tty, `for fd in 0 1 2 5; do sed -n 's/^flags:[^0-9]*/flags /p' /proc/$$/fdinfo/$fd; done`)
		l.Inherit = []ptyio.Inherited{{FD: 5, File: theirs}}
		r := start(t, spawner, l)
		r.awaitEnd(t)
		lines := strings.Fields(strings.ReplaceAll(r.text(), "flags", ""))
		if len(lines) != 4 {
			t.Fatalf("output %q", r.text())
		}
		for fd, line := range lines {
			flags, err := strconv.ParseInt(line, 8, 64)
			if err != nil || flags&0o4000 != 0 {
				t.Errorf("descriptor number %d: flags %s (%v)", fd, line, err)
			}
		}
	})
}

func TestInheritedDescriptorsArriveAndOnlyThey(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		if isRemote(spawner) {
			t.Skip("descriptors cannot be passed to a server")
		}
		fromChild, childWrites, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		childReads, toChild, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer fromChild.Close()
		defer toChild.Close()
		l := shell(tty, `ls /proc/self/fd | tr '\n' ' '; read word <&9; echo "got $word" >&5`)
		l.Inherit = []ptyio.Inherited{{FD: 9, File: childReads}, {FD: 5, File: childWrites}}
		r := start(t, spawner, l)
		_, _ = childReads.Close(), childWrites.Close()
		r.awaitOutput(t, "9 ")
		if _, err := toChild.WriteString("hello\n"); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		n, _ := fromChild.Read(got)
		if string(got[:n]) != "got hello\n" {
			t.Errorf("read %q", got[:n])
		}
		r.awaitEnd(t)
		if listed := strings.TrimSpace(r.text()); listed != "0 1 2 3 5 9" { // 3 is the directory that ls reads
			t.Errorf("descriptors %q", listed)
		}
	})
}

// The resolver finds the program that the spawner runs, and calls to the child return at once.
func TestTheResolverFindsWhatTheSpawnerRuns(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		l := launch(false, "planted")
		dir := t.TempDir()
		l.Env = []string{"PATH=/nowhere:" + dir + ":/bin"}
		if err := os.WriteFile(dir+"/planted", []byte("#!/bin/sh\necho $0\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		program, err := spawner.Resolver().Program(t.Context(), l.Argv[0], l.Dir, ptyio.SearchPath(l.Env))
		if err != nil {
			t.Fatal(err)
		}
		r := start(t, spawner, l)
		happened[ptyio.Drained](t, r)
		if got := strings.TrimSpace(r.text()); got != program {
			t.Errorf("it ran %q, and not %q", got, program)
		}
		if !ptyio.IsPrompt(r.Child) && !isRemote(spawner) {
			t.Error("its child is not prompt")
		}
	})
}
