package wire

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"os"
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

	// sending keeps a message with its descriptors, and the stream in order. A message to a goroutine would only move the wait
	// for the socket there, and need a second queue with a second bound.
	sending sync.Mutex
	out     []byte // the room of the last message, for the next one

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
// connection breaks. Zero means no limit.
func NewConn(fd int, patience time.Duration) (*Conn, error) {
	c, err := newConn(fd, true)
	if err == nil {
		c.patience = patience
	}
	return c, err
}

// NewThreadConn takes over a connected stream socket that is in blocking mode. It does not use Go's poller, so an arriving message
// wakes only the thread that receives. Receive calls await, which returns when the socket can be read; Receive returns its error.
// Sends wait without a limit, and each keeps its thread.
func NewThreadConn(fd int, await func() error) (*Conn, error) {
	c, err := newConn(fd, false)
	if err == nil {
		c.await = await
	}
	return c, err
}

func newConn(fd int, polled bool) (*Conn, error) {
	if err := unix.SetNonblock(fd, polled); err != nil { // NewFile leaves a descriptor in blocking mode off the poller
		return nil, errors.Join(err, unix.Close(fd))
	}
	socket := os.NewFile(uintptr(fd), "socket")
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	c := &Conn{socket: socket, raw: raw}
	c.reader = bufio.NewReader(reader{c})
	return c, nil
}

// Send writes a message. The caller keeps the files. An error other than ErrBroken concerns only this message.
func (c *Conn) Send(message Message, files ...*os.File) error {
	return Hold(files, func(fds []int) error {
		c.sending.Lock()
		defer c.sending.Unlock()
		text, err := encode(c.out, message)
		if err != nil {
			return err
		}
		c.out = nil
		if cap(text) <= keptBuffer {
			c.out = text[:0]
		}
		return c.write(text, fds)
	})
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
		case sent == 0 && !over(err):
			return err
		default:
			_ = c.shutdown(unix.SHUT_RDWR) // the other side would misread further bytes; this also wakes the receiver here
			return ErrBroken
		}
	}
	return nil
}

// part makes one system call, after waiting for room. There nearly always is room: a deadline for each part would cost more than the call.
func (c *Conn) part(text, rights []byte) (n int, err error) {
	send := func(fd uintptr) (over bool) {
		n, err = unix.SendmsgN(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		for err == unix.EINTR {
			n, err = unix.SendmsgN(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		}
		return err != unix.EAGAIN
	}
	if failed := c.raw.Control(func(fd uintptr) { send(fd) }); failed != nil || err != unix.EAGAIN {
		return n, cmp.Or(failed, err)
	}
	if c.patience > 0 {
		_ = c.socket.SetWriteDeadline(time.Now().Add(c.patience))
	}
	if failed := c.raw.Write(send); failed != nil {
		return 0, failed
	}
	return n, err
}

// over reports whether an error of part concerns the connection rather than the descriptors.
func over(err error) bool {
	_, fromKernel := errors.AsType[unix.Errno](err)
	return !fromKernel || err == unix.EPIPE || err == unix.ECONNRESET
}

// CloseWrite lets the other side read end-of-file. Its remaining messages can still be received.
func (c *Conn) CloseWrite() error { return c.shutdown(unix.SHUT_WR) }

func (c *Conn) shutdown(how int) error {
	var failed error
	err := c.raw.Control(func(fd uintptr) { failed = unix.Shutdown(int(fd), how) })
	return errors.Join(err, failed)
}

// Close ends the connection; the other side reads end-of-file.
func (c *Conn) Close() error {
	_ = c.shutdown(unix.SHUT_RDWR) // a thread may wait here
	return c.socket.Close()
}
