package ptyio

import (
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
	// maxRests bounds the rests for one batch from a pipe, and so the delay of a flood's end to about half a millisecond.
	maxRests = 8
	// gatherTime bounds the waits for one batch from a terminal.
	gatherTime = 500 * time.Microsecond
	// maxLooks bounds the looks before each read of a flooding terminal. They take some 10 µs.
	maxLooks = 50
	// maxResting bounds the threads that wait for floods at once.
	maxResting = 4
)

// pace detects a child that floods, and reads accordingly.
type pace struct {
	began time.Time
	bytes int
}

func (p *pace) floods() bool { return p.bytes >= floodBytes }

// fill reads once if little waits, and until nothing waits if much does. For a flooding child it rests when nothing waits,
// so that a batch is worth the wake-up that it costs its receiver; see collect for terminals.
func (p *pace) fill(fd int, buffer []byte) (int, error) {
	total, rests := 0, 0
	floods := p.floods()
	for total < len(buffer) {
		n, err := syscall.Read(fd, buffer[total:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN && floods && total > 0 && rests < maxRests && rest():
			rests++
			continue
		case n <= 0 && total == 0:
			return 0, err
		case n <= 0:
			p.count(total)
			return total, nil // the next read returns the error again
		}
		total += n
		if n < moreRead && !floods {
			break
		}
	}
	p.count(total)
	return total, nil
}

// collect reads from a flooding terminal that is off Go's poller, until the buffer is full or nothing comes for a while. It returns 0
// if the flood is over.
func (p *pace) collect(fd int, buffer []byte) (total int) {
	var late time.Time
	for total < len(buffer) {
		awaitOutput(fd)
		n, err := syscall.Read(fd, buffer[total:])
		total += max(n, 0)
		again := err == nil && n > 0 || err == syscall.EINTR || err == syscall.EAGAIN && gather(fd, &late)
		if !again {
			break
		}
	}
	if total == 0 {
		p.bytes = 0
	}
	p.count(total)
	return total
}

// awaitOutput looks a few times whether a terminal has bytes. A read that finds none waits for the kernel's worker, which moves them
// from one side to the other; for a flood that sleep and the wake-up take longer than the worker needs.
func awaitOutput(fd int) {
	for range maxLooks {
		if hasOutput(fd) {
			return
		}
	}
}

// gather waits until a flooding terminal has more bytes. late is when the waits for this batch end; the first one sets it.
func gather(fd int, late *time.Time) bool {
	if late.IsZero() {
		*late = time.Now().Add(gatherTime)
	}
	left := time.Until(*late)
	return left > 0 && pause(func() bool { return readable(fd, left) })
}

// count adds a read, and forgets those that are older than floodTime.
func (p *pace) count(n int) {
	if now := time.Now(); now.Sub(p.began) > floodTime {
		p.began, p.bytes = now, 0
	}
	p.bytes += n
}

var resting = make(chan struct{}, maxResting)

// rest waits for some 50 µs, the kernel's timer slack, in which a flooding child can fill its pipe. Go's poller would wake the
// reader for the first byte, and its timers are no finer than 1 ms.
func rest() bool {
	return pause(func() bool {
		_, _ = unix.Select(0, nil, nil, nil, &unix.Timeval{Usec: 1})
		return true
	})
}

// pause makes a wait that blocks a thread, unless too many threads wait already.
func pause(wait func() bool) bool {
	select {
	case resting <- struct{}{}:
	default:
		return false
	}
	defer func() { <-resting }()
	return wait()
}
