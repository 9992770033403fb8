package sandbox

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// Where a program's file system does not answer its newborn hangs. Whether the program's file answers is found out before; but
// a script's interpreter may not, or a file that answered a moment ago, and a command may stop the newborn. So it is killed
// when it has not come to life for so many looks in a row, which are a tending apart: a cold disk takes less. A warden that
// still owes an answer then is given up as if it had died.
const (
	maxHungLooks = 4
	maxDeadLooks = 10
)

// hungFork is a newborn that was met again and again.
type hungFork struct {
	newborn tree.Newborn
	looks   int
	killed  int       // pid of the last one that was killed
	met     time.Time // when one was met last
}

// tendFork looks at the fork under way. It is called by tend alone.
func (p *wardenProcess) tendFork() {
	if !p.waitedFor(p.options.waits().tend) {
		p.hung.looks = 0
		return
	}
	newborn, found := tree.FindNewborn(p.pid)
	if !found { // or it runs at this very moment, which says nothing about the next
		return
	}
	if newborn != p.hung.newborn {
		p.hung.newborn, p.hung.looks = newborn, 0
	}
	p.hung.looks++
	p.mu.Lock()
	p.hung.met = time.Now()
	p.mu.Unlock()
	switch {
	case p.hung.looks == maxHungLooks:
		p.mu.Lock()
		p.hung.killed = newborn.PID
		p.mu.Unlock()
		_ = newborn.Kill()
	case p.hung.looks >= maxDeadLooks:
		p.signal(unix.SIGKILL)
	}
}

// forkHangs reports whether the warden has no time to read what we say for a reason that is being dealt with: tend kills what
// hangs, and a warden that hangs nevertheless.
func (p *wardenProcess) forkHangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.hung.met) < p.options.waits().send
}

// took reports whether a leader that is said to have started is the one that was killed.
func (h *hungFork) took(pid int) bool {
	took := pid == h.killed
	if took {
		h.killed = 0
	}
	return took
}

// waitedFor reports whether a start has not been answered for so long.
func (p *wardenProcess) waitedFor(long time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leaders {
		if l.pid == 0 && time.Since(l.asked) > long {
			return true
		}
	}
	return false
}

func errHung(program string, tend time.Duration) error {
	return &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: program,
		Detail: fmt.Sprintf("the system did not get it executed in %v: its file system, or that of its interpreter, does not answer; try again when it does",
			maxHungLooks*tend)}
}
