//go:build linux

package ptyio

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal with input that the program has not read may see a key much later, where it is short of processor time.
func TestAKeyBehindUnreadInputTakesEffect(t *testing.T) {
	ours, theirs := lineTerminal(t, func(*unix.Termios) {})
	child := exec.Command("sleep", "1000")
	child.Stdin, child.SysProcAttr = theirs, &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = child.Wait(); close(ended) }()
	in := &input{file: ours, terminal: true}
	in.write([]byte("held\n"), time.Time{}, func(Taken, error) {})
	for in.unread() == 0 { // the kernel passes input on a little later
		<-time.After(time.Millisecond)
	}
	in.write([]byte("\x03"), time.Time{}, func(taken Taken, err error) {
		if taken.Bytes != 1 || err != nil {
			t.Errorf("%d, %v", taken.Bytes, err)
		}
	})
	if n := in.unread(); n != 0 {
		t.Errorf("%d bytes from before the key can be read", n)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = child.Process.Kill()
		<-ended
	}
	if status := child.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGINT {
		t.Errorf("the child ended with %v", child.ProcessState)
	}
}
