package wire

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFiles bounds the descriptors of one message; the kernel's own bound is 253.
const maxFiles = 64

// Conn sends and receives values with descriptors. Send is safe for concurrent use; Receive belongs to one goroutine.
type Conn struct {
	socket *net.UnixConn

	// sending keeps a value and its descriptors together and the stream's order; a message to a goroutine would only
	// move the wait for the socket there and need a second queue with a second bound.
	sending sync.Mutex
	out     bytes.Buffer
	encoder *gob.Encoder

	decoder *gob.Decoder
	files   []int // received and not yet taken
}

// NewConn takes over a connected stream socket.
func NewConn(file *os.File) (*Conn, error) {
	defer file.Close() // FileConn duplicates
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, errors.New("not a unix socket")
	}
	c := &Conn{socket: socket}
	c.encoder = gob.NewEncoder(&c.out)
	c.decoder = gob.NewDecoder(reader{c})
	return c, nil
}

// Send writes one value; the files stay the caller's.
func (c *Conn) Send(value any, files ...*os.File) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.out.Reset()
	if err := c.encoder.Encode(value); err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, file := range files {
			raw, err := file.SyscallConn()
			if err != nil {
				return err
			}
			// The number stays valid while the caller holds the file; Fd would make it blocking.
			if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
				return err
			}
		}
		rights = unix.UnixRights(fds...)
	}
	sent, _, err := c.socket.WriteMsgUnix(c.out.Bytes(), rights, nil)
	if err != nil {
		return err
	}
	_, err = c.socket.Write(c.out.Bytes()[sent:]) // a stream socket may take only the first part
	return err
}

// Receive reads the next value. Its descriptors are then taken with TakeFiles.
func (c *Conn) Receive(value any) error { return c.decoder.Decode(value) }

// TakeFiles returns the next count descriptors, which arrived with the value that named the count.
func (c *Conn) TakeFiles(count int) ([]int, error) {
	if count > len(c.files) {
		return nil, fmt.Errorf("%d descriptors announced, %d received", count, len(c.files))
	}
	taken := c.files[:count:count]
	c.files = c.files[count:]
	return taken, nil
}

// CloseWrite lets the other side read end-of-file, and what it still has to say be received.
func (c *Conn) CloseWrite() error { return c.socket.CloseWrite() }

// Close ends the connection; the other side reads end-of-file.
func (c *Conn) Close() error { return c.socket.Close() }

// reader is the byte stream, with the descriptors put aside as they come. The kernel never joins the bytes of two
// messages that both carry descriptors in one read, so their order is kept.
type reader struct{ c *Conn }

func (r reader) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := r.c.socket.ReadMsgUnix(p, oob)
	if err != nil {
		return n, err
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return n, errors.New("descriptors were cut off: this process has too many open")
	}
	if oobn > 0 {
		controls, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return n, err
		}
		for i := range controls {
			fds, err := unix.ParseUnixRights(&controls[i])
			if err != nil {
				return n, err
			}
			r.c.files = append(r.c.files, fds...)
		}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
