//go:build linux

package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestTheKernelsList(t *testing.T) {
	program := filepath.Join(t.TempDir(), "a) Z (b") // a name that looks like what follows it
	if err := os.WriteFile(program, []byte("#!/bin/sh\nread line\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	inherited, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	c := exec.Command(program, "", "two words")
	c.ExtraFiles = []*os.File{inherited}
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid, ours := c.Process.Pid, Look(os.Getpid())
	p := Look(pid)
	if !p.Alive() || p.Parent != os.Getpid() || p.Start == "" || p.Name != filepath.Base(program) || All()[pid].Parent != os.Getpid() || p.Foreground != ours.Foreground {
		t.Errorf("%+v, and we are %+v", p, ours)
	}
	if all := Descriptors(pid); !slices.Contains(all, "3 "+program) {
		t.Errorf("descriptors %q", all)
	}
	if got := Arguments(pid); !slices.Equal(got, []string{"/bin/sh", program, "", "two words"}) {
		t.Errorf("arguments %q", got)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for Look(pid).State != 'Z' {
	}
	if dead := Look(pid); dead.Alive() || dead.Parent != p.Parent || dead.Start != p.Start {
		t.Errorf("a zombie: %+v", dead)
	}
	_ = c.Wait()
	if gone := Look(pid); gone != (Process{}) || gone.Alive() || len(Descriptors(pid))+len(Arguments(pid)) != 0 {
		t.Errorf("after its end: %+v", gone)
	}
}
