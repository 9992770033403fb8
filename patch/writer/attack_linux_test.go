package writer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
)

// None of these is opened, so none of them makes the program wait, and none of them is written.
func TestOnlyFilesAreRead(t *testing.T) {
	levels(t, policy(), func(t *testing.T, dir string, m machine) {
		if err := errors.Join(syscall.Mkfifo(dir+"/fifo", 0o644), os.Symlink("fifo", dir+"/link"), os.Symlink("/proc/self/fd/0", dir+"/stdin")); err != nil {
			t.Fatal(err)
		}
		socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(socket)
		paths := []string{dir + "/fifo", dir + "/link", dir + "/stdin", "/dev/zero", "/dev/tty", "/dev/full", "/proc/self/mem", "/proc/kmsg", "/proc/self/environ",
			"/proc/sys/kernel/hostname", "/proc/self/fd/0", "/sys/kernel/mm/transparent_hugepage/enabled"}
		if len(dir) < 90 { // the kernel's bound for such a path
			paths = append(paths, dir+"/socket")
			if err := unix.Bind(socket, &unix.SockaddrUnix{Name: dir + "/socket"}); err != nil {
				t.Fatal(err)
			}
		}
		for path, file := range m.look(t, paths...).Files {
			if file.Kind == patch.Regular && path != "/proc/kmsg" /* an isolated command sees a file in its place */ || len(file.Data) > 0 || file.Kind == patch.Directory {
				t.Errorf("%s is %+v", path, file)
			}
		}
	})
}

// A plan that does not heed what was found does not get further than one that does.
func TestNothingButFilesIsWritten(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	if err := errors.Join(syscall.Mkfifo(dir+"/fifo", 0o644), os.Mkdir(dir+"/sub", 0o755)); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/file", "text")
	want := tree(t, dir)
	for _, c := range []patch.Change{update(dir+"/fifo", "", "x"), remove(dir+"/fifo", ""), remove(dir+"/sub", ""), update(dir+"/sub", "", "x"), add(dir+"/sub", "x"),
		add(dir+"/fifo", "x"), update("/dev/null", "", "x"), remove("/dev/null", ""), update("/proc/self/comm", "", "x"), add(dir+"/file/below", "x"), add(dir+"/file", "x"),
		remove(dir+"/missing", "x"), update(dir+"/missing", "x", "y"), update(dir+"/file", "other", "x"), add(dir+"/sub/../up", "x"), add("relative", "x"), add(dir+"/sub//x", "x"),
		add("/", "x"), add(dir+"/nul\x00", "x"), add("/proc/self/new", "x"), add(dir+"/"+strings.Repeat("n", 300), "x")} {
		t.Run(strings.ReplaceAll(c.Path, "/", "_"), func(t *testing.T) {
			p := m.begin(t)
			defer p.Close()
			looked, err := writer.New(p).Read([]string{c.Path})
			if err != nil {
				t.Fatal(err)
			}
			results, err := m.write(t, journal(t), looked, nil, add(dir+"/first", "x"), c)
			if err == nil {
				t.Errorf("it was written: %v", results)
			}
			same(t, dir, want)
		})
	}
}

// outside is what the sandbox does not let a command write. The program gets no further, whatever it is told.
func TestTheSandboxBindsTheProgram(t *testing.T) {
	for _, kind := range []messages.SandboxType{messages.SandboxWorkspaceWrite, messages.SandboxReadOnly} {
		for _, level := range []messages.Assurance{messages.AssuranceConfined, messages.AssuranceIsolated} {
			t.Run(fmt.Sprintf("%s %s", kind, level), func(t *testing.T) {
				dir, outside := work(t), work(t)
				p := policy()
				p.Type = kind
				if kind == messages.SandboxReadOnly {
					p = messages.SandboxPolicy{Type: kind}
				}
				if err := errors.Join(os.Mkdir(dir+"/.git", 0o755), os.Mkdir(dir+"/.git/hooks", 0o755), os.Symlink(outside, dir+"/out"), os.Symlink(outside+"/a", dir+"/a"),
					os.Symlink(".git", dir+"/innocent"), os.Mkdir(dir+"/sub", 0o755), os.Symlink(outside+"/new", dir+"/dangling")); err != nil {
					t.Fatal(err)
				}
				put(t, dir+"/.git/config", "old\n")
				put(t, dir+"/mine", "old\n")
				put(t, outside+"/a", "old\n")
				put(t, outside+"/gone", "old\n")
				m := at(t, level, p, dir)
				protected := []string{dir + "/.git", dir + "/.agents", dir + "/.codex"} // confined has no other way
				inside, beyond := tree(t, dir), tree(t, outside)
				changes := []patch.Change{
					add(outside+"/new", "x"), update(outside+"/a", "old\n", "new\n"), remove(outside+"/gone", "old\n"), add(outside+"/sub/new", "x"),
					add(dir+"/out/new", "x"), update(dir+"/out/a", "old\n", "new\n"), update(dir+"/a", "old\n", "new\n"),
					add(dir+"/.git/hooks/pre-commit", "x"), update(dir+"/.git/config", "old\n", "new\n"), remove(dir+"/.git/config", "old\n"),
					add(dir+"/innocent/hooks/pre-commit", "x"), update(dir+"/innocent/config", "old\n", "new\n"), add(dir+"/.agents/x", "x"), add(dir+"/.codex", "x"),
					add(dir+"/.codex/config.toml", "x"), add("/etc/execbus-test", "x"), add("/usr/execbus-test", "x"),
				}
				if kind == messages.SandboxReadOnly {
					changes = append(changes, add(dir+"/new", "x"), update(dir+"/mine", "old\n", "new\n"), remove(dir+"/mine", "old\n"), add("/tmp/execbus-test/new", "x"))
				}
				for _, c := range changes {
					looked := m.look(t, c.Path, dir+"/mine")
					paths := []string{c.Path, looked.Files[c.Path].Place, looked.Files[c.Path].Leads} // as it is written, and where it leads
					slices.Sort(paths)
					for _, path := range slices.Compact(paths) {
						c.Path = path
						all := []patch.Change{update(dir+"/mine", "old\n", "new\n"), c}
						if kind == messages.SandboxReadOnly {
							all = all[1:]
						}
						if results, err := m.write(t, journal(t), looked, protected, all...); err == nil {
							t.Errorf("%s was written: %v", c.Path, results)
						}
						same(t, dir, inside)
						same(t, outside, beyond)
						if t.Failed() {
							t.Fatal(c.Path)
						}
					}
				}
			})
		}
	}
}

// A directory that must not be changed is known by its identity, so no other name for it helps.
func TestWhatIsProtectedIsNotWrittenByAnotherName(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	if err := errors.Join(os.Mkdir(dir+"/real", 0o755), os.Mkdir(dir+"/real/deep", 0o755), os.Symlink("real", dir+"/.git")); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/real/config", "old\n")
	put(t, dir+"/own.toml", "old\n")
	if err := os.Link(dir+"/own.toml", dir+"/alias"); err != nil {
		t.Fatal(err)
	}
	want := tree(t, dir)
	for _, c := range []patch.Change{add(dir+"/real/new", "x"), add(dir+"/real/deep/new", "x"), update(dir+"/real/config", "old\n", "new\n"), remove(dir+"/real/config", "old\n"),
		update(dir+"/alias", "old\n", "new\n"), add(dir+"/missing/below", "x"), {Path: dir + "/.git", Old: &patch.Content{Link: "real"}}} {
		_, err := m.write(t, journal(t), m.look(t, c.Path), []string{dir + "/.git", dir + "/own.toml", dir + "/missing"}, c)
		fails(t, err, "it is protected")
		same(t, dir, want)
	}
}

// What was approved outside of the roots is exactly what was looked at.
func TestOneProgramWritesWhatAnotherHasRead(t *testing.T) {
	for _, level := range []messages.Assurance{messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			dir, outside := work(t), work(t)
			if err := os.Mkdir(outside+"/asked", 0o755); err != nil {
				t.Fatal(err)
			}
			narrow, more := at(t, level, policy(), dir), policy()
			more.WritableRoots = []string{outside + "/asked"}
			wide := at(t, level, more, dir)
			c := add(outside+"/asked/new", "x")
			looked := narrow.look(t, c.Path)
			if _, err := narrow.write(t, journal(t), looked, nil, c); err == nil {
				t.Error("it was written without the approval")
			}
			if _, err := wide.write(t, journal(t), looked, nil, c); err != nil {
				t.Error(err)
			}
			same(t, outside, map[string]string{"asked": "/", "asked/new": "x"})
			c = add(outside+"/asked/second", "x")
			looked = narrow.look(t, c.Path)
			if err := errors.Join(os.Rename(outside+"/asked", outside+"/was"), os.Mkdir(outside+"/asked", 0o755)); err != nil {
				t.Fatal(err)
			}
			none := at(t, messages.AssuranceNone, policy(), dir)
			_, err := none.write(t, journal(t), looked, nil, c)
			fails(t, err, "is not the one that it was")
		})
	}
}

func TestALargePatchIsWrittenOrRefused(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	var changes []patch.Change
	want := map[string]string{}
	for i := range 600 {
		changes = append(changes, add(fmt.Sprintf("%s/%d", dir, i), "x"))
		want[fmt.Sprint(i)] = "x"
	}
	if _, err := m.apply(t, changes...); err != nil {
		t.Fatal(err)
	}
	same(t, dir, want)
	for i := range 9000 {
		changes = append(changes, add(fmt.Sprintf("%s/more%d", dir, i), "x"))
	}
	if _, err := m.apply(t, changes[600:]...); err == nil {
		t.Error("9,000 files are no bound")
	}
	same(t, dir, want)
	huge, err := os.Create(dir + "/huge")
	if err == nil {
		err = errors.Join(huge.Truncate(1<<30), huge.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if file := m.look(t, dir+"/huge").Files[dir+"/huge"]; file.Problem == "" || len(file.Data) > 0 {
		t.Errorf("a file of 1 GiB was read: %s", file.Problem)
	}
}

// Several hosts patch one file at once: each patch is done as a whole, or refused.
func TestTwoHostsPatchOneTree(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("one journal %v", shared), func(t *testing.T) {
			dir := work(t)
			m := at(t, messages.AssuranceNone, policy(), dir)
			put(t, dir+"/a", "0")
			put(t, dir+"/b", "0")
			one := journal(t)
			var all sync.WaitGroup
			done, named := make([]int, 4), make([]string, 4)
			for i := range done {
				j := one
				if !shared {
					j = journal(t)
				}
				all.Go(func() {
					for round := range 6 {
						looked := m.look(t, dir+"/a", dir+"/b")
						old, text := string(looked.Files[dir+"/a"].Data), fmt.Sprintf("%d.%d", i, round)
						if old != string(looked.Files[dir+"/b"].Data) { // it was read between two steps of another
							continue
						}
						results, err := m.write(t, j, looked, nil, update(dir+"/a", old, text), update(dir+"/b", old, text))
						if err == nil {
							done[i]++
						}
						for _, r := range results {
							named[i] += r.Why
							if err == nil && r.State != writer.IsNew || err != nil && r.State == writer.IsNew {
								t.Errorf("%v, %v", results, err)
							}
						}
					}
				})
			}
			all.Wait()
			now := tree(t, dir)
			for name := range now { // with two journals, one may see a file in the moment in which another looks at it
				if name != "a" && name != "b" && (shared || !strings.Contains(strings.Join(named, " "), name)) {
					t.Errorf("%s was left and not named: %q", name, named)
				}
			}
			if shared && now["a"] != now["b"] {
				t.Errorf("the tree is %q", now)
			}
			t.Log(done, now)
		})
	}
}

// begun makes a journal with a patch to dir/a that was not finished: both lines are written, and nothing is in place.
func begun(t *testing.T, m machine, dir string) (*writer.Journal, string) {
	t.Helper()
	records := filepath.Join(work(t), "patches")
	j, err := writer.OpenJournal(records)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/a", "old\n")
	looked := m.look(t, dir+"/a", dir+"/new")
	p := m.begin(t)
	defer p.Close()
	_, err = writer.New(prepared{p}).Write(t.Context(), writer.Job{Plan: &patch.Plan{Changes: []patch.Change{update(dir+"/a", "old\n", "new\n"), add(dir+"/new", "x")}},
		Looked: looked, Journal: j, Policy: json.RawMessage(`{}`)})
	fails(t, err, syscall.EPIPE.Error())
	names, err := filepath.Glob(records + "/*.json")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	return j, names[0]
}

// prepared is a program that dies before it puts anything in place.
type prepared struct{ *process }

func (p prepared) Write(input []byte) (int, error) {
	if strings.Contains(string(input), `"Commit":true`) {
		return 0, syscall.EPIPE
	}
	return p.process.Write(input)
}

// A record that is not what this user's host has written is named, and nothing is done with it.
func TestAForgedRecordIsRefused(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	for name, forge := range map[string]func(record string) error{
		"damaged": func(record string) error {
			return edit(record, func(s string) string { return strings.Replace(s, `"Path":"`, `"Path":"/x`, 1) })
		},
		"cut":        func(record string) error { return edit(record, func(s string) string { return s[:len(s)/3] }) },
		"empty":      func(record string) error { return edit(record, func(string) string { return "" }) },
		"second":     func(record string) error { return edit(record, func(s string) string { return s[:len(s)-3] + "]]\n" }) },
		"for others": func(record string) error { return os.Chmod(record, 0o644) },
		"a link": func(record string) error {
			return errors.Join(os.Rename(record, dir+"/elsewhere"), os.Symlink(dir+"/elsewhere", record))
		},
		"two names": func(record string) error { return os.Link(record, dir+"/elsewhere") },
		"a FIFO":    func(record string) error { return errors.Join(os.Remove(record), syscall.Mkfifo(record, 0o600)) },
		"renamed":   func(record string) error { return os.Rename(record, filepath.Dir(record)+"/other.json") },
		"of another": func(record string) error {
			if os.Geteuid() != 0 {
				return os.ErrPermission
			}
			return os.Chown(record, 1234, 1234)
		},
	} {
		t.Run(name, func(t *testing.T) {
			empty(t, dir)
			j, record := begun(t, m, dir)
			if err := forge(record); errors.Is(err, os.ErrPermission) {
				t.Skip("only root can do that")
			} else if err != nil {
				t.Fatal(err)
			}
			all, err := j.Recover(t.Context(), func(context.Context, json.RawMessage) (io.ReadWriteCloser, error) {
				t.Error("a program was started")
				return nil, errors.New("none")
			})
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			fails(t, all[0].Err, "nothing was done with it")
			if text, err := os.ReadFile(dir + "/a"); err != nil || string(text) != "old\n" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

func edit(path string, change func(string) string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(change(string(text))), 0o600)
}

// A patch to the files of one that was not finished waits for that to be settled; what somebody has changed since is left alone and named.
func TestAPatchThatWasNotFinishedIsSettledFirst(t *testing.T) {
	dir := work(t)
	m := at(t, messages.AssuranceNone, policy(), dir)
	j, record := begun(t, m, dir)
	_, err := m.write(t, j, m.look(t, dir+"/a"), nil, update(dir+"/a", "old\n", "other\n"))
	fails(t, err, "was not finished")
	put(t, dir+"/a", "mine\n")
	all, err := j.Recover(t.Context(), func(ctx context.Context, _ json.RawMessage) (io.ReadWriteCloser, error) {
		return begin(ctx, m.spawner, nil)
	})
	if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Record != record {
		t.Fatal(all, err)
	}
	if r := all[0].Results; r[0].State != writer.Left || r[0].Why == "" || r[1].State != writer.IsOld {
		t.Errorf("%v", r)
	}
	same(t, dir, map[string]string{"a": "mine\n"})
	if all, err := j.Recover(t.Context(), nil); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

func TestAJournalIsNobodyElses(t *testing.T) {
	dir := work(t)
	if err := errors.Join(os.Mkdir(dir+"/open", 0o700), os.Chmod(dir+"/open", 0o755), os.Mkdir(dir+"/real", 0o700), os.Symlink("real", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/file", "")
	for _, path := range []string{dir + "/open", dir + "/link", dir + "/file", "relative", dir + "/file/below", "/proc/execbus"} {
		if _, err := writer.OpenJournal(path); err == nil {
			t.Errorf("%s is a journal", path)
		}
	}
}

// talker is a program that says something of its own.
type talker struct {
	io.Reader
	io.Writer
}

func TestAProgramThatTalksNonsenseIsAnError(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "text": "hello, world\n", "a huge message": "\xff\xff\xff\xff", "no JSON": "\x00\x00\x00\x02xx", "something else": "\x00\x00\x00\x02{}",
		"another file": "\x00\x00\x00\x18" + `{"File":{"Path":"/etc"}}`, "half": "\x00\x00\x00\x18{"} {
		t.Run(name, func(t *testing.T) {
			program := talker{strings.NewReader(text), io.Discard}
			if _, err := writer.New(program).Read([]string{"/x"}); !errors.Is(err, messages.ErrRuntimeFailure) {
				t.Error(err)
			}
		})
	}
}

// A program of that name that was not started by a launch says so and ends.
func TestOnlyALaunchMakesAWriter(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	open, err := unix.MemfdCreate("open", 0) // the right text, but anybody could change it
	if err != nil {
		t.Skipf("no files in memory: %v", err)
	}
	unsealed := os.NewFile(uintptr(open), "open")
	defer unsealed.Close()
	if _, err := unsealed.WriteString("execbus patch 1\n"); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string][]*os.File{"nothing": {null, null, nil}, "a device": {null, null, nil, null}, "not sealed": {null, null, nil, unsealed}} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			files[2] = write
			process, err := os.StartProcess(self, []string{"execbus-patch"}, &os.ProcAttr{Files: files})
			_ = write.Close()
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(read)
			state, err := process.Wait()
			if err != nil || state.ExitCode() != 127 || !strings.Contains(string(said), "not started by execbus") {
				t.Errorf("%v, %v, %q", state, err, said)
			}
		})
	}
}
