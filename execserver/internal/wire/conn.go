package wire

import (
	"context"
	"errors"
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
