package sandbox

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// A newborn hangs if its program's file system does not answer. The host has opened the program's file before, but the file
// system may have stopped answering since, a script's interpreter may not answer, or a command may have stopped the newborn.
// So a newborn is killed when so many looks in a row have found it. The looks are one tend apart, and a cold disk takes less
// time. If the warden still does not answer after that, it is treated as dead.
const (
	maxHungLooks = 4
	maxDeadLooks = 10
)

// hungFork is a newborn that several looks have found.
type hungFork struct {
	newborn tree.Newborn
	looks   int
	killed  int       // pid of the last one that was killed
	met     time.Time // when a newborn was last found
}

// tendFork looks at the birth under way. Only tend calls it.
func (p *wardenProcess) tendFork() {
	if !p.waitedFor(p.options.waits().tend) {
		p.hung.looks = 0
		return
	}
	newborn, found := tree.FindNewborn(p.pid)
	if !found { // or it is running now, which says nothing about the next look
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

// forkHangs reports whether the warden does not read requests because a newborn hangs. tend deals with that: it kills the
// newborn, and then a warden that still hangs.
func (p *wardenProcess) forkHangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.hung.met) < p.options.waits().send
}

// took reports whether a leader that is reported as started is the killed newborn.
func (h *hungFork) took(pid int) bool {
	took := pid == h.killed
	if took {
		h.killed = 0
	}
	return took
}

// waitedFor reports whether a start has been unanswered for this long.
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
		Detail: fmt.Sprintf("the system could not execute it within %v: its file system, or that of its interpreter, does not answer; try again when it does",
			maxHungLooks*tend)}
}
