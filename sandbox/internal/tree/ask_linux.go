package tree

import (
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// asking is what is known about those that were asked to end.
type asking struct {
	members []procs.Process
	asked   map[procs.Identity]int // to the group in which a member was, or to alone
	whole   map[int]bool           // the groups that were signalled in one step
	traps   bool                   // one of them has a handler for SIGTERM
	// The pids given out last before the first signal and after the last one; zero if they are not known.
	given, sent int
	look        time.Time // when to look for those that were missed
	wait        time.Duration
}

const (
	alone = -1
	// askAgain is the time between the first SIGHUP and the second one, and before the first look for members that were not
	// asked. Each further look comes after twice the time, up to lastLook.
	askAgain = 50 * time.Millisecond
	lastLook = 800 * time.Millisecond
)

// ask sends SIGTERM once to every member, and under a terminal SIGHUP, too. Stopped members are continued to receive it. What a member
// forks after it was signalled is not asked: it may do the work of a trap.
func (t *Tree) ask() *asking {
	a := &asking{members: t.others(), asked: map[procs.Identity]int{}, wait: askAgain}
	a.traps = slices.ContainsFunc(a.members, func(p procs.Process) bool { return procs.TermOf(p.PID).Caught })
	t.hangUp(a.members)
	a.given = procs.LastPID()
	a.whole, _, _ = t.sendAll(a.members, unix.SIGTERM)
	a.sent = procs.LastPID()
	for _, p := range a.members {
		a.asked[p.ID()] = p.Group
		if p.Stopped() {
			_ = procs.Send(p, unix.SIGCONT)
		}
	}
	a.look = time.Now().Add(a.wait)
	return a
}

// again asks the members that were missed, and sets the time of the next look. Nil means that there will be none.
func (t *Tree) again(a *asking) *asking {
	if a.wait == askAgain {
		t.hangUp(a.members)
	}
	found := t.others()
	missed := a.missed(found, procs.LastPID(), func(p procs.Process) bool { return procs.TermOf(p.PID).Blocked })
	for _, p := range missed {
		a.asked[p.ID()] = alone
		a.traps = a.traps || procs.TermOf(p.PID).Caught
	}
	_, _, _ = t.sendAll(missed, unix.SIGTERM)
	for _, p := range found { // some have stopped since
		if _, asked := a.asked[p.ID()]; asked && p.Stopped() {
			_ = procs.Send(p, unix.SIGCONT)
		}
	}
	if a.wait == lastLook {
		return nil
	}
	a.wait *= 2
	a.look = a.look.Add(a.wait)
	return a
}

// missed returns the members that were not signalled. Last is the pid given out last once they were found. Where none of those asked
// has a handler, or holds SIGTERM back to read it as a file, no trap has work to do. Then this is everything that was not asked: bash
// holds SIGTERM back for a moment while it forks. Otherwise it is what existed before: members that have left a group before the whole
// of it was signalled, those that were forked before the first signal, and of those forked between the first and the last one the ones
// whose parent is dead: it had no signal yet.
func (a *asking) missed(found []procs.Process, last int, blocks func(procs.Process) bool) (missed []procs.Process) {
	lives, strict := map[int]bool{}, a.traps
	for _, p := range found {
		lives[p.PID] = true
		if _, asked := a.asked[p.ID()]; asked {
			strict = strict || blocks(p)
		}
	}
	for _, p := range found {
		group, asked := a.asked[p.ID()]
		switch {
		case asked && (!a.whole[group] || p.Group == group):
		case asked, !strict:
			missed = append(missed, p)
		case a.whole[p.Group], a.given == 0 || a.sent == 0 || last == 0, between(a.sent, p.PID, last):
		case !between(a.given, p.PID, a.sent) || !lives[p.PPID]:
			missed = append(missed, p)
		}
	}
	return missed
}

// between reports whether a pid was given out after the first and up to the last, which may be that of a new round.
func between(first, pid, last int) bool {
	if first <= last {
		return first < pid && pid <= last
	}
	return first < pid || pid <= last
}

// hangUp sends SIGHUP, under a terminal, to members that ignore SIGTERM, as an interactive shell does. Other members do not
// get it: it must not interrupt a SIGTERM trap, nor be the reported cause of a program's death. It is sent twice, because bash
// loses a signal that comes just before it waits for input, and because bash's line editor handles SIGTERM for an instant before
// it sees that the shell ignores the signal.
func (t *Tree) hangUp(members []procs.Process) {
	if !t.spec.TTY {
		return
	}
	for _, p := range members {
		if procs.TermOf(p.PID).Ignored {
			_ = procs.Send(p, unix.SIGHUP)
		}
	}
}

// Signal sends sig to the members of a process group, or to all members if group is zero.
func (t *Tree) Signal(sig syscall.Signal, group int) error {
	if group == t.pid && t.isolated == nil {
		return t.forest.signalGroup(t, sig)
	}
	var members []procs.Process
	for _, p := range t.others() {
		if group == 0 || p.Group == group {
			members = append(members, p)
		}
	}
	_, reached, err := t.sendAll(members, sig)
	if reached > 0 {
		return nil
	}
	return err
}

// sendAll sends sig to members. Where it can, it has the kernel signal their whole groups in one step: then it does not miss a child that
// one of them is forking. It returns these groups, the number of members signalled, and the last error.
func (t *Tree) sendAll(members []procs.Process, sig syscall.Signal) (whole map[int]bool, reached int, failed error) {
	whole, failed = map[int]bool{}, unix.ESRCH
	singly := map[int]bool{} // groups of which a member has the signal already
	for _, p := range members {
		switch {
		case whole[p.Group]:
		case !singly[p.Group] && t.sendGroup(p, sig) == nil:
			whole[p.Group] = true
		default:
			if err := procs.Send(p, sig); err != nil {
				failed = err
				continue
			}
			singly[p.Group] = true
		}
		reached++
	}
	return whole, reached, failed
}

// sendGroup delivers sig to exactly the group in which p was seen. A group lies within a session, so it has no member outside of the tree.
// The leader of the tree, dead or alive, pins the number of its group. Another group is known by a pidfd of the process that
// leads it, if that has not been reaped and the kernel is Linux 6.9 or newer.
func (t *Tree) sendGroup(p procs.Process, sig syscall.Signal) error {
	if p.Group == t.pid && t.isolated == nil {
		return t.forest.signalGroup(t, sig)
	}
	if p.Hidden != nil || !procs.Pidfds() {
		return unix.EPERM
	}
	return procs.SignalBy(p.Group, p, sig, unix.PIDFD_SIGNAL_PROCESS_GROUP) // while p is in the group, no other process can have its number
}
