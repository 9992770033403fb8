package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus/messages"
)

// An event wakes a reader, perhaps before the server has stored it: the reader looks soon, and each time it takes twice as long, up to
// idleMost. After idle it also asks the node, because a message may be lost.
const (
	soon     = 2 * time.Millisecond
	idle     = 500 * time.Millisecond
	idleMost = 15 * time.Second
)

// next returns the first message of a subject from a sequence on. A request that is lost with its server has a bound of its own.
func next(ctx context.Context, stream jetstream.Stream, subject string, seq uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
}

// history reads the events of a session, one after the other, from the stream.
type history struct {
	stream  jetstream.Stream
	subject string
	seq     uint64 // of the next message to look at
	message *jetstream.RawStreamMsg
	rest    []byte // of it: events, a line each
}

func (f *fleet) historyOf(session messages.SessionID) *history {
	return &history{stream: f.events, subject: eventSubject(session), seq: 1}
}

// next returns the next event with the message that has it, or nil if there is none yet.
func (h *history) next(ctx context.Context) (messages.Event, *jetstream.RawStreamMsg, error) {
	for {
		for len(h.rest) > 0 {
			var line []byte
			line, h.rest, _ = bytes.Cut(h.rest, []byte("\n"))
			if event, err := messages.UnmarshalEvent(line); err == nil { // events of a newer version are skipped
				return event, h.message, nil
			}
		}
		message, err := next(ctx, h.stream, h.subject, h.seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		h.seq, h.message, h.rest = message.Sequence+1, message, message.Data
	}
}

// eventMessage is a message with events, a line each.
func eventMessage(text []byte, session messages.SessionID, epoch, index uint64) *nats.Msg {
	return &nats.Msg{Subject: eventSubject(session), Data: text,
		Header: nats.Header{epochHeader: {strconv.FormatUint(epoch, 10)}, indexHeader: {strconv.FormatUint(index, 10)}}}
}

// Events gives all events of a session, from the first that is kept on, in their order and each once: also those of a time when nobody
// read. It ends after the last event of a session that is over, or with an error. Transcripts are empty, and outputs, inputs and
// connections are not among the events: Follow gives output.
func Events(ctx context.Context, nc *nats.Conn, session messages.SessionID) iter.Seq2[messages.Event, error] {
	return func(yield func(messages.Event, error) bool) {
		f, err := join(ctx, nc)
		if err != nil {
			yield(nil, err)
			return
		}
		f.tell(ctx, session, yield)
	}
}

// tell is Events.
func (f *fleet) tell(ctx context.Context, session messages.SessionID, yield func(messages.Event, error) bool) {
	wake := make(chan *nats.Msg, 1) // more are dropped: one is enough
	subscription, err := f.nc.ChanSubscribe(eventSubject(session), wake)
	if err != nil {
		yield(nil, failed("read events", err))
		return
	}
	defer func() { _ = subscription.Unsubscribe() }()
	told := f.historyOf(session)
	for pause := time.Millisecond; ; pause = min(2*pause, idleMost) {
		place, unknown := f.read(ctx, session) // before the events: what is stored after the end is none
		all := false
		for !all {
			event, message, err := told.next(ctx)
			if ctx.Err() != nil {
				yield(nil, &messages.Error{Code: messages.ErrCancelled, Op: "read events", Subject: string(session), Detail: context.Cause(ctx).Error(), Like: messages.LikeOf(ctx.Err())})
				return
			}
			if err != nil {
				break // a server that does not answer may do so later
			}
			if all = message == nil; all {
				break
			}
			if !yield(event, nil) {
				return
			}
			pause = time.Millisecond
		}
		switch {
		case !all:
		case errors.Is(unknown, messages.ErrClosed) && told.seq == 1:
			yield(nil, unknown)
			return
		case errors.Is(unknown, messages.ErrClosed), place.State == StateEnded, place.State == StateLost:
			return
		}
		select { // the message may be here before it is stored
		case <-wake:
			pause = time.Millisecond
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// piece is output as a message carries it: consecutive deltas of one stream, or none and the offset behind output that the node dropped.
type piece struct {
	stream  messages.Stream
	seq     uint64 // of the first
	offset  int64
	lengths []int
	data    []byte
}

func (p piece) end() int64 { return p.offset + int64(len(p.data)) }

// pieceOf reads a message. Its header is "stream seq offset length,length".
func pieceOf(header nats.Header, data []byte) (p piece, ok bool) {
	words := strings.Fields(header.Get(outputHeader))
	if len(words) != 4 {
		return p, false
	}
	var err1, err2 error
	p.stream, p.data = messages.Stream(words[0]), data
	p.seq, err1 = strconv.ParseUint(words[1], 10, 64)
	p.offset, err2 = strconv.ParseInt(words[2], 10, 64)
	if err1 != nil || err2 != nil || p.offset < 0 {
		return p, false
	}
	if words[3] == "-" {
		return p, len(data) == 0
	}
	sum := 0
	for length := range strings.SplitSeq(words[3], ",") {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 {
			return p, false
		}
		p.lengths = append(p.lengths, n)
		sum += n
	}
	return p, sum == len(data)
}

// Follow gives the output of a process from an offset on: each byte once, in order, wherever it is kept: on the server, or in the log or
// the spool of its node. What is kept nowhere is a messages.Gap with its range; the last one of a node that was lost ends at
// messages.UnknownEnd. Follow ends after the last byte when no more can come, or with an error when ctx ends. While the node is
// unreachable it waits.
//
// The first event after an offset inside of a published one is the rest of that. No origin has a time.
func Follow(ctx context.Context, nc *nats.Conn, session messages.SessionID, process messages.ProcessID, from int64) iter.Seq2[messages.Event, error] {
	return func(yield func(messages.Event, error) bool) {
		f, err := join(ctx, nc)
		if err != nil {
			yield(nil, err)
			return
		}
		r := &follower{fleet: f, session: &Session{fleet: f, place: Place{Session: session}}, subject: outputSubject(session, process), at: from, total: -1, soon: soon,
			origin: messages.Origin{Session: session, Process: process}, yield: yield, told: f.historyOf(session)}
		if err := r.follow(ctx); err != nil && !errors.Is(err, errLeft) {
			if ctx.Err() != nil {
				err = &messages.Error{Code: messages.ErrCancelled, Op: "follow", Subject: process.String(), Detail: context.Cause(ctx).Error(), Like: messages.LikeOf(ctx.Err())}
			}
			yield(nil, failed("follow", err))
		}
	}
}

// errLeft says that the loop over a Follow was left.
var errLeft = errors.New("left")

// follower is one Follow.
type follower struct {
	*fleet
	session *Session
	subject string
	origin  messages.Origin
	yield   func(messages.Event, error) bool
	told    *history
	at      int64  // of the next byte
	seq     uint64 // of the last delta
	total   int64  // of all output, once it is known
	known   bool   // the process has events
	lost    bool
	asked   bool // the node, since messages came or for a while
	gone    bool // the session has ended or its node is lost: what the node has nobody gets
	soon    time.Duration
	quiet   time.Duration // how long the reader has waited since output, or an event of the process, came
	// incoming is output as it comes. What comes while it is full is lost here, but not on the server.
	incoming chan *nats.Msg
	ahead    *piece // came and is not given
}

func (r *follower) follow(ctx context.Context) error {
	var err error
	if r.session.place, err = r.read(ctx, r.origin.Session); err != nil {
		return err
	}
	r.incoming = make(chan *nats.Msg, outputsWaiting)
	events := make(chan *nats.Msg, 1) // more are dropped: one is enough
	for subject, to := range map[string]chan *nats.Msg{r.subject: r.incoming, eventSubject(r.origin.Session): events} {
		subscription, err := r.nc.ChanSubscribe(subject, to)
		if err != nil {
			return err
		}
		defer func() { _ = subscription.Unsubscribe() }()
	}
	for pause, look := r.soon, true; ; {
		if look {
			if over, err := r.look(ctx); over || err != nil {
				return err
			}
		}
		incoming := r.incoming
		switch p := r.ahead; {
		case p == nil:
		case p.offset > r.at: // there is a hole, and the rest waits until that is filled
			incoming = nil
		default:
			if err := r.give(*p); err != nil {
				return err
			}
			r.ahead = nil
		}
		if r.total >= 0 && r.at >= r.total {
			return nil
		}
		if r.total >= 0 && events != nil { // no event says more, and those of other processes would keep the reader from its pauses
			events, pause = nil, r.soon
		}
		select {
		case m := <-incoming:
			r.receive(m)
			if pause, look = min(pause, idle), r.ahead != nil && r.ahead.offset > r.at; look {
				pause = r.soon
			}
		case <-events:
			pause, look = r.soon, true
		case <-time.After(pause):
			look, r.asked, r.quiet = true, r.asked && pause < idle, r.quiet+pause
			pause = min(2*pause, idleMost)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes a message. Its output is ahead until it is given.
func (r *follower) receive(m *nats.Msg) {
	if p, ok := pieceOf(m.Header, m.Data); ok {
		r.ahead, r.quiet = &p, 0
	}
}

// met receives what has come, and reports whether it goes on where the output that was given ends.
func (r *follower) met() bool {
	for r.ahead == nil {
		select {
		case m := <-r.incoming:
			r.receive(m)
		default:
			return false
		}
	}
	return r.ahead.offset <= r.at
}

// look gives what the server keeps and then what the node has, until output that came goes on from there. It reports whether there will be
// no more. It is certain that nothing is on its way to the server if nothing came for a while.
func (r *follower) look(ctx context.Context) (over bool, err error) {
	if _, err := r.learn(ctx); err != nil {
		return false, err
	}
	all, err := r.cached(ctx)
	switch {
	case err != nil, !all: // a server that does not answer may do so later
		return false, err
	case r.met():
		return false, nil
	case r.lost: // what the server has was given, and there is no more but what came
		end := r.total
		if r.ahead != nil {
			end = r.ahead.offset
		}
		if end != r.at && !r.yield(r.gap(r.at, end), nil) {
			return false, errLeft
		}
		r.at = end
		return r.ahead == nil, nil
	case r.ahead != nil:
		return false, r.fill(ctx, r.ahead.offset, r.quiet >= idle)
	case !r.asked && r.total < 0, r.total > r.at:
		r.asked = true
		return false, r.fill(ctx, max(r.total, 0), r.quiet >= idle)
	}
	return false, nil
}

// give gives what is new in a piece.
func (r *follower) give(p piece) error {
	at := p.offset
	for i, length := range p.lengths {
		data := p.data[at-p.offset:][:length]
		if skip := min(max(r.at-at, 0), int64(length)); skip < int64(length) {
			if !r.yield(messages.OutputDelta{Origin: r.origin, Stream: p.stream, Seq: p.seq + uint64(i), Offset: at + skip, Bytes: data[skip:]}, nil) {
				return errLeft
			}
			r.at, r.seq = at+int64(length), p.seq+uint64(i)
		}
		at += int64(length)
	}
	return nil
}

// learn reads what the events say of the process. It reports whether it has read all: a server that does not answer may do so later.
func (r *follower) learn(ctx context.Context) (all bool, err error) {
	for {
		event, message, err := r.told.next(ctx)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil || message == nil {
			return err == nil, nil
		}
		if event.From().Process != r.origin.Process {
			continue
		}
		r.known, r.origin.Call, r.quiet = true, event.From().Call, 0
		switch e := event.(type) {
		case messages.OutputClosed:
			r.total = e.Total
		case messages.ExecEnded:
			if e.Cause == messages.CauseNodeLost {
				r.lost = true
			} else {
				r.total = e.Total
			}
		}
	}
}

// cached gives what the server keeps, until output that came meanwhile goes on. It reports whether that was all: a server that does not
// answer may do so later.
func (r *follower) cached(ctx context.Context) (all bool, err error) {
	seq, err := r.locate(ctx)
	for err == nil && !r.met() {
		var m *jetstream.RawStreamMsg
		if m, err = next(ctx, r.output, r.subject, seq); err != nil {
			break
		}
		seq = m.Sequence + 1
		p, ok := pieceOf(m.Header, m.Data)
		if !ok {
			continue
		}
		end := p.offset
		if r.ahead != nil {
			end = min(end, r.ahead.offset)
		}
		if end > r.at {
			if err := r.fill(ctx, end, true); err != nil {
				return false, err
			}
			if end > r.at { // the node is lost, or has ended the session: nobody has what is missing
				if !r.yield(r.gap(r.at, end), nil) {
					return false, errLeft
				}
				r.at = end
			}
		}
		if r.at >= p.offset {
			if err := r.give(p); err != nil {
				return false, err
			}
		}
	}
	return err == nil || errors.Is(err, jetstream.ErrMsgNotFound), ctx.Err()
}

// locate finds the sequence from which on the stream has the output at the offset: it halves the range, because offsets grow with it.
func (r *follower) locate(ctx context.Context) (uint64, error) {
	once, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	last, err := r.output.GetLastMsgForSubject(once, r.subject)
	if err != nil {
		return 0, err
	}
	if p, ok := pieceOf(last.Header, last.Data); ok && p.end() <= r.at {
		return 0, jetstream.ErrMsgNotFound
	}
	low, high := uint64(1), last.Sequence // the one at high ends behind the offset
	for middle := low; low < high; middle = low + (high-low)/2 {
		m, err := next(ctx, r.output, r.subject, middle)
		if err != nil {
			return 0, err
		}
		if p, ok := pieceOf(m.Header, m.Data); ok && p.end() <= r.at {
			low = m.Sequence + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// fill asks the node for the output up to an offset, or, if that is 0, for what it has now. What it does not have is a gap if the server
// does not have it either; if that is not certain, because output may be on its way to the server, fill stops there, to ask again.
func (r *follower) fill(ctx context.Context, until int64, certain bool) error {
	if r.gone && !certain { // an answer takes long
		return nil
	}
	for pause := r.soon; ; pause = min(2*pause, idleMost) {
		page, err := r.session.Read(ctx, messages.ReadOutput{Process: r.origin.Process, Offset: &r.at, Max: r.page(), SkipLost: true})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, messages.ErrLimitReached), errors.Is(err, messages.ErrUnreachable): // later
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		case errors.Is(err, messages.ErrUnknownProcess) && !r.known:
			return err
		case errors.Is(err, messages.ErrClosed) && r.total < 0: // its last event was stored before that
			all, failed := r.learn(ctx)
			if failed != nil {
				return failed
			}
			if all && r.total < 0 && !r.lost {
				return err
			}
			return nil
		case errors.Is(err, messages.ErrNodeLost) && r.total < 0: // the events say so, when they are complete
			place, unread := r.read(ctx, r.origin.Session)
			all, failed := r.learn(ctx)
			if failed != nil {
				return failed
			}
			if all && unread == nil && place.State == StateLost && !r.lost && r.total < 0 {
				return err
			}
			return nil
		case err != nil && until > r.at && certain: // nobody has it any more
			if !r.yield(r.gap(r.at, until), nil) {
				return errLeft
			}
			r.at = until
			return nil
		case err != nil:
			r.gone = errors.Is(err, messages.ErrClosed) || errors.Is(err, messages.ErrNodeLost)
			return nil
		}
		if until == 0 {
			until = page.Total
		}
		if page.Missed > 0 {
			if !certain {
				r.asked = false
				return nil
			}
			end := min(r.at+page.Missed, until)
			if !r.yield(r.gap(r.at, end), nil) {
				return errLeft
			}
			if r.at = end; end == until {
				return nil
			}
		}
		for _, c := range page.Chunks {
			if !r.yield(messages.OutputDelta{Origin: r.origin, Stream: c.Stream, Seq: c.Seq, Offset: c.Offset, Bytes: c.Bytes}, nil) {
				return errLeft
			}
			r.at, r.seq = c.Offset+int64(len(c.Bytes)), c.Seq
		}
		if page.Ended {
			r.total = page.Total
		}
		if len(page.Chunks) == 0 || r.at >= until {
			return nil
		}
	}
}

// page is how much output one answer may have, in bytes: it is base64 in JSON.
func (r *follower) page() int { return min(256<<10, r.fleet.piece()/2) }

func (r *follower) gap(first, end int64) messages.Gap {
	return messages.Gap{Origin: r.origin, First: first, End: end, Deltas: 1} // how many events it was nobody knows
}

// Asked is a question that waits for an answer.
type Asked struct {
	Session  messages.SessionID `json:"session"`
	Node     string             `json:"node"`
	Process  messages.ProcessID `json:"process,omitempty"`
	Question messages.Question  `json:"question"`
	// Resolved says that the question, of which only the session and the ID are known then, has been answered or withdrawn.
	Resolved bool `json:"resolved,omitempty"`
}

func askKey(session messages.SessionID, question messages.QuestionID) string {
	return string(session) + "." + string(question)
}

// OpenQuestions lists the questions of all sessions that wait for an answer.
func OpenQuestions(ctx context.Context, nc *nats.Conn) ([]Asked, error) {
	f, err := join(ctx, nc)
	if err != nil {
		return nil, err
	}
	open, err := valuesOf(ctx, f.ask, askedOf)
	if err != nil {
		return nil, failed("list questions", err)
	}
	return open, nil
}

func askedOf(entry jetstream.KeyValueEntry) (asked Asked, err error) {
	asked.Resolved = entry.Operation() != jetstream.KeyValuePut
	if !asked.Resolved {
		err = json.Unmarshal(entry.Value(), &asked)
	}
	session, question, _ := strings.Cut(entry.Key(), ".")
	asked.Session, asked.Question.ID = messages.SessionID(session), messages.QuestionID(question)
	return asked, err
}

// Questions gives the open questions of all sessions, then those that come, and which of them were resolved. Every console gets every
// question, so that none waits for a console that has gone. Any may answer, with [Session.Decide]; the first answer counts, and later
// ones get an error that says so. It ends when ctx does.
func Questions(ctx context.Context, nc *nats.Conn) iter.Seq2[Asked, error] {
	return func(yield func(Asked, error) bool) {
		f, err := join(ctx, nc)
		if err != nil {
			yield(Asked{}, err)
			return
		}
		watcher, err := f.ask.WatchAll(ctx)
		if err != nil {
			yield(Asked{}, failed("watch questions", err))
			return
		}
		defer func() { _ = watcher.Stop() }()
		for {
			select {
			case <-ctx.Done():
				yield(Asked{}, &messages.Error{Code: messages.ErrCancelled, Op: "watch questions", Detail: context.Cause(ctx).Error(), Like: messages.LikeOf(ctx.Err())})
				return
			case entry, open := <-watcher.Updates():
				if !open {
					yield(Asked{}, failed("watch questions", fmt.Errorf("the watch has ended")))
					return
				}
				if entry == nil { // those that were open are known now
					continue
				}
				if asked, err := askedOf(entry); err == nil && !yield(asked, nil) {
					return
				}
			}
		}
	}
}
