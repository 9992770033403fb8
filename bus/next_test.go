package bus

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/execbus/execbus/messages"
)

// endsUnseen is a context that ends without waking anyone, as one does whose end and a wake-up come at the same moment and
// select picks the wake-up.
type endsUnseen struct {
	context.Context
	ended atomic.Bool
}

func (c *endsUnseen) Done() <-chan struct{} { return nil }

func (c *endsUnseen) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

func TestReaderThatGivesUpPassesTheWakeUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		s := subscribe(t, b, Filter{}, SubscribeOptions{})
		ctx := &endsUnseen{Context: t.Context()}
		gaveUp, read := make(chan error, 1), make(chan messages.Event, 1)
		go func() {
			_, err := s.Next(ctx)
			gaveUp <- err
		}()
		synctest.Wait() // the first to wait is the first to be woken
		go func() {
			ev, _ := s.Next(t.Context())
			read <- ev
		}()
		synctest.Wait()
		ctx.ended.Store(true)
		b.Publish(notice(1000, 1))
		synctest.Wait()
		if len(gaveUp) != 1 {
			t.Fatal("the reader whose context has ended was not woken: the test shows nothing")
		}
		wantError(t, <-gaveUp, messages.ErrCancelled)
		if len(read) != 1 {
			s.Close()
			synctest.Wait()
			t.Fatal("an event waits, and so does a reader")
		}
		if ev := <-read; numberOf(ev) != 1 {
			t.Errorf("read %v", ev)
		}
	})
}
