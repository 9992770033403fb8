package network

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// flowing is for how long a direction in which nothing comes keeps what it copies with: on Linux a pipe.
const flowing = 100 * time.Millisecond

// flow copies until the end. While nothing comes it holds no buffer and no pipe if both are TCP connections. Once half says that
// the other direction has ended, this one may be idle for as long as half says. It ends, too, if the source has hung up and the destination
// takes nothing for as long as patience says.
func flow(to, from net.Conn, half func() time.Duration, patience time.Duration) (total int64, err error) {
	if p, is := from.(*prefixed); is {
		n, err := (&watched{to, p.Conn, patience}).Write(p.early)
		if total = int64(n); err != nil {
			return total, err
		}
		from = p.Conn
	}
	if p, is := to.(*prefixed); is {
		to = p.Conn
	}
	source, ok := from.(*net.TCPConn)
	destination, both := to.(*net.TCPConn)
	if !ok || !both {
		n, err := copyBuffered(&watched{to, from, patience}, &bounded{from, half})
		return total + n, err
	}
	for {
		bound(source, half)
		if _, err := peek(source); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
		// With splice the deadline ends a copy only while nothing is in the pipe.
		source.SetReadDeadline(time.Now().Add(flowing))
		stop := watch(destination, source, patience)
		n, err := destination.ReadFrom(source)
		total += n
		if abandoned := stop(); abandoned || !errors.Is(err, os.ErrDeadlineExceeded) {
			return total, err
		}
	}
}

// watch looks after a copy that may wait until the destination takes something. Every patience it looks whether the destination has taken
// something since, or the source is still there; if not, it makes the copy fail with os.ErrDeadlineExceeded. Stop says whether it did so.
func watch(destination, source net.Conn, patience time.Duration) (stop func() bool) {
	var mu sync.Mutex // the timer runs in a goroutine of its own, and may be late
	taken, stopped, abandoned := takenBy(destination), false, false
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(patience, func() {
		mu.Lock()
		defer mu.Unlock()
		before := taken
		switch taken = takenBy(destination); {
		case stopped:
		case taken == before && hungUp(source):
			abandoned = true
			destination.SetWriteDeadline(time.Unix(1, 0))
		default:
			timer.Reset(patience)
		}
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
		return abandoned
	}
}

// watched is a destination to which what a source has sent is written.
type watched struct {
	net.Conn
	source   net.Conn
	patience time.Duration
}

// Write implements io.Writer.
func (w *watched) Write(b []byte) (int, error) {
	stop := watch(w.Conn, w.source, w.patience)
	defer stop()
	return w.Conn.Write(b)
}

// tcp is the TCP connection below others; nil if there is none.
func tcp(conn net.Conn) *net.TCPConn {
	switch c := conn.(type) {
	case *net.TCPConn:
		return c
	case *prefixed:
		return tcp(c.Conn)
	case *namedConn:
		return tcp(c.Conn)
	case *tls.Conn:
		return tcp(c.NetConn())
	}
	return nil
}

// bound lets the next byte take its time. The end of the other direction comes at any moment: after it either half or its own
// deadline says so.
func bound(from net.Conn, half func() time.Duration) {
	from.SetReadDeadline(time.Time{})
	if idle := half(); idle > 0 {
		from.SetReadDeadline(time.Now().Add(idle))
	}
}

// bounded is a connection each of whose reads is bounded.
type bounded struct {
	net.Conn
	half func() time.Duration
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	bound(b.Conn, b.half)
	return b.Conn.Read(p)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyBuffered copies with a buffer.
func copyBuffered(to io.Writer, from io.Reader) (int64, error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buffer[:])
}

// peek waits for the next byte and leaves it where it is. It heeds the read deadline.
func peek(conn net.Conn) (byte, error) {
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return 0, errors.New("it is no TCP connection")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var next [1]byte
	var n int
	var failure error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, failure = unix.Recvfrom(int(fd), next[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
			if failure != unix.EINTR {
				return failure != unix.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case failure != nil:
		return 0, os.NewSyscallError("recvfrom", failure)
	case n == 0:
		return 0, io.EOF
	}
	return next[0], nil
}
