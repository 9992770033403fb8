package bus

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/execbus/execbus/messages"
)

// Every reader of a large audience gets every event, also one that waits again after it was woken.
func TestALargeAudienceIsWoken(t *testing.T) {
	for _, lossless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const audience, events = 1000, 3
			b := newBus(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got atomic.Int32
			for range audience {
				s := subscribe(t, b, Filter{}, SubscribeOptions{Lossless: lossless})
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
				if n := int(got.Load()); n != audience*(i+1) {
					t.Errorf("%d of %d events were read", n, audience*(i+1))
				}
			}
		})
	}
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

// A reader that only looks is not counted among those that wait, in neither direction.
func TestALookCountsNoWaitingReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t)
		s := subscribe(t, b, Filter{}, SubscribeOptions{})
		look := func() {
			if ev, ok, err := s.TryNext(); ok || err != nil {
				t.Errorf("%v, %v", ev, err)
			}
		}
		look()
		if s.waiting != 0 {
			t.Errorf("%d readers wait, want none", s.waiting)
		}
		got := make(chan error, 1)
		go func() {
			_, err := s.Next(t.Context())
			got <- err
		}()
		synctest.Wait()
		look()
		b.Publish(notice(1000, 1))
		synctest.Wait()
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the reader that waits was not woken")
			s.Close()
		}
	})
}
