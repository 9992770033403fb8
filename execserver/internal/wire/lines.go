package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

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
