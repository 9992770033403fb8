package ask

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// Single makes a terminal pass on each key as it is typed, Ctrl-C too, and show none, until the returned function is called. A line
// feed begins a new line. A shell that stops and continues this program may change the terminal meanwhile; that is undone.
func Single(tty *os.File) (restore func(), err error) {
	var before *unix.Termios
	control(tty, func(fd int) {
		if before, err = unix.IoctlGetTermios(fd, getTermios); err == nil {
			err = single(fd, before)
		}
	})
	if err != nil {
		return nil, err
	}
	continued, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(continued, syscall.SIGCONT)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-continued:
				control(tty, func(fd int) { _ = single(fd, before) })
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(continued)
		close(over)
		<-done
		control(tty, func(fd int) { _ = unix.IoctlSetTermios(fd, setTermios, before) })
	}, nil
}

func single(fd int, before *unix.Termios) error {
	modes := *before
	modes.Iflag &^= unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	modes.Oflag |= unix.OPOST | unix.ONLCR
	modes.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, setTermios, &modes)
}

// Drop drops what was typed on a terminal and not read.
func Drop(tty *os.File) { control(tty, drop) }

// Size is the size of a terminal; zero if it is unknown.
func Size(tty *os.File) (size messages.Size) {
	control(tty, func(fd int) {
		if s, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
			size = messages.Size{Rows: s.Row, Cols: s.Col}
		}
	})
	return size
}

// control uses the descriptor of a file. Its method Fd would end the deadlines of reads.
func control(file *os.File, use func(fd int)) {
	if connection, err := file.SyscallConn(); err == nil {
		_ = connection.Control(func(fd uintptr) { use(int(fd)) })
	}
}
