package main

import "golang.org/x/sys/unix"

// probe looks at the terminal of a command, which nobody may here: the demo passes every key on.
type probe struct{}

func newProbe(int) *probe { return nil }

func (*probe) look() ttyState { return ttyState{} }

func (*probe) modes() ttyState { return ttyState{} }

func living(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }
