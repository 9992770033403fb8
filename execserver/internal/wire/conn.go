package wire

import (
	"context"
	"errors"
)

// Conn carries whole messages in both directions.
type Conn interface {
	// Read returns the next message, which is the caller's. One goroutine reads at a time. An error is final: io.EOF if the
	// other side has ended the conversation, ErrTooLarge, or what broke it. If ctx ends the connection is closed.
	Read(ctx context.Context) ([]byte, error)
	// Write sends a message and does not keep it. Any number of goroutines may write, also while another reads. It waits
	// while the other side does not read. An error is final. If ctx ends the connection is closed.
	Write(ctx context.Context, message []byte) error
	// Ping waits until the other side answers, which needs a Read meanwhile. Where the transport has no such thing it returns
	// at once.
	Ping(ctx context.Context) error
	// Binary reports whether messages may be any bytes.
	Binary() bool
	// Close ends Read and Write. It may be called more than once, by any goroutine.
	Close() error
}

// ErrTooLarge is the error of a message above the limit.
var ErrTooLarge = errors.New("the message is larger than the limit")
