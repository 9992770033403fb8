package client

import (
	"context"
	"io"
	"sync"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// pairQueue is how many messages of a pair wait on each side.
const pairQueue = 128

// half is one side of a pair.
type half struct {
	in      <-chan []byte
	out     chan<- []byte
	ended   chan struct{} // closed by either side
	closing *sync.Once
}

// newPair makes two connected Conns within this process. Closing one ends both.
func newPair() (wire.Conn, wire.Conn) {
	there, back := make(chan []byte, pairQueue), make(chan []byte, pairQueue)
	ended, closing := make(chan struct{}), &sync.Once{}
	return &half{back, there, ended, closing}, &half{there, back, ended, closing}
}

func (h *half) Read(ctx context.Context) ([]byte, error) {
	select {
	case message := <-h.in:
		return message, nil
	case <-h.ended:
		select { // messages that were sent before the end are read first
		case message := <-h.in:
			return message, nil
		default:
			return nil, io.EOF
		}
	case <-ctx.Done():
		return nil, h.give(ctx)
	}
}

func (h *half) Write(ctx context.Context, message []byte) error {
	select {
	case <-h.ended:
		return io.ErrClosedPipe
	default:
	}
	select {
	case h.out <- append([]byte(nil), message...):
		return nil
	case <-h.ended:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return h.give(ctx)
	}
}

// give closes the connection because the context of a call has ended, and returns that context's error.
func (h *half) give(ctx context.Context) error {
	_ = h.Close()
	return ctx.Err()
}

func (h *half) Binary() bool { return true }

func (h *half) Ping(context.Context) error {
	select {
	case <-h.ended:
		return io.ErrClosedPipe
	default:
		return nil
	}
}

func (h *half) Close() error {
	h.closing.Do(func() { close(h.ended) })
	return nil
}
