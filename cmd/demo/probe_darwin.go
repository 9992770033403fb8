package main

import "golang.org/x/sys/unix"

// probe should look at the terminal of a command. That is not possible here, so the demo passes every key on.
type probe struct{}

func newProbe(int) *probe { return nil }

func (*probe) look() ttyState { return ttyState{} }

func (*probe) modes() ttyState { return ttyState{} }

func living(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }
