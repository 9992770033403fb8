package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/execbus/execbus/cmd/internal/ask"
	"github.com/execbus/execbus/messages"
)

// terminal is the terminal that the demo was started on.
type terminal struct {
	in, out *os.File
	before  *term.State // to be restored
	pastes  bool        // it marks pasted text while a line is typed
}

// openTerminal checks whether input and output are a terminal.
func openTerminal() *terminal {
	before, err := term.GetState(int(os.Stdin.Fd()))
	if err != nil || !term.IsTerminal(int(os.Stdout.Fd())) {
		return nil
	}
	return &terminal{in: os.Stdin, out: os.Stdout, before: before}
}

// raw passes every key on, and shows none.
func (t *terminal) raw() { _, _ = term.MakeRaw(int(t.in.Fd())) }

// restore does nothing if a shell has taken the terminal back and set it up for itself. It may be called from any goroutine and more
// than once.
func (t *terminal) restore() {
	if group, err := unix.IoctlGetInt(int(t.in.Fd()), unix.TIOCGPGRP); err == nil && group != unix.Getpgrp() {
		return
	}
	if t.pastes {
		t.show([]byte(pasteOff))
	}
	_ = term.Restore(int(t.in.Fd()), t.before)
}

func (t *terminal) size() messages.Size { return ask.Size(t.out) }

// show shows bytes unchanged. If the terminal is gone, SIGHUP or the end of the input ends this process.
func (t *terminal) show(p []byte) { _, _ = t.out.Write(p) }

// Write shows text of the demo itself. A raw terminal does not go to the left at the end of a line.
func (t *terminal) Write(p []byte) (int, error) {
	t.show([]byte(strings.ReplaceAll(string(p), "\n", "\r\n")))
	return len(p), nil
}

// smart reports whether the terminal understands escape sequences.
func smart() bool { return os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != "" }

// On a terminal the demo is two processes. After a panic in any goroutine, a fatal error of the Go runtime or SIGKILL, a
// process cannot restore the terminal. So the host works in a child. Its parent, the guard, only waits for the host and
// restores the terminal. If the guard is killed, the host sees its lifeline close.

// lifelineVariable tells the host that it has a guard, and gives the descriptor of its lifeline.
const lifelineVariable = "EXECBUS_DEMO_LIFELINE"

// lifelineFD is the first descriptor after the standard ones.
const lifelineFD = 3

// guardPatience is how long a host may take to end after it was asked to. A host normally gives up before that.
const guardPatience = shutdownTime + 5*time.Second

// guard runs this program again, as the host, and restores the terminal however the host ends.
func guard(t *terminal) int {
	self, err := os.Executable()
	if err != nil {
		return fail(fmt.Errorf("cannot find the program itself to start it again: %w", err))
	}
	reads, writes, err := os.Pipe() // it closes with this process, which alone has the writing end
	if err != nil {
		return fail(err)
	}
	host := exec.Command(self, os.Args[1:]...)
	host.Args[0] = os.Args[0]
	host.Env = append(os.Environ(), fmt.Sprintf("%s=%d", lifelineVariable, lifelineFD))
	host.Stdin, host.Stdout, host.Stderr = os.Stdin, os.Stdout, os.Stderr
	host.ExtraFiles = []*os.File{reads}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := host.Start(); err != nil {
		return fail(fmt.Errorf("cannot start the program itself again: %w", err))
	}
	go func() {
		for received := range signals {
			_ = host.Process.Signal(received)
			if received == syscall.SIGTERM || received == syscall.SIGHUP {
				time.AfterFunc(guardPatience, func() { _ = host.Process.Kill() })
			}
		}
	}()
	err = host.Wait()
	t.restore()
	_ = writes.Close()
	if exit, exited := errors.AsType[*exec.ExitError](err); exited {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			fmt.Fprintf(os.Stderr, "\ndemo: the demo crashed (%v); the terminal has been restored, and all commands have been ended\n", exit)
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

// lifeline returns a file that ends when the guard is gone, or nil if this process is to be the guard.
func lifeline() io.Reader {
	if os.Getenv(lifelineVariable) == "" {
		return nil
	}
	_ = os.Unsetenv(lifelineVariable) // commands must not inherit it
	syscall.CloseOnExec(lifelineFD)
	return os.NewFile(lifelineFD, "lifeline")
}
