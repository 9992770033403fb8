package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// lossy is a bucket on a bad link: the answer of the next change is lost, and so is that of the read behind it.
type lossy struct {
	jetstream.KeyValue
	lose, twice, blind bool // twice: the client library sends the request again, and gets the answer to that
}

func (l *lossy) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	got, err := l.KeyValue.Update(ctx, key, value, revision)
	if !l.lose {
		return got, err
	}
	l.lose, l.blind = false, true
	if l.twice {
		return l.KeyValue.Update(ctx, key, value, revision)
	}
	return 0, context.DeadlineExceeded
}

func (l *lossy) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if l.blind {
		l.blind = false
		return nil, context.DeadlineExceeded
	}
	return l.KeyValue.Get(ctx, key)
}

// A change of which the answer is lost is no conflict, even if it was sent twice, and can be found out or made by writing it again.
func TestAChangeWithoutAnAnswerIsFoundOut(t *testing.T) {
	w := newWorld(t, Settings{})
	nc, ctx := w.connect(), w.context()
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	place, err := f.change(ctx, Place{Session: "s", State: StatePlacing, Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	bad := &lossy{KeyValue: f.place}
	f.place = bad
	for _, twice := range []bool{false, true} {
		bad.lose, bad.twice = true, twice
		place.Why += "."
		unknown, err := f.change(ctx, place)
		if err == nil || conflict(err) || unknown.At.IsZero() {
			t.Fatalf("twice %v: nobody knows what became of the change, and its error is %v", twice, err)
		}
		if place, err = f.write(ctx, unknown); err != nil || place.revision == unknown.revision {
			t.Fatalf("twice %v: written again: %+v, %v", twice, place, err)
		}
		if now, err := f.read(ctx, "s"); err != nil || now != place {
			t.Errorf("the books have %+v, %v; want %+v", now, err, place)
		}
	}
	if _, err := f.change(ctx, Place{Session: "s", State: StatePlacing, Epoch: 1, revision: 1}); !conflict(err) {
		t.Errorf("a change of an entry that another has changed: %v", err)
	}
}

// mute is a server that stores a message and does not say so, and then the link is cut.
type mute struct {
	jetstream.JetStream
	cut func() // nil: it answers
}

func (m *mute) PublishMsg(ctx context.Context, message *nats.Msg, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := m.JetStream.PublishMsg(ctx, message, options...)
	if m.cut == nil || err != nil {
		return ack, err
	}
	m.cut()
	m.cut = nil
	return nil, context.DeadlineExceeded
}

// Events of which nobody knows whether they are stored are sent again as they were, without those that came later: so each is stored once.
func TestEventsWithoutAnAnswerAreStoredOnce(t *testing.T) {
	w := newWorld(t, Settings{})
	ctx := w.context()
	f, place := w.abandoned(ctx)
	lease, end := context.WithCancel(ctx)
	quiet := &mute{JetStream: f.js, cut: end}
	f.js = quiet
	h := &held{n: &node{fleet: f}, place: place, stored: make(chan messages.ProcessID, 9), told: map[messages.ProcessID]bool{}}
	add := func(process messages.ProcessID) {
		t.Helper()
		if err := h.add(ctx, messages.ExecStarted{Origin: messages.Origin{Session: "s", Process: process}}); err != nil {
			t.Fatal(err)
		}
	}
	add(1)
	add(2)
	if err := h.store(lease); err == nil {
		t.Fatal("the link is cut, and the events are stored")
	}
	add(3)
	quiet.cut = func() {} // this one is tried again
	if err := h.store(ctx); err != nil {
		t.Fatal(err)
	}
	var told []messages.ProcessID
	var sequences []uint64
	for history := f.historyOf("s"); ; {
		event, message, err := history.next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if event == nil {
			break
		}
		told = append(told, event.From().Process)
		if sequences = append(sequences, message.Sequence); len(sequences) > 9 {
			break
		}
	}
	if !slices.Equal(told, []messages.ProcessID{1, 2, 3}) || !slices.Equal(sequences, []uint64{1, 1, 2}) {
		t.Errorf("the events of %v are stored, in the messages %v", told, sequences)
	}
}

// A node that does not learn whether the books gave it a session asks until it knows: the books never name a node that has not got it.
func TestANodeFindsOutWhetherItHasASession(t *testing.T) {
	w := newWorld(t, Settings{})
	nc, ctx := w.connect(), w.context()
	other := w.node(Node{ID: "other"})
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	place, err := f.change(ctx, Place{Session: "s", State: StatePlacing, Node: "n", Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	lost := *f
	lost.place, lost.lease = &lossy{KeyValue: f.place, lose: true, twice: true}, shortLease
	n := &node{fleet: &lost, Node: Node{ID: "n"}, rt: other.rt, instance: "i", over: make(chan messages.SessionID)}
	h, err := n.hold(ctx, opening{Session: "s", Revision: place.revision}, ctx)
	if err != nil {
		t.Fatalf("the books gave it the session, and it says: %v", err)
	}
	now, err := f.read(ctx, "s")
	if err != nil || now != h.place || now.State != StateHeld || now.Instance != "i" {
		t.Errorf("the books have %+v, %v; the node has %+v", now, err, h.place)
	}
	go h.run()
	h.abandon()
	<-n.over
}

// A client that waits for room goes on if a node took it for gone, because the server was away.
func TestAClientThatWasTakenForGoneWaitsOn(t *testing.T) {
	w := newWorld(t, Settings{Lease: shortLease})
	nc, ctx := w.connect(), w.context()
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := Open(ctx, nc, Placement{Session: execbus.SessionOptions{ID: "s", Dir: "/"}, Wait: patience})
		if err == nil {
			err = s.Close(ctx)
		}
		opened <- err
	}()
	until(t, "it is taken for gone", func() bool {
		place, err := f.read(ctx, "s")
		place.State, place.Why = StateEnded, whyGone
		if err == nil {
			_, err = f.change(ctx, place)
		}
		return err == nil
	})
	w.node(Node{ID: "n"})
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// A session that was given up while its node's lease held ends there, though nothing happens in it: the node reads it in the books. And a node
// that is there again is not given up.
func TestANodeReadsInTheBooksThatASessionWasGivenUp(t *testing.T) {
	w := newWorld(t, Settings{Lease: shortLease})
	m := w.node(Node{ID: "n", LostAfter: 2 * shortLease})
	nc, ctx := w.connect(), w.context()
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	kept, given := w.open(nc, Placement{}), w.open(nc, Placement{})
	if _, err := given.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(time.Duration)}); err != nil {
		t.Fatal(err)
	}
	if err := f.giveUp(ctx, "n", "", "test"); err != nil {
		t.Fatal(err)
	}
	place, err := f.read(ctx, given.ID())
	if err != nil {
		t.Fatal(err)
	}
	long := map[string]time.Time{place.Instance: time.Now().Add(-time.Hour)}
	(&node{fleet: f, instance: "i", Node: Node{LostAfter: time.Second, Retain: time.Hour}}).judge(ctx, map[string]bool{}, long)
	for _, s := range []*Session{kept, given} {
		if state := stateOf(t, ctx, nc, s.ID()); state != StateHeld {
			t.Fatalf("its node sends heartbeats, and the session is %s", state)
		}
	}
	if err := f.lose(ctx, place, "test"); err != nil {
		t.Fatal(err)
	}
	until(t, "the session that was given up has ended", func() bool {
		stats, err := m.rt.Stats(ctx)
		return err == nil && stats.Sessions == 1
	})
	if _, err := kept.Exec(ctx, shell("true")); err != nil {
		t.Errorf("the other session: %v", err)
	}
}

// What nobody asks for any more is removed from the books, with the marks of its removal.
func TestBooksAreTidied(t *testing.T) {
	w := newWorld(t, Settings{Lease: shortLease})
	nc, ctx := w.connect(), w.context()
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	old := func(place Place) {
		place.At = time.Now().Add(-time.Hour).UTC().Round(0)
		if _, err := f.write(ctx, place); err != nil {
			t.Fatal(err)
		}
	}
	old(Place{Session: "ended", State: StateEnded})
	old(Place{Session: "waiting", State: StateWaiting})
	if _, err := f.change(ctx, Place{Session: "recent", State: StateLost}); err != nil {
		t.Fatal(err)
	}
	n := &node{fleet: f, instance: "i", Node: Node{LostAfter: time.Minute, Retain: 30 * time.Minute}}
	n.judge(ctx, map[string]bool{}, nil)
	for session, want := range map[messages.SessionID]State{"ended": "", "waiting": StateEnded, "recent": StateLost} {
		if got := stateOf(t, ctx, nc, session); got != want {
			t.Errorf("the session %s is %q, want %q", session, got, want)
		}
	}
	h := &held{n: n, place: Place{Session: "asking"}}
	for _, event := range []messages.Event{messages.ApprovalRequested{Question: messages.Question{ID: "q"}}, messages.ApprovalResolved{Question: "q"}} {
		if err := h.question(ctx, event); err != nil {
			t.Fatal(err)
		}
	}
	n.Retain = time.Nanosecond
	n.judge(ctx, map[string]bool{}, nil)
	for _, bucket := range []string{placeBucket, askBucket} {
		stream, err := f.js.Stream(ctx, "KV_"+bucket)
		if err != nil {
			t.Fatal(err)
		}
		if kept := stream.CachedInfo().State.Msgs; kept != 0 {
			t.Errorf("the bucket %s still has %d messages", bucket, kept)
		}
	}
}

// A question that comes late from a node whose session was given up is not asked.
func TestAQuestionOfAnEarlierEpochIsNotAsked(t *testing.T) {
	w := newWorld(t, Settings{})
	ctx := w.context()
	f, place := w.abandoned(ctx)
	h := &held{n: &node{fleet: f}, place: place, stored: make(chan messages.ProcessID, 1), told: map[messages.ProcessID]bool{}}
	asked := messages.ApprovalRequested{Origin: messages.Origin{Session: "s"}, Question: messages.Question{ID: "late"}}
	text, err := json.Marshal(asked) // as store does, up to the moment at which the node is cut off
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.js.PublishMsg(ctx, eventMessage(text, "s", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := f.lose(ctx, place, "test"); err != nil {
		t.Fatal(err)
	}
	if err := h.question(ctx, asked); err != nil {
		t.Fatal(err)
	}
	if open, err := OpenQuestions(ctx, f.nc); err != nil || len(open) != 0 {
		t.Errorf("%+v, %v", open, err)
	}
}

func TestManyNodesLookAtEachOtherAsOftenAsFew(t *testing.T) {
	for nodes, want := range map[int]time.Duration{0: 10, 1: 10, 20: 10, 40: 20, 100: 50, 120: 60, 1000: 60} {
		if got := pause(time.Minute, nodes); got != want*time.Second {
			t.Errorf("%d: %v", nodes, got)
		}
	}
}

// hasty is a bucket whose watcher says that all values have come before the last one has.
type hasty struct {
	jetstream.KeyValue
	updates chan jetstream.KeyValueEntry
}

func (h *hasty) WatchAll(ctx context.Context, options ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	watcher, err := h.KeyValue.WatchAll(ctx, options...)
	if err != nil {
		return nil, err
	}
	var all []jetstream.KeyValueEntry
	for entry := range watcher.Updates() {
		if entry == nil {
			break
		}
		all = append(all, entry)
	}
	last := len(all) - 1
	for _, entry := range append(all[:last:last], nil, all[last]) {
		h.updates <- entry
	}
	return h, watcher.Stop()
}

func (h *hasty) Updates() <-chan jetstream.KeyValueEntry { return h.updates }
func (h *hasty) Stop() error                             { return nil }

// A bucket is read to its end, also if one value is changed meanwhile and comes late, and if one is gone.
func TestABucketIsReadToItsEnd(t *testing.T) {
	w := newWorld(t, Settings{})
	ctx := w.context()
	f, err := join(ctx, w.connect())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []messages.SessionID{"a", "b", "c", "d"} {
		if _, err := f.change(ctx, Place{Session: id, State: StateEnded, Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want string) {
		t.Helper()
		places, err := valuesOf(ctx, &hasty{f.place, make(chan jetstream.KeyValueEntry, 10)}, placeOf)
		ids := ""
		for _, place := range places {
			ids += string(place.Session)
		}
		if ids != want || err != nil {
			t.Errorf("%q, %v; want %q", ids, err, want)
		}
	}
	read("abcd")
	if err := f.place.Delete(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	read("acd")
	if err := f.place.Purge(ctx, "d"); err != nil {
		t.Fatal(err)
	}
	read("ac")
}
