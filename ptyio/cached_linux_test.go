package ptyio

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// mountsAreNumbered skips the test where no program is found without a goroutine.
func mountsAreNumbered(t *testing.T) {
	t.Helper()
	fd, err := openCached("/", unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(fd)
		if _, is := mountOf(fd, unix.S_IFDIR); is {
			return
		}
	}
	t.Skip("skipped: the kernel does not number its mounts, or denies openat2:", err)
}

func TestAProgramThatIsCachedIsFoundWhereTheLookFindsIt(t *testing.T) {
	mountsAreNumbered(t)
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "plain": 0o644, "bin/tool": 0o755, "bin/plain": 0o755, "bin/other": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	launch := Launch{Dir: dir, Env: []string{"PATH=" + dir + ":bin:" + dir + "/none"}}
	for name, fast := range map[string]bool{"tool": true, "./tool": true, "bin/tool": true, dir + "/tool": true, "other": true,
		"plain": false, "./plain": true, "none": false, "./none": false, "./bin": false, "bin/../tool": true} {
		launch.Argv = []string{name}
		want, wantErr := reached(t.Context(), launch)
		if got, found := cached(launch); found && (got != want || wantErr != nil) || found != fast {
			t.Errorf("%s: %q, %v; a look finds %q, %v", name, got, found, want, wantErr)
		}
		if got, err := reached(t.Context(), launch); got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %q, %v the second time, %q, %v before", name, got, err, want, wantErr)
		}
	}
	held, err := os.Open(dir + "/tool")
	if err != nil {
		t.Fatal(err)
	}
	launch.Argv = []string{"./tool"}
	if _, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Log("skipped: no leases:", err)
	} else if _, found := cached(launch); found {
		t.Error("a program that cannot be opened was reached")
	}
	_ = held.Close()
	device, inode, known := identifyCached(dir, true)
	if info, err := os.Stat(dir); err != nil || !known || info.Sys().(*syscall.Stat_t).Dev != device || info.Sys().(*syscall.Stat_t).Ino != inode {
		t.Error(device, inode, known, err)
	}
	launch.Sandbox = unchecked{}
	if _, found := cached(launch); found {
		t.Error("a sandbox was not looked at")
	}
	for same := range map[unchanged]bool{true: true, false: true} {
		launch.Sandbox = same
		if _, found := cached(launch); found != bool(same) {
			t.Errorf("a sandbox whose paths are unchanged (%v): found %v", same, found)
		}
	}
	launch.Sandbox, launch.Dir = nil, dir+"/tool"
	if _, found := cached(launch); found {
		t.Error("a directory is none")
	}
}

type unchecked struct{ Enclosure }

// unchanged is an enclosure that has changed or has not.
type unchanged bool

func (unchanged) Confinement() Confinement { return Confinement{} }
func (unchanged) Widen(context.Context, messages.AdditionalPermissions, string) (Enclosure, error) {
	return nil, nil
}
func (unchanged) Check() error { return nil }
func (unchanged) Release()     {}
func (u unchanged) Unchanged(func(string, bool) (uint64, uint64, bool)) bool {
	return bool(u)
}

// A file system that some process serves may never answer.
func TestOnlyMountsOfThisMachineAreRemembered(t *testing.T) {
	mountsAreNumbered(t)
	nearby.learn("/proc")
	launch := Launch{Argv: []string{"/bin/sh"}, Dir: "/proc"}
	if _, err := reached(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	if _, found := cached(launch); found {
		t.Error("/proc counts as a file system that always answers")
	}
	var few mounts
	few.numbers = map[uint64]struct{}{}
	for number := range uint64(maxMounts) {
		few.numbers[1<<40+number] = struct{}{}
	}
	few.learn("/")
	if len(few.numbers) > maxMounts {
		t.Error(len(few.numbers), "mounts are remembered")
	}
}
