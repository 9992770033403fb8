package bus

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/messages"
)

// An event wakes some readers at once and leaves the others to the crier, which wakes all of them, and then has no goroutine.
func TestALargeAudienceIsWokenInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const audience, events = 20 * prompt, 3
		b := newBus(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got atomic.Int32
		for range audience {
			s := subscribe(t, b, Filter{}, SubscribeOptions{})
			go func() {
				for number := 1; ; number++ {
					ev, err := s.Next(ctx)
					if err != nil {
						return
					}
					if numberOf(ev) != number {
						t.Errorf("event %d came as number %d", numberOf(ev), number)
					}
					got.Add(1)
				}
			}()
		}
		synctest.Wait()
		for i := range events {
			b.Publish(notice(1000, i+1))
			synctest.Wait()
		}
		if n := got.Load(); n != prompt*events { // those that were woken wait again for the next
			t.Errorf("%d events were read at once, and not %d", n, prompt*events)
		}
		time.Sleep(2 * roundth * pause)
		synctest.Wait()
		if n := got.Load(); n != audience*events {
			t.Errorf("%d of %d events were read", n, audience*events)
		}
		if b.crier.cries {
			t.Error("the crier has not ended")
		}
	})
}

// Lossless subscribers hold the publisher's credits, so each of them is woken at once.
func TestLosslessReadersDoNotWaitForTheCrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got atomic.Int32
		for range 3 * prompt {
			s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: true})
			go func() {
				if _, err := s.Next(ctx); err == nil {
					got.Add(1)
				}
			}()
		}
		synctest.Wait()
		b.Publish(notice(1000, 1))
		synctest.Wait()
		if n := got.Load(); n != 3*prompt {
			t.Errorf("%d of %d were woken", n, 3*prompt)
		}
	})
}

// A reader that leaves hands on the wake-up that may have been meant for another.
func TestAReaderThatLeavesWakesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		s := subscribe(t, b, Filter{}, SubscribeOptions{})
		leaving, leave := context.WithCancel(t.Context())
		got := make(chan messages.Event, 1)
		go func() { _, _ = s.Next(leaving) }()
		synctest.Wait()
		go func() {
			if ev, err := s.Next(t.Context()); err == nil {
				got <- ev
			}
		}()
		synctest.Wait()
		leave()
		b.Publish(notice(1000, 1)) // whichever of them it wakes
		synctest.Wait()
		select {
		case <-got:
		default:
			if _, ok, _ := s.TryNext(); !ok { // the one that left has taken it
				return
			}
			t.Error("an event waits, and so does a reader")
		}
		s.Close()
	})
}
