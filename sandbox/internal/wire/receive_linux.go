package wire

import (
	"encoding/binary"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

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

// reader reads the byte stream and puts the descriptors aside in batches. The kernel ends a read after the first message that
// carries descriptors, so each batch belongs to one message, and the batches come in order.
type reader struct{ c *Conn }

func (r reader) Read(p []byte) (int, error) {
	if r.c.await != nil {
		if err := r.c.await(); err != nil {
			return 0, err
		}
	}
	n, oobn, flags, err := r.receive(p)
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

// receive receives what is there, or waits until there is something, or until the connection has ended.
func (r reader) receive(p []byte) (n, oobn, flags int, err error) {
	failed := r.c.raw.Read(func(fd uintptr) (over bool) {
		n, oobn, flags, _, err = unix.Recvmsg(int(fd), p, r.c.control[:], unix.MSG_CMSG_CLOEXEC)
		for err == unix.EINTR {
			n, oobn, flags, _, err = unix.Recvmsg(int(fd), p, r.c.control[:], unix.MSG_CMSG_CLOEXEC)
		}
		return err != unix.EAGAIN
	})
	if failed != nil {
		err = failed
	}
	return n, oobn, flags, err
}
