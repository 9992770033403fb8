package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxFiles bounds the descriptors of one message; the kernel's own bound is 253.
	maxFiles = 128
	// keptBuffer is the largest buffer that is kept for the next message.
	keptBuffer = 64 << 10
	// maxMessage bounds one message; ptyio's bound for arguments and environment is far below.
	maxMessage = 16 << 20
	// prefix is the length that precedes a message.
	prefix = 4
	// maxPart is how much one system call writes at most.
	maxPart = 64 << 10
)

// ErrBroken is the error of every send after the end of the connection.
var ErrBroken = errors.New("the connection is broken")

// Conn sends and receives messages with descriptors. Send is safe for concurrent use; Receive belongs to one goroutine.
type Conn struct {
	socket   *os.File // not package net: every warden would initialise it, and host packages before it
	raw      syscall.RawConn
	await    func() error // waits until there is something to receive; nil: Go's poller does
	patience time.Duration
	bear     func() bool // reports whether to go on waiting after that; may be nil

	// sending keeps a message with its descriptors, and the stream in order. A message to a goroutine would only move the wait
	// for the socket there, and need a second queue with a second bound.
	sending sync.Mutex
	out     []byte // messages that Later has left for the next Send; its room is reused
	left    int    // how many messages out holds

	reader  *bufio.Reader
	in      []byte
	control [64 + 4*maxFiles]byte
	batches []batch // received and not yet taken
}

// batch holds the descriptors of one message.
type batch struct {
	fds []int
	cut bool // the kernel had no room for more in this process
}

// NewConn takes over a connected stream socket. If the other side reads nothing of a message for the time of patience, the
// connection breaks, unless bear returns true: then the wait begins again. Zero means no limit.
func NewConn(fd int, patience time.Duration, bear func() bool) (*Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), "socket")
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	c := &Conn{socket: socket, raw: raw, patience: patience, bear: bear}
	c.reader = bufio.NewReader(reader{c})
	return c, nil
}

// NewThreadConn takes over a connected stream socket that is in blocking mode. It does not use Go's poller, so an arriving message
// wakes only the thread that receives. Receive calls await, which returns when the socket can be read; Receive returns its error.
// Sends wait without a limit, and each keeps its thread.
func NewThreadConn(fd int, await func() error) (*Conn, error) {
	socket := os.NewFile(uintptr(fd), "socket")
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	c := &Conn{socket: socket, raw: raw, await: await}
	c.reader = bufio.NewReader(reader{c})
	return c, nil
}

// maxLater bounds the messages that wait for the next one.
const maxLater = 4

// Send writes the messages that wait, and then this one. The caller keeps the files. An error other than ErrBroken concerns only
// these messages.
func (c *Conn) Send(message Message, files ...*os.File) error {
	return Hold(files, func(fds []int) error {
		c.sending.Lock()
		defer c.sending.Unlock()
		if err := c.encode(message); err != nil {
			return err
		}
		return c.flush(fds)
	})
}

// Later keeps a message and writes it together with the next one. It is for callers that know that another one comes soon.
func (c *Conn) Later(message Message) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	err := c.encode(message)
	if err != nil || c.left < maxLater {
		return err
	}
	return c.flush(nil)
}

// Flush writes the messages that wait, if there are any.
func (c *Conn) Flush() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.left == 0 {
		return nil
	}
	return c.flush(nil)
}

func (c *Conn) encode(message Message) error {
	text, err := encode(c.out, message)
	if err == nil {
		c.out, c.left = text, c.left+1
	}
	return err
}

// encode appends a message and its length.
func encode(text []byte, message Message) ([]byte, error) {
	before := len(text)
	coder := coder{bytes: append(text, make([]byte, prefix)...)}
	message.code(&coder)
	size := len(coder.bytes) - before - prefix
	if size > maxMessage {
		return text, unix.EMSGSIZE
	}
	binary.LittleEndian.PutUint32(coder.bytes[before:], uint32(size))
	return coder.bytes, nil
}

func (c *Conn) flush(fds []int) error {
	text := c.out
	c.out, c.left = nil, 0
	if cap(text) <= keptBuffer {
		c.out = text[:0]
	}
	return c.write(text, fds)
}

// sendEncoded writes what encode made.
func (c *Conn) sendEncoded(text []byte, fds []int) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.write(text, fds)
}

// write writes all of the text. A stream socket takes a large message in parts. Each part counts as progress.
func (c *Conn) write(text []byte, fds []int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for sent := 0; sent < len(text); {
		n, err := c.part(text[sent:min(len(text), sent+maxPart)], rights)
		switch {
		case err == nil:
			sent, rights = sent+n, nil // the kernel takes descriptors with the first byte
		case errors.Is(err, os.ErrDeadlineExceeded) && c.bear != nil && c.bear():
		case sent == 0 && !over(err):
			return err
		default:
			_ = c.shutdown(unix.SHUT_RDWR) // the other side would misread further bytes; this also wakes the receiver here
			return ErrBroken
		}
	}
	return nil
}

// attempt writes as much as the socket takes at once.
func (c *Conn) attempt(text []byte, fds []int) (sent int) {
	c.sending.Lock()
	defer c.sending.Unlock()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_ = c.raw.Control(func(fd uintptr) {
		n, err := unix.SendmsgN(int(fd), text[:min(len(text), maxPart)], rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		if err == nil {
			sent = n
		}
	})
	return sent
}

// part makes one system call, after waiting for room.
func (c *Conn) part(text, rights []byte) (n int, err error) {
	if c.patience > 0 {
		_ = c.socket.SetWriteDeadline(time.Now().Add(c.patience))
	}
	var failed error
	err = c.raw.Write(func(fd uintptr) bool {
		failed = unix.EINTR
		for failed == unix.EINTR {
			n, failed = unix.SendmsgN(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		}
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	return n, err
}

// over reports whether an error of part concerns the connection rather than the descriptors.
func over(err error) bool {
	_, fromKernel := errors.AsType[unix.Errno](err)
	return !fromKernel || err == unix.EPIPE || err == unix.ECONNRESET
}

// Receive reads the next message into an empty one. Its descriptors are then taken with TakeFiles.
func (c *Conn) Receive(message Message) error {
	var head [prefix]byte
	if _, err := io.ReadFull(c.reader, head[:]); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > maxMessage {
		return errMalformed
	}
	size := int(length)
	if c.in = slices.Grow(c.in[:0], size)[:size]; size > keptBuffer {
		defer func() { c.in = nil }()
	}
	if _, err := io.ReadFull(c.reader, c.in); err != nil {
		return err
	}
	coder := coder{bytes: c.in, reading: true}
	message.code(&coder)
	if coder.bad || len(coder.bytes) > 0 {
		return errMalformed
	}
	return nil
}

// Pending reports whether a part of the next message has already been read.
func (c *Conn) Pending() bool { return c.reader.Buffered() > 0 }

// TakeFiles returns the count descriptors that arrived with the message that named the count, or EMFILE if this process
// had no room for all of them.
func (c *Conn) TakeFiles(count int) ([]int, error) {
	if count == 0 {
		return nil, nil
	}
	if len(c.batches) == 0 {
		return nil, unix.EBADF
	}
	taken := c.batches[0]
	c.batches = c.batches[1:]
	if taken.cut || len(taken.fds) != count {
		for _, fd := range taken.fds {
			_ = unix.Close(fd)
		}
		return nil, unix.EMFILE
	}
	return taken.fds, nil
}

// CloseWrite lets the other side read end-of-file. Its remaining messages can still be received.
func (c *Conn) CloseWrite() error { return c.shutdown(unix.SHUT_WR) }

func (c *Conn) shutdown(how int) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { failed = unix.Shutdown(int(fd), how) })
	return errors.Join(err, failed)
}

// Close ends the connection; the other side reads end-of-file.
func (c *Conn) Close() error { return c.socket.Close() }

// reader reads the byte stream and puts the descriptors aside in batches. The kernel ends a read after the first message that
// carries descriptors, so each batch belongs to one message, and the batches come in order.
type reader struct{ c *Conn }

func (r reader) Read(p []byte) (int, error) {
	if r.c.await != nil {
		if err := r.c.await(); err != nil {
			return 0, err
		}
	}
	var n, oobn, flags int
	var failed error
	err := r.c.raw.Read(func(fd uintptr) bool {
		failed = unix.EINTR
		for failed == unix.EINTR {
			n, oobn, flags, _, failed = unix.Recvmsg(int(fd), p, r.c.control[:], unix.MSG_CMSG_CLOEXEC)
		}
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, err // n is -1 then, which bufio answers with a panic
	}
	if oobn > 0 || flags&unix.MSG_CTRUNC != 0 {
		received := batch{cut: flags&unix.MSG_CTRUNC != 0}
		controls, err := unix.ParseSocketControlMessage(r.c.control[:oobn])
		if err != nil {
			return n, err
		}
		for i := range controls {
			fds, err := unix.ParseUnixRights(&controls[i])
			if err != nil {
				return n, err
			}
			received.fds = append(received.fds, fds...)
		}
		r.c.batches = append(r.c.batches, received)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
