package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// Bounds of one session on its node.
const (
	maxCalls   = 1024             // that run at once
	answerTime = 10 * time.Minute // how long the answer of a call is kept for requests that repeat it
	keptBytes  = 16 << 20         // of kept answers; beyond it the oldest are dropped, but not their keys
	keptKeys   = 64 << 10         // of answered calls
	maxAskers  = 16               // callers that wait for one call; an earlier one asks again
	maxKey     = 256              // bytes of a key
	// linger is how long an event waits for those that are stored with it. The first one of a process does not wait, because answers do.
	linger     = 5 * time.Millisecond
	batchBytes = 64 << 10 // of events in one message; a larger event has one of its own
	// pace is the time between two messages with output, unless a message is full or another event comes: what comes in that time is sent
	// together. The first output after a pause is sent at once.
	pace      = 2 * time.Millisecond
	maxDeltas = 512 // in one message: their lengths are in its header
)

// held is a session on the node that has it. One goroutine takes its calls and owns the fields below calls; another publishes.
type held struct {
	n       *node
	session *execbus.Session
	place   Place
	events  *bus.Subscription
	// leases come from the node: the session may publish as long as one lasts, once the books have confirmed that it is still here.
	leases   chan context.Context
	verified chan context.Context
	// valid ends when the session must publish nothing more, because it was superseded or its node leaves.
	valid      context.Context
	invalidate context.CancelFunc
	pumped     chan struct{}

	requests     chan *nats.Msg
	subscription *nats.Subscription
	finished     chan finished
	calls        map[string]*call
	answered     []string // keys, the oldest first
	bytes        int
	running      int
	stored       chan messages.ProcessID           // of which the first event was stored
	known        map[messages.ProcessID]bool       // those that came from there
	early        map[messages.ProcessID][]finished // ends of calls that wait for that: what was answered has an end, whatever becomes of the node

	// Of the goroutine that publishes:
	next  messages.Event // was taken and is not published
	batch batch
	index uint64    // of the last stored message
	last  uint64    // its sequence in the stream
	sent  time.Time // when output was sent
	told  map[messages.ProcessID]bool
}

// batch has the events that are stored with the next message: a short command costs two requests to the server, and not five.
type batch struct {
	events []messages.Event
	text   []byte    // a line each
	due    time.Time // when it is stored; zero: it takes no more, because the server may have it already
	stored bool      // but not all of its questions
}

// call is one call by its key.
type call struct {
	sum    uint64   // of the request
	asked  []string // where its answer goes: the inboxes of the latest requests
	cancel context.CancelFunc
	done   bool
	at     time.Time
	text   []byte // nil: dropped
}

// finished is the end of a call.
type finished struct {
	key  string
	text []byte
	pure bool
	// process is the one that the answer names, if it does.
	process messages.ProcessID
}

var seed = maphash.MakeSeed()

// published are the events that a fleet keeps. Inputs may be secrets, and connections come as fast as a command makes them.
var published = []messages.EventKind{messages.KindExecStarted, messages.KindOutputDelta, messages.KindExecExited, messages.KindOutputClosed,
	messages.KindExecEnded, messages.KindAttemptEnded, messages.KindProcessWarning, messages.KindExecNotice, messages.KindTerminalResized,
	messages.KindApprovalRequested, messages.KindApprovalResolved, messages.KindToolDecision, messages.KindPatchStarted,
	messages.KindPatchApplied, messages.KindPatchFailed}

func newHeld(n *node, session *execbus.Session, place Place) (*held, error) {
	h := &held{n: n, session: session, place: place, leases: make(chan context.Context, 1), verified: make(chan context.Context, 1), pumped: make(chan struct{}),
		requests: make(chan *nats.Msg, 256), finished: make(chan finished), calls: map[string]*call{},
		stored: make(chan messages.ProcessID), known: map[messages.ProcessID]bool{}, early: map[messages.ProcessID][]finished{}, told: map[messages.ProcessID]bool{}}
	h.valid, h.invalidate = context.WithCancel(context.Background())
	var err error
	if h.events, err = session.Events(execbus.Watch{Kinds: published, Name: "fleet"}); err != nil {
		return nil, err
	}
	h.subscription, err = n.nc.ChanSubscribe(callSubject(place.Session), h.requests)
	return h, err
}

func (h *held) unsubscribe() {
	if h.subscription != nil {
		_ = h.subscription.Unsubscribe()
	}
	h.events.Close()
}

// end ends the session with its processes. The last events are published, and then the session is over.
func (h *held) end() {
	go func() { _ = h.session.Close(context.Background()) }()
}

// abandon ends the session at once, whatever it could not publish.
func (h *held) abandon() { h.invalidate() }

// run takes the session's calls until it is over.
func (h *held) run() {
	defer h.invalidate()
	go h.pump()
	minutes := time.NewTicker(time.Minute)
	defer minutes.Stop()
	for {
		select {
		case m := <-h.requests:
			h.receive(m)
		case f := <-h.finished:
			h.finish(f)
		case process := <-h.stored:
			h.known[process] = true
			for _, f := range h.early[process] {
				h.finish(f)
			}
			delete(h.early, process)
		case lease := <-h.leases:
			h.verify(lease)
		case now := <-minutes.C:
			h.forget(now)
		case <-h.pumped:
			h.unsubscribe()
			for _, c := range h.calls {
				if !c.done {
					c.cancel()
				}
			}
			for _, calls := range h.early { // their answers would say more than the events do
				h.running -= len(calls)
			}
			for h.running > 0 {
				if f := <-h.finished; f.process != 0 && !h.known[f.process] {
					h.running--
				} else {
					h.finish(f)
				}
			}
			h.n.over <- h.place.Session
			return
		}
	}
}

// verify lets the session publish if the books say that it is here.
func (h *held) verify(lease context.Context) {
	ctx, cancel := context.WithTimeout(lease, storeTime)
	defer cancel()
	place, err := h.n.read(ctx, h.place.Session)
	switch {
	case errors.Is(err, messages.ErrUnreachable):
		if lease.Err() == nil {
			time.AfterFunc(h.n.fleet.lease/10, func() {
				select {
				case h.leases <- lease:
				default: // there is a newer one
				}
			})
		}
	case err != nil || place.State != StateHeld || place.Epoch != h.place.Epoch:
		h.invalidate()
	default:
		select {
		case <-h.verified:
		default:
		}
		h.verified <- lease
	}
}

// receive takes a request. A key that is known starts nothing.
func (h *held) receive(m *nats.Msg) {
	var r request
	if err := json.Unmarshal(m.Data, &r); err != nil {
		h.n.refuse(m, &messages.Error{Code: messages.ErrInvalidRequest, Op: "call session", Detail: "the request is not JSON; use a client of this version"})
		return
	}
	if r.Key == "" || len(r.Key) > maxKey {
		h.n.refuse(m, &messages.Error{Code: messages.ErrInvalidRequest, Op: "call session", Subject: "key", Detail: fmt.Sprintf("it has %d bytes; give each call a key of 1 to %d bytes", len(r.Key), maxKey)})
		return
	}
	if r.Method == "cancel" {
		h.cancel(r.Key)
		return
	}
	sum := maphash.Bytes(seed, append([]byte(r.Method+" "), r.Params...))
	if c := h.calls[r.Key]; c != nil {
		h.repeat(m, c, sum)
		return
	}
	do, known := methods[r.Method]
	var err error
	switch {
	case !known:
		err = &messages.Error{Code: messages.ErrUnsupported, Op: "call session", Detail: fmt.Sprintf("the node does not know %.40q; use a client of its version", r.Method)}
	case r.Epoch != h.place.Epoch:
		err = &messages.Error{Code: messages.ErrNodeLost, Op: "call session", Subject: string(h.place.Session), Detail: "the node has it with another epoch; look the session up again"}
	case h.running >= maxCalls || len(h.answered) >= keptKeys:
		err = &messages.Error{Code: messages.ErrLimitReached, Op: "call session", Subject: string(h.place.Session),
			Detail: fmt.Sprintf("%d calls run, and %d were answered in the last %v; call again later", h.running, len(h.answered), answerTime)}
	}
	if err != nil {
		h.n.refuse(m, err)
		return
	}
	h.start(m, r, sum, do)
}

func (h *held) start(m *nats.Msg, r request, sum uint64, do method) {
	ctx, cancel := context.WithCancel(context.Background())
	h.calls[r.Key] = &call{sum: sum, asked: []string{m.Reply}, cancel: cancel}
	h.running++
	// Calls take effect in the order in which they came: the next one is looked at when the session has received this one.
	begun, over := make(chan struct{}, 1), make(chan struct{})
	ctx = execbus.WithBegun(ctx, func() {
		select {
		case begun <- struct{}{}:
		default:
		}
	})
	go func() {
		result, err := do.call(ctx, h, r.Params)
		close(over)
		a := answer{Error: typed(err)}
		if result != nil {
			if a.Result, err = json.Marshal(result); err != nil {
				a = answer{Error: typed(err)}
			}
		}
		text, err := json.Marshal(a)
		if err != nil {
			text, _ = json.Marshal(answer{Error: typed(err)})
		}
		h.finished <- finished{r.Key, text, do.pure, processOf(result)}
	}()
	select {
	case <-begun:
	case <-over:
	case <-time.After(time.Second): // what takes so long has no place in the order
	}
}

// processOf is the process that a result names.
func processOf(result any) messages.ProcessID {
	switch r := result.(type) {
	case *messages.Result:
		if r != nil {
			return r.Process
		}
	case messages.ProcessID:
		return r
	case *messages.RunResult:
		if r != nil {
			return r.Process
		}
	}
	return 0
}

// repeat answers a request whose key is known.
func (h *held) repeat(m *nats.Msg, c *call, sum uint64) {
	switch {
	case c.sum != sum && c.sum != 0:
		h.n.refuse(m, &messages.Error{Code: messages.ErrInvalidRequest, Op: "call session", Subject: "key", Detail: "another call had this key; give each call its own"})
	case !c.done:
		if !slices.Contains(c.asked, m.Reply) {
			c.asked = append(c.asked[max(0, len(c.asked)+1-maxAskers):], m.Reply)
		}
	case c.text == nil:
		h.n.refuse(m, &messages.Error{Code: messages.ErrOutputUnretained, Op: "call session", Subject: "key",
			Detail: "the call was done, but its answer is no longer kept; look at the session's records to see what it did"})
	default:
		h.n.replyText(m.Reply, c.text)
	}
}

// cancel withdraws a call. One that has not arrived will do nothing.
func (h *held) cancel(key string) {
	switch c := h.calls[key]; {
	case c == nil && len(h.answered) < keptKeys:
		text, _ := json.Marshal(answer{Error: &messages.Error{Code: messages.ErrCancelled, Op: "call session", Detail: "the call was cancelled before it began, and nothing was done"}})
		h.calls[key] = &call{}
		h.keep(key, text)
	case c != nil && !c.done:
		c.cancel()
	}
}

// finish answers a call.
func (h *held) finish(f finished) {
	if f.process != 0 && !h.known[f.process] {
		h.early[f.process] = append(h.early[f.process], f)
		return
	}
	c := h.calls[f.key]
	c.cancel()
	h.running--
	if h.valid.Err() != nil { // the session was given up, and what this node says of it does not count
		return
	}
	for _, inbox := range c.asked {
		h.n.replyText(inbox, f.text)
	}
	if f.pure { // it changes nothing, so a request that repeats it may do it again
		delete(h.calls, f.key)
		return
	}
	h.keep(f.key, f.text)
}

func (h *held) keep(key string, text []byte) {
	c := h.calls[key]
	c.done, c.at, c.text = true, time.Now(), text
	h.answered = append(h.answered, key)
	h.bytes += len(text)
	for i := 0; h.bytes > keptBytes; i++ {
		old := h.calls[h.answered[i]]
		h.bytes -= len(old.text)
		old.text = nil
	}
}

// forget drops the answers that are old.
func (h *held) forget(now time.Time) {
	for len(h.answered) > 0 && now.Sub(h.calls[h.answered[0]].at) >= answerTime {
		h.bytes -= len(h.calls[h.answered[0]].text)
		delete(h.calls, h.answered[0])
		h.answered = h.answered[1:]
	}
}

// pump publishes the session's events while a lease lasts. When it returns the session has ended.
func (h *held) pump() {
	defer close(h.pumped)
	defer func() { _ = h.session.Close(context.Background()) }()
	for {
		select {
		case <-h.valid.Done():
			return
		case lease := <-h.verified:
			ctx, stop := context.WithCancel(h.valid)
			off := context.AfterFunc(lease, stop)
			err := h.publish(ctx)
			off()
			stop()
			switch {
			case errors.Is(err, errSuperseded):
				h.invalidate()
			case errors.Is(err, messages.ErrSlowSubscriber): // its events are not complete any more
				_ = h.session.Close(context.Background())
				for h.n.lose(h.valid, h.place, "too many events waited for the server") != nil { // nobody else gives up the session of a node that is there
					select {
					case <-time.After(time.Second):
					case <-h.valid.Done(): // the node leaves, and another gives up what it had
						return
					}
				}
				return
			case errors.Is(err, messages.ErrClosed):
				return
			}
		}
	}
}

// publish publishes events until ctx ends or the session does. What it could not publish comes first the next time.
func (h *held) publish(ctx context.Context) error {
	for {
		if h.next == nil {
			event, err := h.take(ctx)
			if errors.Is(err, messages.ErrClosed) {
				if stored := h.conclude(ctx); stored != nil {
					return stored
				}
			}
			if err != nil {
				return err
			}
			h.next = event
		}
		switch e := h.next.(type) {
		case messages.OutputDelta:
			h.next = h.output(ctx, e)
			continue
		case messages.Gap:
			if e.Deltas > 0 {
				h.cache(e.Origin.Process, fmt.Sprintf("- 0 %d -", e.End), nil)
			}
		default:
			if err := h.add(ctx, e); err != nil {
				return err
			}
		}
		h.next = nil
	}
}

// take returns the next event. When the batch is due it stores that first.
func (h *held) take(ctx context.Context) (messages.Event, error) {
	for {
		b := &h.batch
		if len(b.events) > 0 && !time.Now().Before(b.due) {
			if err := h.store(ctx); err != nil {
				return nil, err
			}
		}
		if len(b.events) == 0 {
			return h.events.Next(ctx)
		}
		until, cancel := context.WithDeadline(ctx, b.due)
		event, err := h.events.Next(until)
		cancel()
		if err == nil || ctx.Err() != nil {
			return event, err
		}
		b.due = time.Time{} // it is time, or there will be no more
	}
}

// add puts an event into the batch. One that does not fit comes into the next.
func (h *held) add(ctx context.Context, event messages.Event) error {
	if event.From().Session == "" { // a notice of the runtime, which is no session's
		return nil
	}
	if ended, is := event.(messages.ExecEnded); is {
		ended.Transcript = nil // it may be larger than a message; Follow gives it
		event = ended
	}
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	if b := h.batch; len(b.events) > 0 && (b.due.IsZero() || len(b.text)+1+len(text) > min(batchBytes, h.n.piece())) {
		if err := h.store(ctx); err != nil {
			return err
		}
	}
	if len(h.batch.events) == 0 {
		h.batch.due = time.Now().Add(linger)
	} else {
		h.batch.text = append(h.batch.text, '\n')
	}
	h.batch.events, h.batch.text = append(h.batch.events, event), append(h.batch.text, text...)
	if process := event.From().Process; process != 0 && !h.told[process] {
		h.batch.due = time.Now()
	}
	return nil
}

// output publishes a piece of output with those that follow it within the pace. It returns the event after them, if it took it.
func (h *held) output(ctx context.Context, first messages.OutputDelta) (next messages.Event) {
	data, sizes, end := bytes.Clone(first.Bytes), []string{strconv.Itoa(len(first.Bytes))}, first.Offset+int64(len(first.Bytes))
	ctx, cancel := context.WithDeadline(ctx, h.sent.Add(pace))
	defer cancel()
	for {
		event, ok, _ := h.events.TryNext()
		if !ok {
			var err error
			if event, err = h.events.Next(ctx); err != nil {
				break // it is time; an end of the events is found again
			}
		}
		e, is := event.(messages.OutputDelta)
		if !is || e.Process != first.Process || e.Stream != first.Stream || e.Offset != end || e.Seq != first.Seq+uint64(len(sizes)) ||
			len(data)+len(e.Bytes) > min(outputBatch, h.n.piece()) || len(sizes) == maxDeltas {
			next = event
			break
		}
		data, sizes, end = append(data, e.Bytes...), append(sizes, strconv.Itoa(len(e.Bytes))), end+int64(len(e.Bytes))
	}
	h.cache(first.Process, fmt.Sprintf("%s %d %d %s", first.Stream, first.Seq, first.Offset, strings.Join(sizes, ",")), data)
	h.sent = time.Now()
	return next
}

// cache publishes output without waiting for the server: a reader that does not find it there asks the node.
func (h *held) cache(process messages.ProcessID, head string, data []byte) {
	_ = h.n.nc.PublishMsg(&nats.Msg{Subject: outputSubject(h.place.Session, process), Data: data, Header: nats.Header{outputHeader: {head}}})
}

// store publishes the batch and waits until the server has it. The server takes it only if nothing else was stored for the session
// since: so a node that was given up cannot add to what was written in its place.
func (h *held) store(ctx context.Context) error {
	b := &h.batch
	b.due = time.Time{}
	if !b.stored {
		index := h.index + 1
		message := eventMessage(b.text, h.place.Session, h.place.Epoch, index)
		err := h.persist(ctx, func(ctx context.Context) error {
			ack, err := h.n.js.PublishMsg(ctx, message, jetstream.WithExpectLastSequencePerSubject(h.last), jetstream.WithRetryAttempts(0))
			switch {
			case err == nil:
				h.last = ack.Sequence
			case conflict(err):
				return h.reconcile(ctx, index)
			}
			return err
		})
		if err != nil {
			return err
		}
		h.index, b.stored = index, true
		for _, event := range b.events {
			if process := event.From().Process; process != 0 && !h.told[process] {
				h.told[process] = true
				h.stored <- process
			}
		}
	}
	for ; len(b.events) > 0; b.events = b.events[1:] {
		if err := h.question(ctx, b.events[0]); err != nil {
			return err
		}
	}
	h.batch = batch{}
	return nil
}

// reconcile finds out why the server refused a message: it has it already and its answer was lost, or its retention has removed all earlier
// ones, or somebody else has written, because the session was given up.
func (h *held) reconcile(ctx context.Context, index uint64) error {
	last, err := h.n.events.GetLastMsgForSubject(ctx, eventSubject(h.place.Session))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		h.last = 0
		return jetstream.ErrMsgNotFound // again
	case err != nil:
		return err
	case last.Header.Get(epochHeader) != strconv.FormatUint(h.place.Epoch, 10):
		return errSuperseded
	case last.Header.Get(indexHeader) == strconv.FormatUint(index, 10):
		h.last = last.Sequence
		return nil
	default:
		h.last = last.Sequence
		return jetstream.ErrMsgNotFound // again
	}
}

// question puts a question where every console sees it, and removes it when it is resolved.
func (h *held) question(ctx context.Context, event messages.Event) error {
	switch e := event.(type) {
	case messages.ApprovalRequested:
		text, err := json.Marshal(Asked{Session: h.place.Session, Node: h.n.ID, Process: e.Process, Question: e.Question})
		if err != nil {
			return nil // a question is a plain value
		}
		return h.persist(ctx, func(ctx context.Context) error {
			// It has not been there before: else the answer was lost, or the session was given up meanwhile and the question withdrawn.
			if _, err := h.n.ask.Update(ctx, askKey(h.place.Session, e.ID), text, 0); !conflict(err) {
				return err
			}
			return nil
		})
	case messages.ApprovalResolved:
		return h.persist(ctx, func(ctx context.Context) error { return h.n.ask.Purge(ctx, askKey(h.place.Session, e.Question)) })
	}
	return nil
}

// conclude writes the end of the session into the books.
func (h *held) conclude(ctx context.Context) error {
	place := h.place
	place.State = StateEnded
	return h.persist(ctx, func(ctx context.Context) error {
		_, err := h.n.change(ctx, place)
		if !conflict(err) {
			return err
		}
		now, err := h.n.read(ctx, h.place.Session)
		switch {
		case errors.Is(err, messages.ErrClosed):
			return nil
		case err != nil:
			return err
		case now.Epoch != h.place.Epoch:
			return errSuperseded
		case now.State == StateEnded: // the answer was lost
			return nil
		}
		place.revision = now.revision
		return errors.New("the entry has changed") // again
	})
}

// persist tries until something is done, until ctx ends, or until the session is known to be superseded.
func (h *held) persist(ctx context.Context, do func(context.Context) error) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		once, cancel := context.WithTimeout(ctx, storeTime)
		err := do(once)
		cancel()
		if err == nil || errors.Is(err, errSuperseded) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// method is a call of a session, as the wire names it.
type method struct {
	call func(context.Context, *held, json.RawMessage) (any, error)
	pure bool // it changes nothing
}

func unreadable(err error) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "call session", Detail: "the request cannot be read: " + err.Error() + "; use a client of the node's version"}
}

// answers makes a method of a call with a request and a result.
func answers[P, R any](do func(execbus.SessionCalls, context.Context, P) (R, error)) method {
	return method{call: func(ctx context.Context, h *held, params json.RawMessage) (any, error) {
		var request P
		if err := json.Unmarshal(params, &request); err != nil {
			return nil, unreadable(err)
		}
		return do(h.session, ctx, request)
	}}
}

// does makes a method of a call without a result.
func does[P any](do func(execbus.SessionCalls, context.Context, P) error) method {
	return answers(func(s execbus.SessionCalls, ctx context.Context, request P) (struct{}, error) {
		return struct{}{}, do(s, ctx, request)
	})
}

// lists makes a method of a call without a request that changes nothing.
func lists[R any](do func(execbus.SessionCalls, context.Context) (R, error)) method {
	return pure(answers(func(s execbus.SessionCalls, ctx context.Context, _ struct{}) (R, error) { return do(s, ctx) }))
}

func simply(do func(execbus.SessionCalls, context.Context) error) method {
	return does(func(s execbus.SessionCalls, ctx context.Context, _ struct{}) error { return do(s, ctx) })
}

func pure(m method) method {
	m.pure = true
	return m
}

var methods = map[string]method{
	"exec":         answers(execbus.SessionCalls.Exec),
	"start":        {call: start},
	"run":          answers(run),
	"write":        answers(execbus.SessionCalls.Write),
	"poll":         answers(execbus.SessionCalls.Poll),
	"wait":         pure(answers(execbus.SessionCalls.Wait)),
	"read":         pure(answers(execbus.SessionCalls.Read)),
	"patch":        answers(execbus.SessionCalls.ApplyPatch),
	"closeStdin":   does(execbus.SessionCalls.CloseStdin),
	"resize":       does(execbus.SessionCalls.Resize),
	"signal":       does(execbus.SessionCalls.Signal),
	"terminate":    answers(execbus.SessionCalls.Terminate),
	"terminateAll": simply(execbus.SessionCalls.TerminateAll),
	"endOwner":     does(execbus.SessionCalls.EndOwner),
	"list":         lists(execbus.SessionCalls.List),
	"records":      lists(execbus.SessionCalls.Records),
	"update":       {call: update},
	"pauseYields":  simply(execbus.SessionCalls.PauseYields),
	"resumeYields": simply(execbus.SessionCalls.ResumeYields),
	"questions":    lists(execbus.SessionCalls.Questions),
	"decide":       does(execbus.SessionCalls.Decide),
	"grants":       lists(execbus.SessionCalls.Grants),
	"revoke":       does(execbus.SessionCalls.Revoke),
	"close":        simply(execbus.SessionCalls.Close),
}

// start answers when the program runs.
func start(ctx context.Context, h *held, params json.RawMessage) (any, error) {
	var command messages.ExecCommand
	if err := json.Unmarshal(params, &command); err != nil {
		return nil, unreadable(err)
	}
	process, err := h.session.Start(ctx, command)
	if err != nil {
		return nil, err
	}
	return process.ID(), nil
}

// run refuses results that are too large for an answer.
func run(s execbus.SessionCalls, ctx context.Context, command messages.RunCommand) (*messages.RunResult, error) {
	if command.Full {
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "run", Detail: "a whole output may be too large for an answer of a fleet; follow the process, or run it without that"}
	}
	return s.Run(ctx, command)
}

// update changes no policy that the node has set.
func update(ctx context.Context, h *held, params json.RawMessage) (any, error) {
	var change messages.UpdateEnvironment
	if err := json.Unmarshal(params, &change); err != nil {
		return nil, unreadable(err)
	}
	if h.n.Sandbox != nil && (change.Sandbox != nil || change.LeastAssurance != nil) {
		return nil, &messages.Error{Code: messages.ErrRejected, Op: "update environment", Subject: "sandbox", Detail: "the node has set it for all sessions; leave it out"}
	}
	if h.n.confined() && change.Approval != nil {
		return nil, &messages.Error{Code: messages.ErrRejected, Op: "update environment", Subject: "approval", Detail: "an answer could lift the sandbox that the node has set for all sessions; leave it out"}
	}
	if change.Limits != nil {
		tighter := change.Limits.Tighter(h.n.Limits)
		change.Limits = &tighter
	}
	return struct{}{}, h.session.UpdateEnvironment(ctx, change)
}
