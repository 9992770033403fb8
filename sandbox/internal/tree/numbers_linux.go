package tree

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// fastestFork is less time than any machine needs to give out a pid. The kernel does that under one lock.
	fastestFork = 100 * time.Nanosecond
	// reservedPIDs are not given out again after the first round.
	reservedPIDs = 300
	// manyPIDs is the number of pids from which on they are not examined one by one.
	manyPIDs = 256
)

// forkedNothing reports that nothing is left of the group and the session of a leader that has exited. It does not scan all
// processes; false means that it does not know. The kernel gives out pids in ascending order and then begins again. So while
// it cannot have given out all of them since the leader began, every process that the leader's tree has forked has one of the
// pids after the leader's.
func (t *Tree) forkedNothing() bool {
	if !t.leaderDead() || t.known() > 0 {
		return false
	}
	checked := t.pid
	for range maxPasses {
		last, round, err := lastPID()
		if err != nil || last < checked || last-t.pid > manyPIDs || time.Since(t.born) > time.Duration(round)*fastestFork {
			return false
		}
		if last == checked {
			return true
		}
		for ; checked < last; checked++ {
			if t.mayHave(checked + 1) {
				return false
			}
		}
	}
	return false
}

// mayHave reports whether a process is in the leader's group or session, or may be because the kernel does not say.
func (t *Tree) mayHave(pid int) bool {
	group, err := unix.Getpgid(pid)
	if err != nil {
		return err != unix.ESRCH
	}
	session, err := unix.Getsid(pid)
	return group == t.pid || session == t.pid || err != nil && err != unix.ESRCH
}

// known counts the members met since the ending began.
func (t *Tree) known() int {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	return len(t.seen)
}

// lastPID returns the pid that the kernel gave out last, and how many it gives out before it comes to the same pid again.
func lastPID() (last, round int, err error) {
	var room [128]byte
	text, err := readFile("/proc/loadavg", room[:])
	if err != nil {
		return 0, 0, err
	}
	if last, err = strconv.Atoi(string(bytes.TrimSpace(text[bytes.LastIndexByte(text, ' ')+1:]))); err != nil {
		return 0, 0, err
	}
	if text, err = readFile("/proc/sys/kernel/pid_max", room[:]); err != nil {
		return 0, 0, err
	}
	most, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	return last, most - reservedPIDs, err
}
