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

// forkedNothing reports that nothing is left of the session of a leader that has exited. It does not scan all processes; false
// means that it does not know. The kernel gives out pids in ascending order and then begins again. So while it cannot have given
// out all of them since the leader began, every process that the leader's tree has forked has one of the pids after the leader's.
func (t *Tree) forkedNothing() bool {
	if !t.leaderDead() || t.known() > 0 {
		return false
	}
	checked := t.pid
	for range maxPasses {
		last, ok := t.forest.pids.since(t.begin)
		if !ok || last < checked || last-t.pid > manyPIDs {
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

// mayHave reports whether a process is in the leader's session, or may be because the kernel does not say. The processes of its
// group are in its session, too.
func (t *Tree) mayHave(pid int) bool {
	session, err := unix.Getsid(pid)
	return session == t.pid || err != nil && err != unix.ESRCH
}

// known counts the members met since the ending began.
func (t *Tree) known() int {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	return len(t.seen)
}

// pids counts the pids that the kernel gives out, from look to look. If less than the time of a round has passed between two looks,
// the pids at both tell how many there were. A look that comes later begins a new series.
type pids struct {
	mu     sync.Mutex // held for a look, because looks are compared in their order
	looked time.Time  // just before the last look
	last   int        // the pid given out last, then
	given  int        // how many were given out since the series began
	series int
}

// moment identifies a look.
type moment struct{ series, given int }

// begin returns the last look, or a new one if that was half a round ago.
func (p *pids) begin() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, err := roundNow(); err != nil || time.Since(p.looked) >= r.lasts/2 {
		p.look()
	}
	return moment{p.series, p.given}
}

// since looks again. It returns the pid given out last, and reports whether fewer pids than there are have been given out since
// an earlier look.
func (p *pids) since(begun moment) (last int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count, ok := p.look()
	return p.last, ok && p.series == begun.series && p.given-begun.given < count
}

// look makes a look, and returns how many pids there are. The caller holds the lock.
func (p *pids) look() (count int, ok bool) {
	began := time.Now()
	r, err := roundNow()
	if err != nil {
		return 0, false
	}
	last, err := lastPID()
	if err != nil {
		return 0, false
	}
	if time.Since(p.looked) < r.lasts {
		p.given += (last - p.last + r.count) % r.count
	} else {
		p.series, p.given = p.series+1, 0
	}
	p.looked, p.last = began, last
	return r.count, true
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

// pidRound is how many pids there are to give out, and a time that is less than the kernel needs for that.
type pidRound struct {
	count int
	lasts time.Duration
	since time.Time // when this was found out
}

var lastRound atomic.Pointer[pidRound]

// roundNow reads the number of pids at most once in a second. If root lowers it by a lot, what a command has forked may be overlooked
// for a second; but root can also lower it, fork, and raise it again.
func roundNow() (*pidRound, error) {
	now := time.Now()
	if r := lastRound.Load(); r != nil && now.Sub(r.since) < time.Second {
		return r, nil
	}
	var room [128]byte
	text, err := readLine("/proc/sys/kernel/pid_max", room[:])
	if err != nil {
		return nil, err
	}
	most, err := lastNumber(text, "")
	if err != nil {
		return nil, err
	}
	count := most - reservedPIDs
	if count <= 0 {
		return nil, errMalformed
	}
	r := &pidRound{count, time.Duration(count) * forkTime(), now}
	lastRound.Store(r)
	return r, nil
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
