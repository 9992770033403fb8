//go:build linux

package attack

import (
	"os"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// somebodysTerminal makes a terminal that no one uses. Everything that is written to it arrives at an ear.
func somebodysTerminal(s *scene) ear {
	master, slave, err := pty.Open()
	must(s, err)
	s.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
	s.Terminal = slave.Name()
	e := make(ear, 8)
	go func() {
		for {
			if n, err := master.Read(make([]byte, 64)); err != nil || n == 0 {
				return
			}
			e <- struct{}{}
		}
	}()
	return e
}

// terminals are attempts to type into a terminal: the command's own, or another.
func terminals() []attack {
	inject := func(request uintptr) func(places) error {
		return func(places) error {
			key := byte('x')
			return asError(unix.Syscall(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&key))))
		}
	}
	list := []attack{
		{name: "terminal: type into the own", tty: true, act: inject(unix.TIOCSTI)},
		{name: "terminal: type into the own, with more bits", tty: true, act: inject(unix.TIOCSTI | 1<<32)},
		{name: "terminal: selection", tty: true, act: inject(unix.TIOCLINUX)},
		{name: "terminal: selection, with more bits", tty: true, act: inject(unix.TIOCLINUX | 0xff<<32)},
		{name: "terminal: console", tty: true, who: onlyRoot, unsafe: true, act: inject(unix.TIOCCONS)},
		reach("terminal: write to another", somebodysTerminal, func(p places) error { return os.WriteFile(p.Terminal, []byte("x"), 0) }),
		reach("terminal: take another", somebodysTerminal, func(p places) error {
			if _, err := unix.Setsid(); err != nil && err != unix.EPERM {
				return err
			}
			fd, err := unix.Open(p.Terminal, unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = unix.Write(fd, []byte("x"))
			return err
		}),
		{name: "terminal: read what is typed into another", setup: func(s *scene) {
			master, slave, err := pty.Open()
			must(s, err)
			s.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
			s.Terminal = slave.Name()
			_, err = master.WriteString("secret\n")
			must(s, err)
		}, act: func(p places) error {
			fd, err := unix.Open(p.Terminal, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
			if err != nil {
				return err
			}
			_, err = unix.Read(fd, make([]byte, 16))
			return err
		}},
		{name: "terminal: read the settings of another", setup: func(s *scene) { somebodysTerminal(s) }, act: func(p places) error {
			fd, err := unix.Open(p.Terminal, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
			if err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
			_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
			return err
		}},
	}
	return list
}
