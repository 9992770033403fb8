package child_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/patch/writer/internal/child"
)

// program is the child, started without a sandbox.
type program struct {
	io.Reader
	io.WriteCloser
	command *exec.Cmd
}

func begin(t testing.TB, env ...string) *program {
	t.Helper()
	launch, err := writer.Launch()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, &exec.Cmd{Path: launch.Argv[0], Args: []string{launch.Argv0}, Env: append(launch.Env, env...)})
}

// start starts a command with the files of a launch.
func start(t testing.TB, command *exec.Cmd) *program {
	t.Helper()
	launch, err := writer.Launch()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{command: command}
	for _, in := range launch.Inherit { // in the order of their numbers, from 3 on
		command.ExtraFiles = append(command.ExtraFiles, in.File)
	}
	command.Dir, command.Stderr = "/", os.Stderr
	if p.WriteCloser, err = command.StdinPipe(); err == nil {
		p.Reader, err = command.StdoutPipe()
	}
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Close waits for the end, and returns an error unless the child ended well.
func (p *program) Close() error {
	_ = p.WriteCloser.Close()
	return p.command.Wait()
}

// a case is a directory before, and what a patch does there.
type crash struct {
	name    string
	before  func(t testing.TB, dir string)
	changes func(dir string) []patch.Change
}

func file(text string) *patch.Content { return &patch.Content{Data: []byte(text), Mode: 0o644} }

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func crashes() []crash {
	return []crash{
		{"by exchange", func(t testing.TB, dir string) {
			put(t, dir+"/a", "old a")
			put(t, dir+"/gone", "gone")
			put(t, dir+"/from", "moved")
			put(t, dir+"/turned", "was a file")
			if err := errors.Join(os.Symlink("none", dir+"/link"), os.Symlink("a", dir+"/tofile")); err != nil {
				t.Fatal(err)
			}
		}, func(dir string) []patch.Change {
			return []patch.Change{
				{Path: dir + "/new/deep/b", New: &patch.Content{Data: []byte("new b"), Created: true}},
				{Path: dir + "/a", Old: file("old a"), New: file("new a, and longer")},
				{Path: dir + "/gone", Old: file("gone")},
				{Path: dir + "/turned", Old: file("was a file")},
				{Path: dir + "/turned/into/dir", New: &patch.Content{Data: []byte("in a directory"), Created: true}},
				{Path: dir + "/link", Old: &patch.Content{Link: "none"}},
				{Path: dir + "/tofile", Old: &patch.Content{Link: "a"}, New: &patch.Content{Data: []byte("now a file"), Created: true}},
				{Path: dir + "/new/to", New: file("moved, changed"), From: dir + "/from"},
				{Path: dir + "/from", Named: dir + "/from", Old: file("moved")},
			}
		}},
		{"in place", func(t testing.TB, dir string) {
			put(t, dir+"/a", "0123456789abcdef")
			put(t, dir+"/b", "short")
			put(t, dir+"/same", "same")
			if err := errors.Join(os.Mkdir(dir+"/more", 0o755), os.Link(dir+"/a", dir+"/more/a"), os.Link(dir+"/b", dir+"/more/b")); err != nil {
				t.Fatal(err)
			}
		}, func(dir string) []patch.Change {
			return []patch.Change{
				{Path: dir + "/a", Old: file("0123456789abcdef"), New: file("0123xxxx")},
				{Path: dir + "/b", Old: file("short"), New: file("much longer than")},
				{Path: dir + "/same", Old: file("same"), New: file("same")},
				{Path: dir + "/c", New: &patch.Content{Data: []byte("new c"), Created: true}},
			}
		}},
	}
}

// copiedUp is in a directory of which everything lies in a lower layer, under two names. So the inodes change with the first writing.
func copiedUp() crash {
	return crash{"on an overlay", func(t testing.TB, dir string) {
		layers := work(t)
		for _, made := range []string{"/lower", "/upper", "/work"} {
			if err := os.Mkdir(layers+made, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"/a", "/from", "/gone", "/inplace"} {
			put(t, layers+"/lower"+name, "old "+name)
			if err := os.Link(layers+"/lower"+name, layers+"/lower"+name+"2"); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("inplace", layers+"/lower/link"); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("overlay", dir, "overlay", 0, "lowerdir="+layers+"/lower,upperdir="+layers+"/upper,workdir="+layers+"/work"); err != nil {
			t.Skipf("this machine or user cannot mount an overlay: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}, func(dir string) []patch.Change {
		return []patch.Change{
			{Path: dir + "/a", Old: file("old /a"), New: file("new a")},
			{Path: dir + "/inplace", Named: dir + "/link", Old: file("old /inplace"), New: file("new text in place")},
			{Path: dir + "/gone", Old: file("old /gone")},
			{Path: dir + "/to", New: file("old /from"), From: dir + "/from"},
			{Path: dir + "/from", Named: dir + "/from", Old: file("old /from")},
			{Path: dir + "/b", New: &patch.Content{Data: []byte("new b"), Created: true}},
		}
	}}
}

// tree is everything below a directory.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case d.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			text = string(data)
		case d.Type()&fs.ModeSymlink != 0:
			text, err = os.Readlink(path)
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = info.Mode().String() + " " + text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func work(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t testing.TB) (*writer.Journal, string) {
	t.Helper()
	dir := work(t) + "/patches"
	j, err := writer.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j, dir
}

// apply reads what the changes concern, and does them.
func apply(ctx context.Context, p *program, j *writer.Journal, changes []patch.Change) ([]writer.Result, error) {
	var paths []string
	for _, c := range changes {
		paths = append(paths, cmp.Or(c.Named, c.Path))
	}
	conversation := writer.New(p)
	looked, err := conversation.Read(paths)
	if err != nil {
		return nil, err
	}
	return conversation.Write(ctx, writer.Job{Plan: &patch.Plan{Changes: changes}, Looked: looked, Journal: j, Policy: json.RawMessage(`"mine"`)})
}

// outcomes are the trees before and after a case.
func (c crash) outcomes(t testing.TB) (old, new map[string]string) {
	t.Helper()
	dir := work(t)
	c.before(t, dir)
	old = tree(t, dir)
	j, _ := open(t)
	p := begin(t)
	_, err := apply(t.Context(), p, j, c.changes(dir))
	if err = errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	return old, tree(t, dir)
}

// killed makes a tree, and writes a patch by a process that is killed on the way, as start says. It reports whether that has happened.
func (c crash) killed(t testing.TB, start func() *program) (dir string, j *writer.Journal, records string, killed bool) {
	t.Helper()
	dir = work(t)
	c.before(t, dir)
	j, records = open(t)
	p := start()
	_, err := apply(t.Context(), p, j, c.changes(dir))
	ended := p.Close()
	if ended == nil && err != nil {
		t.Fatal(err)
	}
	return dir, j, records, ended != nil
}

// recovered settles what is left, and compares the tree with what it may be.
func recovered(t testing.TB, dir string, j *writer.Journal, records string, old, new map[string]string) {
	t.Helper()
	all, err := j.Recover(t.Context(), func(_ context.Context, policy json.RawMessage) (io.ReadWriteCloser, error) {
		if string(policy) != `"mine"` {
			t.Errorf("the policy is %s", policy)
		}
		return begin(t), nil
	})
	if err != nil || len(all) > 1 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, r := range all {
		if r.Err != nil {
			t.Error(r.Err)
		}
		for _, result := range r.Results {
			if result.State == writer.Left || result.State != r.Results[0].State {
				t.Errorf("%v", r.Results)
				break
			}
		}
	}
	if got := tree(t, dir); !maps.Equal(got, old) && !maps.Equal(got, new) {
		t.Errorf("the tree is\n%q\nwant\n%q\nor\n%q", got, old, new)
	}
	if left, err := filepath.Glob(records + "/*.json"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A process that is killed at any of its changing system calls leaves every file old or new, once what it has begun is settled; also if the
// process that settles it is killed, at any of its own.
func TestAKilledProcessLeavesEverythingOldOrNew(t *testing.T) {
	all := append(crashes(), copiedUp())
	for i, c := range append(all, all[0], all[0]) {
		env, step := []string{child.Piece + "=5"}, 1
		if less := i - len(all) + 1; less > 0 {
			c.name, env = []string{"without exchange", "without second names"}[less-1], append(env, fmt.Sprintf("%s=%d", child.NoFlags, less))
			step = 3
			changes := c.changes
			c.changes = func(dir string) []patch.Change { // a link cannot be replaced in such a file system
				return slices.DeleteFunc(changes(dir), func(c patch.Change) bool { return c.Old != nil && c.Old.Link != "" && c.New != nil })
			}
		}
		t.Run(c.name, func(t *testing.T) {
			old, new := c.outcomes(t)
			if maps.Equal(old, new) {
				t.Fatal("the patch changes nothing")
			}
			both := map[bool]int{}
			for n := 1; ; n += step {
				dir, j, records, killed := c.killed(t, func() *program { return begin(t, append(env, fmt.Sprintf("%s=%d", child.KillAt, n))...) })
				if !killed {
					break
				}
				for again := n % 7; again > 0 && killed; again += 7 { // and so does what settles it
					_, err := j.Recover(t.Context(), func(context.Context, json.RawMessage) (io.ReadWriteCloser, error) {
						return begin(t, append(env, fmt.Sprintf("%s=%d", child.KillAt, again))...), nil
					})
					if err != nil {
						t.Fatal(err)
					}
					left, _ := filepath.Glob(records + "/*.json")
					killed = len(left) > 0
				}
				recovered(t, dir, j, records, old, new)
				both[maps.Equal(tree(t, dir), new)]++
				if t.Failed() {
					t.Fatalf("killed at call %d", n)
				}
			}
			t.Logf("%d times old, %d times new", both[false], both[true])
			if both[false] == 0 || both[true] == 0 {
				t.Error("the process was not killed before and after the change of sides")
			}
		})
	}
}

// The same by the hand of the kernel: strace kills the process when it enters a call, whichever that is.
func TestAProcessThatTheKernelKillsLeavesEverythingOldOrNew(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-f", "-e", "inject=chdir:signal=KILL:when=1", "-o", "/dev/null", "/bin/sh", "-c", "cd /").CombinedOutput(); err == nil ||
		!strings.Contains(err.Error(), "killed") {
		t.Skipf("strace cannot kill a process here: %v, %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := work(t)
	if err := os.Symlink(self, bin+"/"+child.Name); err != nil {
		t.Fatal(err)
	}
	steps := map[string]int{"renameat2": 1, "unlinkat": 1, "mkdirat": 1, "pwrite64": 3, "ftruncate": 1, "fdatasync": 4, "fchmod": 2, "pread64": 31,
		"fstat": 80, "openat": 80, "write": 9} // strace counts each call by itself
	all := crashes()
	both := crash{before: func(t testing.TB, dir string) {
		for _, c := range all {
			if err := os.Mkdir(dir+"/"+c.name, 0o755); err != nil {
				t.Fatal(err)
			}
			c.before(t, dir+"/"+c.name)
		}
	}, changes: func(dir string) (changes []patch.Change) {
		for _, c := range all {
			changes = append(changes, c.changes(dir+"/"+c.name)...)
		}
		return changes
	}}
	old, new := both.outcomes(t)
	count := 0
	for call, step := range steps {
		for n := 1; ; n += step {
			dir, j, records, killed := both.killed(t, func() *program {
				return start(t, &exec.Cmd{Path: strace, Args: []string{strace, "-f", "-o", "/dev/null", "-e", "trace=" + call,
					"-e", "inject=" + call + ":signal=KILL:when=" + strconv.Itoa(n), child.Name}, Env: []string{"PATH=" + bin, "GOMAXPROCS=2"}})
			})
			recovered(t, dir, j, records, old, new)
			if t.Failed() {
				t.Fatalf("killed at %s %d", call, n)
			}
			if !killed {
				break
			}
			count++
		}
	}
	t.Logf("killed %d times", count)
	if count == 0 {
		t.Error("nothing was killed")
	}
}

// What a person does with the files after the process was killed is theirs, also if it looks like the patch's own work.
func TestWhatAPersonHasDoneSinceStays(t *testing.T) {
	for name, test := range map[string]struct {
		kill   string // at which call
		change func(t testing.TB, dir string)
		want   map[string]string
		states map[string]writer.State // by name
	}{
		"made the new file": {"openat", func(t testing.TB, dir string) { put(t, dir+"/b", "new b") },
			map[string]string{"a": "old a", "b": "new b", "gone": "gone"}, map[string]writer.State{"a": writer.IsOld, "b": writer.Left, "gone": writer.IsOld}},
		"wrote the new content": {"openat", func(t testing.TB, dir string) { put(t, dir+"/a", "new a") },
			map[string]string{"a": "new a", "gone": "gone"}, map[string]writer.State{"a": writer.Left, "b": writer.IsOld, "gone": writer.IsOld}},
		"wrote it later": {"renameat2", func(t testing.TB, dir string) { put(t, dir+"/a", "new a") },
			map[string]string{"a": "new a", "gone": "gone"}, map[string]writer.State{"a": writer.Left, "b": writer.IsOld, "gone": writer.IsOld}},
		"replaced a file": {"openat", func(t testing.TB, dir string) {
			put(t, dir+"/other", "new a")
			if err := os.Rename(dir+"/other", dir+"/a"); err != nil {
				t.Fatal(err)
			}
		}, map[string]string{"a": "new a", "gone": "gone"}, map[string]writer.State{"a": writer.Left, "b": writer.IsOld, "gone": writer.IsOld}},
		"removed a file": {"renameat2", func(t testing.TB, dir string) {
			if err := os.Remove(dir + "/gone"); err != nil {
				t.Fatal(err)
			}
		}, map[string]string{"a": "old a"}, map[string]writer.State{"a": writer.IsOld, "b": writer.IsOld, "gone": writer.Left}},
	} {
		t.Run(name, func(t *testing.T) {
			c := crash{"", func(t testing.TB, dir string) { put(t, dir+"/a", "old a"); put(t, dir+"/gone", "gone") }, func(dir string) []patch.Change {
				return []patch.Change{{Path: dir + "/a", Old: file("old a"), New: file("new a")}, {Path: dir + "/gone", Old: file("gone")},
					{Path: dir + "/b", New: &patch.Content{Data: []byte("new b"), Created: true}}}
			}}
			dir, j, _, killed := c.killed(t, func() *program { return begin(t, child.KillAt+"="+test.kill) })
			if !killed {
				t.Fatal("the process was not killed")
			}
			test.change(t, dir)
			all, err := j.Recover(t.Context(), func(context.Context, json.RawMessage) (io.ReadWriteCloser, error) { return begin(t), nil })
			if err != nil || len(all) != 1 || all[0].Err != nil {
				t.Fatal(all, err)
			}
			for _, r := range all[0].Results {
				if want := test.states[filepath.Base(r.Path)]; r.State != want {
					t.Errorf("%v, want %s", r, want)
				}
			}
			for name, text := range tree(t, dir) {
				if _, text, _ = strings.Cut(text, " "); text != test.want[name] {
					t.Errorf("%s is %q, want %q", name, text, test.want[name])
				}
				delete(test.want, name)
			}
			if len(test.want) > 0 {
				t.Errorf("%q are missing", test.want)
			}
		})
	}
}

// A file that is half old and half new, and that cannot be written, keeps its record until it can be.
func TestATornFileThatCannotBeWrittenKeepsItsRecord(t *testing.T) {
	c := crash{"", func(t testing.TB, dir string) {
		put(t, dir+"/a", "0123456789")
		if err := os.Link(dir+"/a", dir+"/b"); err != nil {
			t.Fatal(err)
		}
	}, func(dir string) []patch.Change {
		return []patch.Change{{Path: dir + "/a", Old: file("0123456789"), New: file("abcdefghij")}}
	}}
	dir, j, records, killed := c.killed(t, func() *program { return begin(t, child.KillAt+"=2", child.Piece+"=5") })
	if got := tree(t, dir)["a"]; !killed || !strings.HasSuffix(got, " abcde56789") {
		t.Fatalf("%v, %q", killed, got)
	}
	thaw := freeze(t, dir+"/a")
	again := func() ([]writer.Recovered, error) {
		return j.Recover(t.Context(), func(context.Context, json.RawMessage) (io.ReadWriteCloser, error) { return begin(t), nil })
	}
	if all, err := again(); err != nil || len(all) != 1 || all[0].Err == nil || !strings.Contains(all[0].Err.Error(), dir+"/a") {
		t.Errorf("%v, %v", all, err)
	}
	thaw()
	old := map[string]string{"a": "-rw-r--r-- 0123456789", "b": "-rw-r--r-- 0123456789"}
	recovered(t, dir, j, records, old, old)
}

// immutable is the flag of a file that not even root can write.
const immutable = 0x10

// freeze makes a file that its owner cannot write. The other function makes it as it was.
func freeze(t *testing.T, path string) (thaw func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(path, 0o444); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.Chmod(path, 0o644); err != nil {
				t.Error(err)
			}
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|immutable)
	}
	if err != nil {
		_ = f.Close()
		t.Skipf("root can write every file here: %v", err)
	}
	thaw = sync.OnceFunc(func() {
		defer f.Close()
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(thaw)
	return thaw
}
