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
		last, ok := t.forest.pids.since(t.begin, t.pid)
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

// mayHave reports whether a process is in the leader's session, or could be, since the kernel does not say. The processes of its
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

// pids counts the pids that the kernel gives out. Two looks less than a round apart tell how many were given out between them. After a
// longer gap, or when the number of pids has changed, a new series of looks begins.
type pids struct {
	mu     sync.Mutex // held for a look, because looks are compared in their order
	looked time.Time  // just before the last look
	found  pidsFound  // by it
	given  int        // how many were given out since the series began
	series int
}

// pidsFound is what a look finds.
type pidsFound struct {
	count int           // how many pids there are to give out
	last  int           // the one given out last
	round time.Duration // a time too short for the kernel to give out all that are free
}

// moment identifies a look.
type moment struct{ series, given, last int }

// begin returns the last look, or a new one if the last is at least half a round old.
func (p *pids) begin() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.looked) >= p.found.round/2 {
		p.look()
	}
	return moment{p.series, p.given, p.found.last}
}

// since looks again, and returns the pid given out last. ok means that the kernel cannot have been through all pids since an earlier
// look, and that pid is one of those given out since.
func (p *pids) since(begun moment, pid int) (last int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.look() || p.series != begun.series {
		return 0, false
	}
	count := p.found.count
	given, place := p.given-begun.given, (pid-begun.last+count)%count
	return p.found.last, given < count && 0 < place && place <= given
}

// look makes a look. It is called with the lock held.
func (p *pids) look() bool {
	began := time.Now()
	now, err := findPIDs()
	if err != nil {
		return false
	}
	if now.count == p.found.count && time.Since(p.looked) < min(now.round, p.found.round) {
		p.given += (now.last - p.found.last + now.count) % now.count
	} else {
		p.series, p.given = p.series+1, 0
	}
	p.looked, p.found = began, now
	return true
}

func findPIDs() (found pidsFound, err error) {
	if found.count, err = pidCount(); err != nil {
		return found, err
	}
	fields, err := loadavg()
	if err != nil {
		return found, err
	}
	if found.last, err = strconv.Atoi(string(fields[4])); err != nil {
		return found, err
	}
	threads, err := lastNumber(fields[3], "/")
	// The kernel skips the pids of these. It also skips those that only groups and sessions have; hence twice as many.
	found.round = time.Duration(max(found.count-2*threads, 0)) * forkTime()
	return found, err
}

// loadavg reads the five fields of a line such as 0.31 0.20 0.14 1/187 22104.
func loadavg() (fields [][]byte, err error) {
	text, err := readLine("/proc/loadavg", make([]byte, 128))
	if err != nil {
		return nil, err
	}
	if fields = bytes.Fields(text); len(fields) != 5 {
		return nil, errMalformed
	}
	return fields, nil
}

// lastPID returns the pid that the kernel has given out last; zero if it does not say.
func lastPID() int {
	fields, err := loadavg()
	if err != nil {
		return 0
	}
	last, _ := strconv.Atoi(string(fields[4]))
	return last
}

// pidLimit is how many pids there are to give out, and when that was read.
type pidLimit struct {
	count int
	since time.Time
}

var lastLimit atomic.Pointer[pidLimit]

// pidCount returns how many pids there are to give out. It reads that at most once in a second. If root lowers it by a lot, what a
// command has forked may be overlooked for a second; but root can also lower it, fork, and raise it again.
func pidCount() (int, error) {
	now := time.Now()
	if l := lastLimit.Load(); l != nil && now.Sub(l.since) < time.Second {
		return l.count, nil
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
	if most <= reservedPIDs {
		return 0, errMalformed
	}
	lastLimit.Store(&pidLimit{most - reservedPIDs, now})
	return most - reservedPIDs, nil
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
