package fleet

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus/messages"
)

// deaf is a stream that answers no question until it has been asked so often.
type deaf struct {
	jetstream.Stream
	times int
}

func (d *deaf) unheard() error {
	if d.times--; d.times >= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

func (d *deaf) GetMsg(ctx context.Context, seq uint64, options ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if err := d.unheard(); err != nil {
		return nil, err
	}
	return d.Stream.GetMsg(ctx, seq, options...)
}

func (d *deaf) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if err := d.unheard(); err != nil {
		return nil, err
	}
	return d.Stream.GetLastMsgForSubject(ctx, subject)
}

// stored stores one event.
func stored(ctx context.Context, h *held, event messages.Event) error {
	if err := h.add(ctx, event); err != nil {
		return err
	}
	return h.store(ctx)
}

// A server that does not answer for a moment is no end: of a session that is over all events are given, and of a process all output.
func TestAServerThatDoesNotAnswerIsNoEnd(t *testing.T) {
	w := newWorld(t, Settings{})
	ctx := w.context()
	f, place := w.abandoned(ctx)
	h := &held{n: &node{fleet: f}, place: place, stored: make(chan messages.ProcessID, 1), told: map[messages.ProcessID]bool{}}
	if err := stored(ctx, h, messages.ExecStarted{Origin: messages.Origin{Session: "s", Process: 7}}); err != nil {
		t.Fatal(err)
	}
	h.cache(7, "pty 1 0 3", []byte("abc"))
	until(t, "the output is stored", func() bool {
		_, err := f.output.GetLastMsgForSubject(ctx, outputSubject("s", 7))
		return err == nil
	})
	if err := f.lose(ctx, place, "test"); err != nil {
		t.Fatal(err)
	}
	for times := range 6 { // it is another question that has no answer; every other time the output is there, and the events are not
		f.events, f.output = &deaf{f.events, times}, &deaf{f.output, times * (times % 2)}
		var kinds []messages.EventKind
		f.tell(ctx, "s", func(event messages.Event, err error) bool {
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, event.Kind())
			return true
		})
		if len(kinds) != 3 || kinds[2] != messages.KindExecEnded {
			t.Errorf("%d times: the events are %v", times, kinds)
		}
		f.events = &deaf{f.events.(*deaf).Stream, times}
		output, gaps := "", []messages.Gap(nil)
		r := &follower{fleet: f, session: &Session{fleet: f, place: Place{Session: "s"}}, subject: outputSubject("s", 7), total: -1,
			origin: messages.Origin{Session: "s", Process: 7}, told: f.historyOf("s"), yield: func(event messages.Event, err error) bool {
				switch e := event.(type) {
				case messages.OutputDelta:
					output += string(e.Bytes)
				case messages.Gap:
					gaps = append(gaps, e)
				}
				return err == nil
			}}
		short, cancel := context.WithTimeout(ctx, patience)
		if err := r.follow(short); err != nil || output != "abc" || len(gaps) != 1 || gaps[0].First != 3 || gaps[0].End != messages.UnknownEnd {
			t.Errorf("%d times: %q, %v, %v", times, output, gaps, err)
		}
		cancel()
		f.events, f.output = f.events.(*deaf).Stream, f.output.(*deaf).Stream
	}
}

// A node that takes no further calls now has the output still: it is asked again, and nothing is a gap.
func TestANodeThatIsBusyIsAskedAgain(t *testing.T) {
	w := newWorld(t, Settings{})
	nc, ctx := w.connect(), w.context()
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	place, err := f.change(ctx, Place{Session: "s", State: StateHeld, Node: "n", Instance: "i", Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := &held{n: &node{fleet: f}, place: place, stored: make(chan messages.ProcessID, 1), told: map[messages.ProcessID]bool{}}
	if err := stored(ctx, h, messages.OutputClosed{Origin: messages.Origin{Session: "s", Process: 7}, Total: 3}); err != nil {
		t.Fatal(err)
	}
	page, err := json.Marshal(messages.OutputPage{Chunks: []messages.OutputChunk{{Stream: messages.StreamPTY, Seq: 1, Bytes: []byte("abc")}}, Total: 3, Ended: true})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	if _, err := nc.Subscribe(callSubject("s"), func(m *nats.Msg) {
		if asked++; asked == 1 {
			f.refuse(m, &messages.Error{Code: messages.ErrLimitReached})
		} else {
			f.reply(m, answer{Result: page})
		}
	}); err != nil {
		t.Fatal(err)
	}
	output, gaps := followed(t, ctx, nc, &Session{fleet: f, place: place}, 7, 0)
	if string(output) != "abc" || gaps != nil {
		t.Errorf("%q, %v", output, gaps)
	}
}
