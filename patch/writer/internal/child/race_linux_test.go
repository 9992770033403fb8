package child_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/patch/writer/internal/child"
)

// While the process stands before any of its changing calls, somebody else changes what it works on. Nothing outside of the tree is
// ever touched, nobody's file is lost, and what is not as it was or should be is named.
func TestNobodyComesBetweenCheckAndWrite(t *testing.T) {
	type attack struct {
		name string
		do   func(dir, outside string) error
		// mine is where a file must still be that the attacker has made, by what it contains; nil for none.
		mine func(tree map[string]string) bool
	}
	contains := func(text string) func(map[string]string) bool {
		return func(tree map[string]string) bool {
			for _, file := range tree {
				if strings.Contains(file, text) {
					return true
				}
			}
			return false
		}
	}
	attacks := []attack{
		{"a directory becomes a link", func(dir, outside string) error {
			return errors.Join(os.Rename(dir+"/sub", dir+"/was"), os.Symlink(outside, dir+"/sub"))
		}, nil},
		{"a directory becomes another", func(dir, outside string) error {
			return errors.Join(os.Rename(dir+"/sub", dir+"/was"), os.Mkdir(dir+"/sub", 0o755), os.WriteFile(dir+"/sub/a", []byte("mine"), 0o644))
		}, contains("mine")},
		{"a directory is exchanged with another", func(dir, outside string) error {
			return errors.Join(os.Mkdir(dir+"/other", 0o755), os.WriteFile(dir+"/other/a", []byte("mine"), 0o644),
				unix.Renameat2(unix.AT_FDCWD, dir+"/sub", unix.AT_FDCWD, dir+"/other", unix.RENAME_EXCHANGE))
		}, contains("mine")},
		{"a directory that was missing becomes a link", func(dir, outside string) error {
			_ = os.Rename(dir+"/sub/fresh", dir+"/was")
			return os.Symlink(outside, dir+"/sub/fresh")
		}, nil},
		{"a file becomes a link", func(dir, outside string) error {
			return errors.Join(os.Rename(dir+"/sub/a", dir+"/was"), os.Symlink(outside+"/a", dir+"/sub/a"))
		}, nil},
		{"a file becomes another name of one outside", func(dir, outside string) error {
			return errors.Join(os.Remove(dir+"/sub/a"), os.Link(outside+"/a", dir+"/sub/a"))
		}, nil},
		{"a file becomes a FIFO", func(dir, outside string) error {
			return errors.Join(os.Remove(dir+"/sub/a"), syscall.Mkfifo(dir+"/sub/a", 0o644))
		}, nil},
		{"a file in place becomes a link", func(dir, outside string) error {
			return errors.Join(os.Rename(dir+"/sub/hard", dir+"/was"), os.Symlink(outside+"/hard", dir+"/sub/hard"))
		}, nil},
		{"a new file is made first", func(dir, outside string) error {
			_ = os.Remove(dir + "/sub/new")
			return os.WriteFile(dir+"/sub/new", []byte("mine"), 0o644)
		}, contains("mine")},
		{"a link is made where the new file will be", func(dir, outside string) error {
			_ = os.Remove(dir + "/sub/new")
			return os.Symlink(outside+"/new", dir+"/sub/new")
		}, nil},
		{"somebody replaces the file", func(dir, outside string) error {
			return errors.Join(os.WriteFile(dir+"/fresh", []byte("mine"), 0o644), os.Rename(dir+"/fresh", dir+"/sub/a"))
		}, contains("mine")},
		{"somebody writes to the file", func(dir, outside string) error {
			file, err := os.OpenFile(dir+"/sub/a", os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteString("mine")
			return errors.Join(err, file.Close())
		}, contains("mine")},
	}
	for i, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			for n := 1 + i%3; ; n += 3 { // each call has several attacks
				dir, outside := work(t), work(t)
				if err := errors.Join(os.Mkdir(dir+"/sub", 0o755)); err != nil {
					t.Fatal(err)
				}
				for _, d := range []string{dir + "/sub", outside} {
					put(t, d+"/a", "old a")
					put(t, d+"/hard", "hard")
					put(t, d+"/gone", "gone")
				}
				if err := os.Link(dir+"/sub/hard", dir+"/hard"); err != nil {
					t.Fatal(err)
				}
				safe := tree(t, outside)
				changes := []patch.Change{
					{Path: dir + "/sub/a", Old: file("old a"), New: file("new a")},
					{Path: dir + "/sub/new", New: &patch.Content{Data: []byte("new"), Created: true}},
					{Path: dir + "/sub/fresh/new", New: &patch.Content{Data: []byte("new"), Created: true}},
					{Path: dir + "/sub/hard", Old: file("hard"), New: file("soft")},
					{Path: dir + "/sub/gone", Old: file("gone")},
				}
				j, _ := open(t)
				p := begin(t, fmt.Sprintf("%s=%d", child.StopAt, n))
				done := make(chan error, 1)
				var results []writer.Result
				go func() {
					var err error
					results, err = apply(t.Context(), p, j, changes)
					done <- errors.Join(err, p.Close())
				}()
				stopped := awaitStop(t, p.command.Process.Pid)
				if stopped {
					if err := a.do(dir, outside); err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
					if err := p.command.Process.Signal(syscall.SIGCONT); err != nil {
						t.Fatal(err)
					}
				} else { // it waits for the end of its input, and then it ends
					_ = p.command.Process.Signal(syscall.SIGCONT)
				}
				err := <-done
				if !stopped {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if got := tree(t, outside); !maps.Equal(got, safe) {
					t.Errorf("outside is %q, was %q", got, safe)
				}
				if now := tree(t, dir); a.mine != nil && !a.mine(now) {
					t.Errorf("somebody's file is lost: %q", now)
				}
				for _, r := range results {
					if r.State == writer.Left && r.Why == "" {
						t.Errorf("%v has no reason", r)
					}
				}
				if t.Failed() {
					t.Fatalf("stopped at call %d: %v, %v", n, err, results)
				}
			}
		})
	}
}

// awaitStop waits until a process has stopped or ended, and reports whether it has stopped. It does not take its end.
func awaitStop(t testing.TB, pid int) bool {
	t.Helper()
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return false
		}
		return info.Code == 5 // CLD_STOPPED
	}
}
