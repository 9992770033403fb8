// Package leasetest gives tests a file system that does not answer. It does not need root.
//
//	program, giveBack := leasetest.Leased(t, "/bin/true")
//
// A process that opens or executes the program waits until the test gives the lease back or the kernel breaks it, after
// /proc/sys/fs/lease-break-time (45 s by default).
package leasetest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Leased makes a copy of a program that no process can open until giveBack is called or the test ends. It skips the test if
// the file system has no leases.
func Leased(t testing.TB, program string) (path string, giveBack func()) {
	t.Helper()
	path, giveBack, _ = Watched(t, program)
	return path, giveBack
}

// Watched is Leased, and tells whether a process has tried to open the copy, even if that process has died since.
func Watched(t testing.TB, program string) (path string, giveBack func(), awaited func() bool) {
	t.Helper()
	bytes, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "leased")
	syscall.ForkLock.RLock() // a child of a parallel test would have it open for writing, and it could not be executed
	err = os.WriteFile(path, bytes, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases in %s: %v", path, err)
	}
	t.Cleanup(func() { _ = file.Close() }) // this ends the lease
	giveBack = func() { _, _ = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK) }
	awaited = func() bool { // the kernel tells what the lease is to become
		lease, err := unix.FcntlInt(file.Fd(), unix.F_GETLEASE, 0)
		return err == nil && lease != unix.F_WRLCK
	}
	return path, giveBack, awaited
}
