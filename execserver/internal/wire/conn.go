package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// Conn carries whole messages in both directions.
type Conn interface {
	// Read returns the next message, which belongs to the caller. One goroutine reads at a time. An error is final: io.EOF if the
	// other side has ended the connection, ErrTooLarge, or the error that broke it. If ctx ends, the connection is closed.
	Read(ctx context.Context) ([]byte, error)
	// Write sends a message and does not keep it. Any number of goroutines may write, even while another reads. Write waits while
	// the other side does not read. An error is final. If ctx ends, the connection is closed.
	Write(ctx context.Context, message []byte) error
	// Ping waits until the other side answers. Another goroutine must call Read meanwhile. If the transport has no pings, Ping
	// returns at once.
	Ping(ctx context.Context) error
	// Binary reports whether messages may be any bytes.
	Binary() bool
	// Close ends Read and Write. It may be called more than once, by any goroutine.
	Close() error
}

// ErrTooLarge is the error of a message above the limit.
var ErrTooLarge = errors.New("the message is larger than the limit")

// lines is a stream where each message is a line.
type lines struct {
	in    *bufio.Reader
	from  io.ReadCloser
	to    io.WriteCloser
	limit int
	// writing keeps lines whole. Writers wait for the other side in any case, so a goroutine that writes would not help.
	writing sync.Mutex
	closing sync.Once
	closed  error
}

// Lines makes a Conn of two streams, which may be the two halves of one. Closing the Conn closes them. Lines above limit bytes are
// refused; empty lines are skipped. Closing from must end a Read of it.
func Lines(from io.ReadCloser, to io.WriteCloser, limit int) Conn {
	return &lines{in: bufio.NewReaderSize(from, 64<<10), from: from, to: to, limit: limit}
}

func (l *lines) Read(ctx context.Context) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		line, err := l.line()
		if line = bytes.TrimSpace(line); err != nil || len(line) > 0 {
			return line, err
		}
	}
}

// line reads up to the next newline. Text without a newline at the end of the stream is not a message.
func (l *lines) line() (line []byte, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > l.limit+len("\n") {
			return nil, ErrTooLarge
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (l *lines) Write(ctx context.Context, message []byte) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.to.Write(append(message[:len(message):len(message)], '\n'))
	return err
}

func (l *lines) Binary() bool { return false }

func (l *lines) Ping(context.Context) error { return nil }

func (l *lines) Close() error {
	l.closing.Do(func() { l.closed = errors.Join(l.to.Close(), l.from.Close()) })
	return l.closed
}
