package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// The interactive demo is two processes. After a panic in any goroutine, a fatal error of the Go runtime or SIGKILL, a
// process cannot restore the terminal. So the host works in a child. Its parent, the guard, only waits for the host and
// restores the terminal. If the guard is killed, the host sees its lifeline close.

// lifelineVariable tells the host that it has a guard, and gives the descriptor of its lifeline.
const lifelineVariable = "EXECBUS_DEMO_LIFELINE"

// lifelineFD is the first descriptor after the standard ones.
const lifelineFD = 3

// guardPatience is how long a host may take to end after it was asked to. A host normally gives up before that.
const guardPatience = shutdownTime + 5*time.Second

// guard runs the interactive host in a child, and restores the terminal however the host ends.
func guard(t *terminal) int {
	self, err := os.Executable()
	if err != nil {
		return fail(fmt.Errorf("cannot find the program itself to start it again: %w", err))
	}
	reads, writes, err := os.Pipe() // it closes with this process, which alone has the writing end
	if err != nil {
		return fail(err)
	}
	worker := exec.Command(self, os.Args[1:]...)
	worker.Args[0] = os.Args[0]
	worker.Env = append(os.Environ(), fmt.Sprintf("%s=%d", lifelineVariable, lifelineFD))
	worker.Stdin, worker.Stdout, worker.Stderr = os.Stdin, os.Stdout, os.Stderr
	worker.ExtraFiles = []*os.File{reads}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := worker.Start(); err != nil {
		return fail(fmt.Errorf("cannot start the program itself again: %w", err))
	}
	go passOn(signals, worker.Process)
	err = worker.Wait()
	t.pasted = smart()
	t.restore()
	_ = writes.Close()
	return workerCode(err)
}

// passOn passes signals on to the host, and kills a host that does not end.
func passOn(signals <-chan os.Signal, worker *os.Process) {
	for received := range signals {
		_ = worker.Signal(received)
		if received != syscall.SIGINT {
			time.AfterFunc(guardPatience, func() { _ = worker.Kill() })
		}
	}
}

// workerCode returns the host's exit code. It explains an abnormal end.
func workerCode(err error) int {
	exit, failed := errors.AsType[*exec.ExitError](err)
	if !failed {
		if err != nil {
			return fail(err)
		}
		return 0
	}
	code := exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	} else if code != crashed {
		return code
	}
	fmt.Fprintf(os.Stderr, "\ndemo: the demo crashed (%v); the terminal has been restored, and all running commands have been ended\n", exit)
	return code
}

// crashed is the exit code of a Go program that panics.
const crashed = 2

// lifeline returns a channel that is closed when the guard is gone, or nil if there is no guard.
func lifeline() io.Reader {
	if os.Getenv(lifelineVariable) == "" {
		return nil
	}
	_ = os.Unsetenv(lifelineVariable) // commands must not inherit it
	syscall.CloseOnExec(lifelineFD)
	return os.NewFile(lifelineFD, "lifeline")
}
