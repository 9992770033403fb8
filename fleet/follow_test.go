package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus/messages"
)

// deaf is a stream that answers no question until it has been asked so often. It counts the questions.
type deaf struct {
	jetstream.Stream
	times, asked int
	heard        func()
}

func (d *deaf) unheard() error {
	if d.asked++; d.heard != nil {
		d.heard()
	}
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
		f.events, f.output = &deaf{Stream: f.events, times: times}, &deaf{Stream: f.output, times: times * (times % 2)}
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
		f.events = &deaf{Stream: f.events.(*deaf).Stream, times: times}
		output, gaps := "", []messages.Gap(nil)
		r := &follower{fleet: f, session: &Session{fleet: f, place: Place{Session: "s"}}, subject: outputSubject("s", 7), total: -1, soon: soon,
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

// following is a world in which a test is the node of process 7 of session "s".
type following struct {
	*world
	t     *testing.T
	ctx   context.Context
	nc    *nats.Conn
	fleet *fleet
	node  *held
}

func newFollowing(t *testing.T) *following {
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
	return &following{w, t, ctx, nc, f, h}
}

// closed stores that there is no more output.
func (f *following) closed(total int64) {
	f.t.Helper()
	if err := stored(f.ctx, f.node, messages.OutputClosed{Origin: messages.Origin{Session: "s", Process: 7}, Total: total}); err != nil {
		f.t.Fatal(err)
	}
}

// publish sends a byte in each message, and returns when a reader on the same connection has them.
func (f *following) publish(first, end int) {
	f.t.Helper()
	for i := first; i < end; i++ {
		f.node.cache(7, fmt.Sprintf("pty %d %d 1", i+1, i), []byte("x"))
	}
	if err := f.nc.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

// kept returns when the server has stored output up to an offset.
func (f *following) kept(end int64) {
	f.t.Helper()
	until(f.t, "the output is stored", func() bool {
		last, err := f.fleet.output.GetLastMsgForSubject(f.ctx, outputSubject("s", 7))
		if err != nil {
			return false
		}
		p, ok := pieceOf(last.Header, last.Data)
		return ok && p.end() == end
	})
}

// answers lets the node answer the n-th read, from an offset.
func (f *following) answers(read func(n int, at int64) (messages.OutputPage, error)) {
	f.t.Helper()
	n := 0
	if _, err := f.nc.Subscribe(callSubject("s"), func(m *nats.Msg) {
		var r request
		var params messages.ReadOutput
		if err := errors.Join(json.Unmarshal(m.Data, &r), json.Unmarshal(r.Params, &params)); err != nil {
			f.t.Error(err)
		}
		page, err := read(n, *params.Offset)
		n++
		if err != nil {
			f.fleet.refuse(m, err)
			return
		}
		text, err := json.Marshal(page)
		if err != nil {
			f.t.Error(err)
		}
		f.fleet.reply(m, answer{Result: text})
	}); err != nil {
		f.t.Fatal(err)
	}
}

// page is what a node answers that has output from first on, up to end.
func page(at, first, end int64, ended bool) messages.OutputPage {
	p := messages.OutputPage{Total: end, Ended: ended, Missed: max(first-at, 0)}
	for at = max(at, first); at < end; at++ {
		p.Chunks = append(p.Chunks, messages.OutputChunk{Stream: messages.StreamPTY, Seq: uint64(at + 1), Offset: at, Bytes: []byte("x")})
	}
	return p
}

// reader is a Follow from the first byte on; output is called with each byte.
func (f *following) reader(output func(at int64)) (r *follower, gaps *[]messages.Gap) {
	gaps = new([]messages.Gap)
	r = &follower{fleet: f.fleet, session: &Session{fleet: f.fleet, place: f.node.place}, subject: outputSubject("s", 7), total: -1, soon: soon,
		origin: messages.Origin{Session: "s", Process: 7}, told: f.fleet.historyOf("s"), yield: func(event messages.Event, err error) bool {
			switch e := event.(type) {
			case messages.OutputDelta:
				for i := range e.Bytes {
					output(e.Offset + int64(i))
				}
			case messages.Gap:
				*gaps = append(*gaps, e)
			}
			return err == nil
		}}
	return r, gaps
}

// A node that takes no further calls now has the output still: it is asked again, and nothing is a gap.
func TestANodeThatIsBusyIsAskedAgain(t *testing.T) {
	f := newFollowing(t)
	f.publish(3, 6) // so that it is certain that nobody else has the first three
	f.kept(6)
	f.closed(6)
	f.answers(func(n int, at int64) (messages.OutputPage, error) {
		if n == 0 {
			return messages.OutputPage{}, &messages.Error{Code: messages.ErrLimitReached}
		}
		return page(at, 0, 6, true), nil
	})
	output, gaps := followed(t, f.ctx, f.nc, &Session{fleet: f.fleet, place: f.node.place}, 7, 0)
	if string(output) != "xxxxxx" || gaps != nil {
		t.Errorf("%q, %v", output, gaps)
	}
}

// What the server has is no gap, though the node has still less.
func TestAGapEndsWhereTheServersOutputBegins(t *testing.T) {
	f := newFollowing(t)
	f.publish(10, 20)
	f.kept(20)
	f.closed(20)
	f.answers(func(_ int, at int64) (messages.OutputPage, error) { return page(at, 15, 20, true), nil })
	output, gaps := followed(t, f.ctx, f.nc, &Session{fleet: f.fleet, place: f.node.place}, 7, 0)
	if len(output) != 10 || len(gaps) != 1 || gaps[0].First != 0 || gaps[0].End != 10 {
		t.Errorf("%q, %v", output, gaps)
	}
}

// Nor is what has been sent to the reader, though the server has removed it: only a reader that is slow finds that.
func TestAGapEndsWhereOutputThatCameBegins(t *testing.T) {
	f := newFollowing(t)
	f.publish(0, 3)
	f.kept(3)
	f.closed(23)
	f.answers(func(_ int, at int64) (messages.OutputPage, error) { return page(at, 23, 23, true), nil })
	bytes := 0
	r, gaps := f.reader(func(at int64) {
		if bytes++; at > 0 {
			return
		}
		f.publish(5, 23)
		f.kept(23)
		for seq := uint64(4); seq < 4+15; seq++ { // of the bytes 5 to 20
			if err := f.fleet.output.DeleteMsg(f.ctx, seq); err != nil {
				t.Error(err)
			}
		}
	})
	if err := r.follow(f.ctx); err != nil || bytes != 3+18 || len(*gaps) != 1 || (*gaps)[0].First != 3 || (*gaps)[0].End != 5 {
		t.Errorf("%d bytes, %v, %v", bytes, *gaps, err)
	}
}

// A node that no longer has output may have sent it: it is on its way to the server, and no gap.
func TestOutputOnItsWayToTheServerIsNoGap(t *testing.T) {
	for name, test := range map[string]struct {
		ended bool
		err   error
	}{
		"running":   {},
		"ended":     {ended: true},
		"forgotten": {ended: true, err: &messages.Error{Code: messages.ErrUnknownProcess}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollowing(t)
			if test.ended {
				f.closed(3)
			}
			f.answers(func(n int, at int64) (messages.OutputPage, error) {
				switch {
				case n == 1: // the reader has asked twice
					for i := range 3 {
						f.node.cache(7, fmt.Sprintf("pty %d %d 1", i+1, i), []byte("x"))
					}
				case n == 0 && !test.ended:
					f.closed(3)
				}
				return page(at, 3, 3, test.ended), test.err
			})
			output, gaps := followed(t, f.ctx, f.nc, &Session{fleet: f.fleet, place: f.node.place}, 7, 0)
			if string(output) != "xxx" || gaps != nil {
				t.Errorf("%q, %v", output, gaps)
			}
		})
	}
}

// begun stores that the process has started, and lets the node store events of another one.
func (f *following) begun() {
	f.t.Helper()
	if err := stored(f.ctx, f.node, messages.ExecStarted{Origin: messages.Origin{Session: "s", Process: 7}}); err != nil {
		f.t.Fatal(err)
	}
	f.node.told[8] = true
}

// What came before the reader learned that the node is lost is given: it is no gap.
func TestOutputThatCameFromALostNodeIsNoGap(t *testing.T) {
	for name, test := range map[string]struct {
		keeps bool  // the server keeps output
		first int64 // byte of what comes
		gaps  [][2]int64
	}{
		"next":          {true, 3, [][2]int64{{6, messages.UnknownEnd}}},
		"behind a hole": {false, 3, [][2]int64{{0, 3}, {6, messages.UnknownEnd}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollowing(t)
			f.begun()
			want := int64(6 - test.first)
			if test.keeps {
				f.publish(0, 3)
				f.kept(3)
				want += 3
			} else {
				f.fleet.output = empty{f.fleet.output}
			}
			events := &deaf{Stream: f.fleet.events}
			f.fleet.events = events
			events.heard = func() { // before the reader reads the first event
				events.heard = nil
				f.publish(int(test.first), 6)
				if err := f.fleet.lose(f.ctx, f.node.place, "test"); err != nil {
					t.Error(err)
				}
			}
			bytes := int64(0)
			r, gaps := f.reader(func(int64) { bytes++ })
			if err := r.follow(f.ctx); err != nil || bytes != want || len(*gaps) != len(test.gaps) {
				t.Fatalf("%d bytes, %v, %v", bytes, *gaps, err)
			}
			for i, gap := range *gaps {
				if [2]int64{gap.First, gap.End} != test.gaps[i] {
					t.Errorf("%v, want %v", gap, test.gaps[i])
				}
			}
		})
	}
}

// Events of other processes, however many, keep no reader from the end of a process, nor from output behind what is lost.
func TestABusySessionKeepsNoReaderFromAGap(t *testing.T) {
	for name, test := range map[string]struct {
		ended bool
		every int // so many questions to the server there is an event
	}{
		"ended":   {true, 1},
		"running": {false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowing(t)
			f.begun()
			if test.ended {
				f.closed(6)
			}
			f.answers(func(_ int, at int64) (messages.OutputPage, error) { return page(at, 3, 6, test.ended), nil })
			ctx, stop := context.WithCancel(f.ctx)
			defer stop()
			output := &deaf{Stream: f.fleet.output}
			f.fleet.output = output
			output.heard = func() {
				if output.asked > 60 {
					stop()
				}
				if output.asked%test.every == 0 {
					if err := stored(f.ctx, f.node, messages.TerminalResized{Origin: messages.Origin{Session: "s", Process: 8}}); err != nil {
						t.Error(err)
					}
				}
			}
			bytes := 0
			r, gaps := f.reader(func(at int64) {
				if bytes++; at == 5 && !test.ended {
					f.closed(6)
				}
			})
			r.soon = idle / 5
			if err := r.follow(ctx); err != nil || bytes != 3 || len(*gaps) != 1 || (*gaps)[0].First != 0 || (*gaps)[0].End != 3 {
				t.Errorf("%d bytes, %v, %v; the server was asked %d times", bytes, *gaps, err, output.asked)
			}
		})
	}
}

// A session that has ended, or whose node is lost, is asked once, and once more when it is certain that no output is on its way: it takes a
// while to find out that nobody answers.
func TestASessionThatIsOverIsAskedTwice(t *testing.T) {
	for _, code := range []messages.ErrorCode{messages.ErrClosed, messages.ErrNodeLost} {
		t.Run(code.Error(), func(t *testing.T) {
			t.Parallel()
			f := newFollowing(t)
			f.closed(3)
			asked := 0
			f.answers(func(int, int64) (messages.OutputPage, error) {
				asked++
				return messages.OutputPage{}, &messages.Error{Code: code}
			})
			output, gaps := followed(t, f.ctx, f.nc, &Session{fleet: f.fleet, place: f.node.place}, 7, 0)
			if len(output) != 0 || len(gaps) != 1 || gaps[0].First != 0 || gaps[0].End != 3 || asked != 2 {
				t.Errorf("%q, %v; asked %d times", output, gaps, asked)
			}
		})
	}
}

// A reader whose first question the server did not answer asks the node when the server does.
func TestANodeIsAskedWhenTheServerAnswers(t *testing.T) {
	f := newFollowing(t)
	output := &deaf{Stream: f.fleet.output, times: 1}
	f.fleet.output = output
	before := 0
	f.answers(func(n int, at int64) (messages.OutputPage, error) {
		if n == 0 {
			before = output.asked
		}
		return page(at, 0, 3, true), nil
	})
	bytes := 0
	r, gaps := f.reader(func(int64) { bytes++ })
	if err := r.follow(f.ctx); err != nil || bytes != 3 || *gaps != nil || before != 2 {
		t.Errorf("%d bytes, %v, %v; the server was asked %d times before", bytes, *gaps, err, before)
	}
}

// What neither the node has nor the server will get is a gap, after a while.
func TestOutputThatNeverComesIsAGap(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	f.closed(3)
	f.answers(func(_ int, at int64) (messages.OutputPage, error) { return page(at, 3, 3, true), nil })
	output, gaps := followed(t, f.ctx, f.nc, &Session{fleet: f.fleet, place: f.node.place}, 7, 0)
	if len(output) != 0 || len(gaps) != 1 || gaps[0].First != 0 || gaps[0].End != 3 {
		t.Errorf("%q, %v", output, gaps)
	}
}

// A message that was lost without a trace is noticed because the node is asked from time to time, but not as often as the server.
func TestANodeWithoutMessagesIsAskedAgain(t *testing.T) {
	t.Parallel()
	f := newFollowing(t)
	output := &deaf{Stream: f.fleet.output}
	f.fleet.output = output
	before := 0
	f.answers(func(n int, at int64) (messages.OutputPage, error) {
		if n == 0 {
			return page(at, 0, 0, false), nil
		}
		before = output.asked // the reader waits for this answer
		return page(at, 0, 3, true), nil
	})
	bytes := 0
	r, gaps := f.reader(func(int64) { bytes++ })
	if err := r.follow(f.ctx); err != nil || bytes != 3 || *gaps != nil {
		t.Errorf("%d bytes, %v, %v", bytes, *gaps, err)
	}
	if before < 8 { // after 2 ms, 4 ms, and so on up to idle
		t.Errorf("the server was asked %d times before", before)
	}
}

// An event wakes a reader, however long it would have waited otherwise. The node is not asked for that.
func TestAnEventWakesAReader(t *testing.T) {
	f := newFollowing(t)
	asked := 0
	f.answers(func(_ int, at int64) (messages.OutputPage, error) {
		asked++
		return page(at, 0, 3, false), nil
	})
	output := &deaf{Stream: f.fleet.output}
	f.fleet.output = output
	bytes := 0
	r, gaps := f.reader(func(at int64) {
		switch bytes++; at {
		case 2:
			f.publish(3, 4)
		case 3:
			if err := stored(f.ctx, f.node, messages.TerminalResized{Origin: messages.Origin{Session: "s", Process: 7}}); err != nil {
				t.Error(err)
			}
			output.heard = func() { // it looks because of that
				output.heard = func() {}
				f.closed(4)
			}
		}
	})
	r.soon = time.Hour
	if err := r.follow(f.ctx); err != nil || bytes != 4 || *gaps != nil || asked != 1 {
		t.Errorf("%d bytes, %v, %v; the node was asked %d times", bytes, *gaps, err, asked)
	}
}

// empty is a stream that keeps nothing.
type empty struct{ jetstream.Stream }

func (empty) GetMsg(context.Context, uint64, ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return nil, jetstream.ErrMsgNotFound
}

func (empty) GetLastMsgForSubject(context.Context, string) (*jetstream.RawStreamMsg, error) {
	return nil, jetstream.ErrMsgNotFound
}

// A hole in what comes is filled by the node, also if the server keeps nothing. What came behind the hole waits for that.
func TestAHoleIsFilledByTheNodeAlone(t *testing.T) {
	f := newFollowing(t)
	f.fleet.output = empty{f.fleet.output}
	f.answers(func(n int, at int64) (messages.OutputPage, error) {
		switch {
		case at == 0:
			return page(at, 0, 3, false), nil
		case n < 3:
			return page(at, 8, 8, false), nil
		default:
			return page(at, 3, 5, false), nil
		}
	})
	bytes := 0
	r, gaps := f.reader(func(at int64) {
		switch bytes++; at {
		case 2:
			f.publish(5, 8)
		case 7:
			f.closed(8)
		}
	})
	if err := r.follow(f.ctx); err != nil || bytes != 8 || *gaps != nil {
		t.Errorf("%d bytes, %v, %v", bytes, *gaps, err)
	}
}

// A reader that has come up to what is sent to it asks the server for no more: a question takes longer than a message, and a reader that
// asked for each would fall behind a fast process.
func TestAReaderThatKeepsUpAsksForNothing(t *testing.T) {
	const before, after = 50, 60 // which are fewer than may wait
	f := newFollowing(t)
	f.publish(0, before)
	f.kept(before)
	output := &deaf{Stream: f.fleet.output}
	f.fleet.output = output
	next := int64(0)
	r, gaps := f.reader(func(at int64) {
		if at != next {
			t.Errorf("the byte at %d, want that at %d", at, next)
		}
		switch next++; at {
		case 0: // while it reads what was there
			f.publish(before, before+after)
		case before + after - 1:
			f.publish(before+after, before+2*after)
		case before + 2*after - 1:
			f.closed(before + 2*after)
		}
	})
	if err := r.follow(f.ctx); err != nil || next != before+2*after || *gaps != nil {
		t.Errorf("%d bytes, %v, %v", next, *gaps, err)
	}
	if output.asked > before+after/2 { // those before, how far they go, and whether there are more when nothing came for a while
		t.Errorf("it has asked %d times", output.asked)
	}
}
