package bus

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/execbus/execbus/messages"
)

// endsUnseen is a context that ends without waking its reader. A real one does that if its end and a wake-up come at the
// same moment and select picks the wake-up.
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

func TestTryNextDoesNotWait(t *testing.T) {
	b := newBus(t)
	s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})
	try := func(number int, is error) {
		t.Helper()
		ev, ok, err := s.TryNext()
		if ok != (number > 0) || ok && numberOf(ev) != number || !ok && ev != nil {
			t.Errorf("got %v, %t, want number %d", ev, ok, number)
		}
		if is != nil {
			wantError(t, err, is)
		} else if err != nil {
			t.Error(err)
		}
	}
	try(0, nil)
	c := newTracked()
	b.PublishOutput(output(1000, 1, 0, 1), c.Credit)
	b.Publish(notice(1000, 2))
	c.Release()
	try(1, nil)
	if c.released != 0 {
		t.Error("released while the event is handled")
	}
	try(2, nil)
	if c.released != 1 {
		t.Error("asking for the next event did not release the credit")
	}
	try(0, nil)
	b.Publish(notice(1000, 3))
	b.Close()
	try(3, nil)
	try(0, messages.ErrClosed)
	s.Close()
	try(0, messages.ErrClosed)
}

// A reader that takes an event without waiting leaves the others to those that wait.
func TestTryNextPassesTheWakeUpOn(t *testing.T) {
	s := subscribe(t, newBus(t), Filter{}, SubscribeOptions{})
	s.waiting = 1
	for i := range 2 { // an event is published, and a reader that has since returned took the wake-up
		s.queue.add(&publication{event: notice(1000, i+1), kind: messages.KindExecNotice})
	}
	if ev, ok, err := s.TryNext(); !ok || numberOf(ev) != 1 {
		t.Fatal(ev, err)
	}
	if len(s.wake) != 1 {
		t.Error("an event waits and nobody is told")
	}
}
