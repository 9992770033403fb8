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
	// maxRests bounds the rests for one batch, and so the delay of a flood's end to about half a millisecond.
	maxRests = 8
	// maxResting bounds the threads that rest at once.
	maxResting = 4
)

// pace detects a child that floods, and reads accordingly.
type pace struct {
	began time.Time
	bytes int
}

func (p *pace) floods() bool { return p.bytes >= floodBytes }

// fill reads once if little waits, and until nothing waits if much does. For a flooding child it rests when nothing waits,
// so that a batch is worth the wake-up that it costs its receiver.
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

// count adds a read, and forgets those that are older than floodTime.
func (p *pace) count(n int) {
	if now := time.Now(); now.Sub(p.began) > floodTime {
		p.began, p.bytes = now, 0
	}
	p.bytes += n
}

var resting = make(chan struct{}, maxResting)

// rest waits for some 50 µs, the kernel's timer slack, in which a flooding child can fill the 12 KiB that its terminal holds.
// Go's poller would wake the reader for the first byte, and its timers are no finer than 1 ms. rest blocks a thread, so it
// does nothing if too many readers already rest.
func rest() bool {
	select {
	case resting <- struct{}{}:
	default:
		return false
	}
	_, _ = unix.Select(0, nil, nil, nil, &unix.Timeval{Usec: 1})
	<-resting
	return true
}
