//go:build linux

package ptyio

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel passes input on to a terminal later, and much later where it is short of processor time. A key that waits there is
// acted on all the same.
func TestAKeyThatDoesNotReachTheTerminalTakesEffect(t *testing.T) {
	ours, theirs := lineTerminal(t, func(*unix.Termios) {})
	child := exec.Command("sleep", "1000")
	child.Stdin, child.SysProcAttr = theirs, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = child.Wait(); close(ended) }()
	in := &input{file: ours, terminal: true}
	in.write([]byte("held\n"), time.Time{}, func(int, error) {})
	key := &inputItem{bytes: []byte("\x03"), taken: 1, done: func(taken int, err error) {
		if taken != 1 || err != nil {
			t.Errorf("%d, %v", taken, err)
		}
	}}
	in.current = key // as if the kernel had it, and not the terminal
	in.follow(key, signalKey{signal: syscall.SIGINT, discards: true})
	if n := in.unread(); n != 0 {
		t.Errorf("%d bytes from before the key can be read", n)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		_ = child.Process.Kill()
		<-ended
	}
	if status := child.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("the child ended with %v", child.ProcessState)
	}
}
