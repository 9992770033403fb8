package tree

import (
	"bytes"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// fastestFork is less time than one processor needs to give out a pid: a clone that a limit of processes makes fail takes 2 µs.
	fastestFork = time.Microsecond
	// fastestForks is less time than all processors together need, however many they are. The kernel gives out pids under one lock.
	fastestForks = 100 * time.Nanosecond
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
	round, err := roundTime()
	if err != nil {
		return false
	}
	checked := t.pid
	for range maxPasses {
		last, err := lastPID()
		if err != nil || last < checked || last-t.pid > manyPIDs || time.Since(t.born) > round {
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

// lastPID returns the pid that the kernel gave out last.
func lastPID() (int, error) {
	var room [128]byte
	text, err := readLine("/proc/loadavg", room[:])
	if err != nil {
		return 0, err
	}
	return lastNumber(text, " ")
}

// pidRound is a time, less than the kernel needs to give out all pids, and when that was found out.
type pidRound struct {
	lasts time.Duration
	since time.Time
}

var lastRound atomic.Pointer[pidRound]

// roundTime returns less time than the kernel needs to give out all pids. It reads their number at most once in a second. If root
// lowers that by a lot, what a command has forked may be overlooked for a second; but root can also lower it, fork, and raise it again.
func roundTime() (time.Duration, error) {
	now := time.Now()
	if r := lastRound.Load(); r != nil && now.Sub(r.since) < time.Second {
		return r.lasts, nil
	}
	var room [128]byte
	text, err := readLine("/proc/sys/kernel/pid_max", room[:])
	if err != nil {
		return 0, err
	}
	most, err := lastNumber(text, "")
	if err != nil {
		return 0, err
	}
	r := &pidRound{time.Duration(most-reservedPIDs) * forkTime(), now}
	lastRound.Store(r)
	return r.lasts, nil
}

// forkTime is less time than this machine needs to give out a pid.
var forkTime = sync.OnceValue(func() time.Duration {
	var room [128]byte
	text, err := readLine("/sys/devices/system/cpu/possible", room[:]) // such as 0-7
	if err != nil {
		return fastestForks
	}
	last, err := lastNumber(text, "-,")
	if err != nil || last < 0 {
		return fastestForks
	}
	return max(fastestFork/time.Duration(last+1), fastestForks)
})

// lastNumber reads the number that follows the last of the separators.
func lastNumber(text []byte, separators string) (int, error) {
	return strconv.Atoi(string(text[bytes.LastIndexAny(text, separators)+1:]))
}
