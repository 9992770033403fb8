package ptyio

import (
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// moreRead is the size of a read after which more bytes are likely to wait: the kernel hands out a PTY's output in pieces
	// of at most 4,095 bytes.
	moreRead = 1 << 10
	// A child floods when it has written floodBytes within floodTime.
	floodBytes = 64 << 10
	floodTime  = 10 * time.Millisecond
	// gatherTime bounds the wait for one batch from a flooding terminal.
	gatherTime = 500 * time.Microsecond
)

// gathering bounds the flooding children that are read at once, and so the threads that wait for their output, to half the number of
// processors. More would keep every processor busy without a pause, and Go checks its poller only in pauses, or after 10 ms: beside
// eight floods the echo of a key then takes ten times as long.
var gathering = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// rate is how fast a child writes.
type rate struct {
	since time.Time
	bytes int
}

func (r *rate) floods() bool { return r.bytes >= floodBytes }

// count adds a read, and forgets those that are older than floodTime. If nothing was read the flood is over.
func (r *rate) count(n int) {
	if now := time.Now(); n <= 0 || now.Sub(r.since) > floodTime {
		r.since, r.bytes = now, 0
	}
	r.bytes += max(n, 0)
}

// fill reads from a descriptor that does not block: once if little waits, and until nothing waits if much does or the child floods.
func fill(fd int, buffer []byte, floods bool) (total int, err error) {
	if floods {
		gathering <- struct{}{}
		defer func() { <-gathering }()
		rest()
	}
	for total < len(buffer) {
		n, err := syscall.Read(fd, buffer[total:])
		switch {
		case err == syscall.EINTR:
			continue
		case n <= 0 && total == 0:
			return 0, err
		case n <= 0:
			return total, nil // the next read returns the error again
		}
		total += n
		if n < moreRead && !floods {
			break
		}
	}
	return total, nil
}

// rest waits for some 50 µs, the kernel's timer slack, in which a flooding child can fill its pipe. Go's poller would wake the
// reader for the first byte, and its timers are no finer than 1 ms.
func rest() { _, _ = unix.Select(0, nil, nil, nil, &unix.Timeval{Usec: 1}) }

// gather reads from a flooding terminal that is off Go's poller, until the buffer is full or gatherTime is over. It returns 0 if the
// flood is over.
func gather(fd int, buffer []byte) (total int) {
	gathering <- struct{}{}
	defer func() { <-gathering }()
	until := time.Now().Add(gatherTime)
	for left := gatherTime; left > 0 && total < len(buffer); left = time.Until(until) {
		n, err := syscall.Read(fd, buffer[total:])
		total += max(n, 0)
		if again := n > 0 || err == syscall.EINTR || err == syscall.EAGAIN && readable(fd, left); !again {
			break
		}
	}
	return total
}
