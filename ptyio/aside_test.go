package ptyio

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

func TestWhereThereAreManyFilesTheHostsEndsHaveHighNumbers(t *testing.T) {
	ends := func() (ours []int, theirs []*os.File) {
		read, written, err := openPipe(false)
		if err != nil {
			t.Fatal(err)
		}
		write, readable, err := openPipe(true)
		if err != nil {
			t.Fatal(err)
		}
		master, slave, err := openPTY(messages.Size{}.OrDefault())
		if err != nil {
			t.Fatal(err)
		}
		return []int{read, write, master}, []*os.File{written, readable, slave}
	}
	check := func(what string, high bool) {
		ours, theirs := ends()
		defer closeAll(theirs)
		for i, fd := range ours {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if (fd >= highFiles) != high || err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: %d has flags %d, %v", what, fd, flags, err)
			}
			if mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || mode&unix.O_NONBLOCK == 0 {
				t.Errorf("%s: %d has mode %#x, %v", what, fd, mode, err)
			}
			if their := theirs[i].Fd(); their >= highFiles {
				t.Errorf("%s: the child's end is %d", what, their)
			}
			_ = unix.Close(fd)
		}
	}
	check("few", false)
	for fd := 0; fd < manyFiles; {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		fd = int(file.Fd())
	}
	open := func() int {
		all, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Skipf("descriptors cannot be counted: %v", err)
		}
		return len(all)
	}
	before := open()
	check("many", true)
	if after := open(); after != before {
		t.Errorf("%d files were open, and now %d", before, after)
	}
	fd, slave, err := openPTY(messages.Size{}.OrDefault())
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	terminal := newEnd(fd)
	if again, ok := terminal.leave(); !ok || again < highFiles {
		t.Errorf("a flooding terminal has the number %d, %t", again, ok)
	}
	_ = terminal.Close()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) }()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: highFiles, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	check("many, under a low limit", false)
}
