package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// dialer makes a connection to the server.
type dialer func(context.Context) (wire.Conn, error)

// times are the bounds on waits; tests shorten them.
type times struct {
	dial, handshake time.Duration // one attempt to connect, and its handshake
	recover         time.Duration // all attempts to resume a session
	pause, longer   time.Duration // before the second attempt, and the most before later ones
	send            time.Duration // one message, until the connection has taken it
	idle, pong      time.Duration // between pings, and until the server answers one
}

func usualTimes() times {
	return times{dial: wire.DialTimeout, handshake: wire.HandshakeTimeout, recover: wire.RecoveryWindow, pause: wire.RecoveryPause,
		longer: 2 * time.Second, send: 30 * time.Second, idle: 15 * time.Second, pong: 10 * time.Second}
}

// link is a session with a server. It outlives its connections. After one has broken, the session is resumed on the next, and
// unanswered calls are sent again where that does no harm.
type link struct {
	dial dialer
	name string
	// wanted are the extensions that the client uses. A server of execbus has them all.
	wanted []wire.Extension
	times  times
	// notified takes a notification; its error says that the peer breaks the protocol. resumed is called after a connection was
	// replaced, and lost when there will be no other. None of them may block.
	notified func(method string, params []byte) error
	resumed  func()
	lost     func(error)

	life context.Context // over when the session is lost or closed, or the server has broken the protocol; its cause says why
	end  context.CancelCauseFunc
	done chan struct{} // closed when no goroutine of the link is left
	wake chan struct{} // holds a token when there is something to send

	came atomic.Uint64 // messages from the server, on all connections

	session string // the server's id of it; set before the link is shared
	server  wire.InitializeResult

	// mu guards the table of calls, for instants. The callers, the reader and the writer need it at the same time, and a caller that
	// sent a message to an owner of the table would have to wait for two answers instead of one.
	mu        sync.Mutex
	calls     map[wire.ID]*call       // not answered, in all states
	acks      map[string]uint64       // by process: the last event to acknowledge; acknowledgements go out first
	queue     []*call                 // not sent on this connection, in the order in which they go out
	notices   [][]byte                // answers to the server's own requests
	abandoned map[wire.ID]bool        // calls that were given up, of which this connection still owes the answer
	last      int64                   // number of the newest call
	closed    bool                    // further calls are refused
	cut       context.CancelCauseFunc // ends the connection
}

// open connects and begins a session.
func (l *link) open(ctx context.Context) error {
	l.life, l.end = context.WithCancelCause(context.Background())
	l.done, l.wake = make(chan struct{}), make(chan struct{}, 1)
	l.calls, l.abandoned, l.acks = map[wire.ID]*call{}, map[wire.ID]bool{}, map[string]uint64{}
	conn, err := l.connect(ctx)
	if err != nil {
		l.end(err)
		return err
	}
	go l.run(conn)
	return nil
}

// run serves one connection after the other, until the session is over.
func (l *link) run(conn wire.Conn) {
	defer close(l.done)
	for {
		err := l.serve(conn)
		if ended := context.Cause(l.life); ended != nil {
			err = ended
		} else if !permanent(err) {
			conn, err = l.reconnect(err)
		}
		if err != nil {
			l.fail(err)
			return
		}
		l.resume()
	}
}

// serve moves the messages of one connection until it breaks, and returns the reason.
func (l *link) serve(conn wire.Conn) error {
	ctx, stop := context.WithCancelCause(l.life)
	l.mu.Lock()
	l.cut = stop
	l.mu.Unlock()
	var others sync.WaitGroup
	others.Go(func() { stop(l.write(ctx, conn)) })
	others.Go(func() { stop(l.watch(ctx, conn)) })
	stop(l.read(ctx, conn))
	_ = conn.Close()
	others.Wait()
	return context.Cause(ctx) // the error of the goroutine that failed first
}

// read takes messages.
func (l *link) read(ctx context.Context, conn wire.Conn) error {
	for {
		text, err := conn.Read(ctx)
		if err != nil {
			return broken(err)
		}
		l.came.Add(1)
		if err := l.take(text); err != nil {
			return err
		}
	}
}

// write sends the queued messages.
func (l *link) write(ctx context.Context, conn wire.Conn) error {
	for {
		text := l.pop()
		if text == nil {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := l.send(ctx, conn, text); err != nil {
			return err
		}
	}
}

// watch pings the server now and then, because a connection may break without an error.
func (l *link) watch(ctx context.Context, conn wire.Conn) error {
	ticker := time.NewTicker(l.times.idle)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := l.ping(ctx, conn); err != nil {
			return err
		}
	}
}

// ping lets any message count as an answer: over a slow connection the answer waits behind all output that is on its way.
func (l *link) ping(ctx context.Context, conn wire.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, l.times.pong)
	defer cancel()
	before := l.came.Load()
	if err := conn.Ping(ctx); err != nil && l.came.Load() == before {
		return broken(fmt.Errorf("it did not answer a ping: %w", err))
	}
	return nil
}

// send sends one message. A connection that does not take it in time is broken.
func (l *link) send(ctx context.Context, conn wire.Conn, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, l.times.send)
	defer cancel()
	if err := conn.Write(ctx, text); err != nil {
		return broken(err)
	}
	return nil
}

// reconnect resumes the session on a new connection, or returns the error by which it is lost.
func (l *link) reconnect(why error) (wire.Conn, error) {
	ctx, cancel := context.WithTimeout(l.life, l.times.recover)
	defer cancel()
	for pause := l.times.pause; ; pause = min(2*pause, l.times.longer) {
		conn, err := l.connect(ctx)
		switch {
		case err == nil:
			return conn, nil
		case l.life.Err() != nil:
			return nil, context.Cause(l.life)
		case permanent(err):
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if l.life.Err() != nil {
				return nil, context.Cause(l.life)
			}
			return nil, fmt.Errorf("%w; the last attempt to resume the session: %w", why, err)
		}
	}
}

// fail ends the session: each call fails, and so will later ones.
func (l *link) fail(err error) {
	lost := disconnected(err)
	l.end(lost)
	l.mu.Lock()
	pending := l.calls
	l.closed, l.calls, l.queue, l.notices, l.acks = true, nil, nil, nil, nil
	l.mu.Unlock()
	for _, c := range pending {
		c.done(nil, lost)
	}
	l.lost(lost)
}

// close ends the session from this side and waits until nothing of it is left.
func (l *link) close() {
	l.end(errClosed)
	<-l.done
}

// connect makes a connection, and begins or resumes the session on it. Each step has its own time limit.
func (l *link) connect(ctx context.Context) (wire.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, l.times.dial)
	defer cancel()
	conn, err := l.dial(dialing)
	if err != nil {
		return nil, broken(err)
	}
	limited, cancel := context.WithTimeout(ctx, l.times.handshake)
	defer cancel()
	if err := l.handshake(limited, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// handshake initializes a connection. Notifications of a resumed session may come before the answer.
func (l *link) handshake(ctx context.Context, conn wire.Conn) error {
	params := wire.InitializeParams{ClientName: l.name, Extensions: l.wanted}
	if l.session != "" {
		params.ResumeSessionID = &l.session
	}
	id := wire.NumberID(0)
	hello, err := wire.AppendRequest(nil, id, wire.Initialize, params)
	if err != nil {
		return failed("connect", err.Error())
	}
	if err := conn.Write(ctx, hello); err != nil {
		return broken(err)
	}
	for {
		text, err := conn.Read(ctx)
		if err != nil {
			return broken(err)
		}
		m, err := wire.Parse(text)
		if err != nil {
			return violation("a message of it is malformed: %s", err)
		}
		switch {
		case m.Kind == wire.Notification:
			if err := l.notified(m.Method, m.Params); err != nil {
				return err
			}
		case m.Kind == wire.Failure && m.ID == id:
			return refusedSession(m.Fault)
		case m.Kind == wire.Response && m.ID == id:
			return l.initialized(ctx, conn, m.Result)
		default:
			return violation("it did not begin with an answer to initialize")
		}
	}
}

// initialized takes the answer to initialize, and confirms it.
func (l *link) initialized(ctx context.Context, conn wire.Conn, result []byte) error {
	var server wire.InitializeResult
	if err := json.Unmarshal(result, &server); err != nil {
		return violation("its answer to initialize is malformed: %s", err)
	}
	switch {
	case server.SessionID == "" || len(server.SessionID) > maxName:
		return violation("its answer to initialize has no session id of at most %d bytes", maxName)
	case l.session != "" && server.SessionID != l.session:
		return violation("it resumed session %.40q instead of %q", server.SessionID, l.session)
	case slices.Contains(server.Extensions, wire.ExtensionFlow) != slices.Contains(server.Extensions, wire.ExtensionEnds):
		return violation("it has only one of the extensions %q and %q", wire.ExtensionFlow, wire.ExtensionEnds)
	case l.session == "":
		l.session, l.server = server.SessionID, server
	}
	confirm, _ := wire.AppendNotification(nil, wire.Initialized, nil)
	if err := conn.Write(ctx, confirm); err != nil {
		return broken(err)
	}
	return nil
}

// maxName bounds the names that the server gives.
const maxName = 256

// refusedSession returns the error of an initialize that failed. A session that is still attached to another connection can be resumed
// once the server has noticed that the other connection is gone.
func refusedSession(fault *wire.Fault) error {
	if fault.Code == wire.SessionAttached {
		return broken(errors.New(clipped(fault.Message)))
	}
	return final{errors.New("it refused the session: " + clipped(fault.Message))}
}

// has reports whether the server has an extension.
func (l *link) has(e wire.Extension) bool { return slices.Contains(l.server.Extensions, e) }

// flow reports whether the server reports all events of a child, in order, and repeats those that a cut has lost.
func (l *link) flow() bool { return l.has(wire.ExtensionFlow) }

// take handles one message of the server.
func (l *link) take(text []byte) error {
	m, err := wire.Parse(text)
	if err != nil {
		return violation("a message of it is malformed: %s", err)
	}
	switch m.Kind {
	case wire.Notification:
		return l.notified(m.Method, m.Params)
	case wire.Request:
		answer := wire.AppendFailure(nil, m.ID, wire.Refuse(wire.UnknownMethod, "the client does not answer %.80s", m.Method))
		if !l.notify(answer) {
			return violation("it sends requests without reading the answers")
		}
		return nil
	}
	c, err := l.answered(m.ID)
	switch {
	case err != nil || c == nil:
		return err
	case m.Kind == wire.Failure:
		c.done(nil, m.Fault)
	default:
		c.done(m.Result, nil)
	}
	return nil
}

// Bounds on calls. There is room for more calls that clean up, so that they succeed however many other calls wait.
const (
	maxCalls    = 1024
	maxCleaning = 1024
	maxGiven    = 1024            // calls that were given up and may still be answered; a server that owes more counts as gone
	maxNotices  = 256             // messages without an answer that wait
	maxAcks     = 2 * maxChildren // processes with an acknowledgement that waits: more are dropped
)

// call is one request.
type call struct {
	number int64
	id     wire.ID
	text   []byte // the whole message
	// again says that the call may be sent again after a cut: the server recognises it, or the repetition has no effect.
	again    bool
	cleaning bool
	sent     bool // on this connection
	resent   bool // it may have been sent on an earlier connection
	// done takes the result, once, in a goroutine of the link. It must not block.
	done func(result []byte, err error)
}

// start queues a call and does not wait for it. done gets its outcome, unless start fails.
func (l *link) start(c *call, method string, params any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.life.Err() != nil {
		return disconnected(context.Cause(l.life))
	}
	if len(l.calls) >= maxCalls+maxCleaning || !c.cleaning && len(l.calls) >= maxCalls {
		return errCrowded
	}
	l.last++
	c.number, c.id = l.last, wire.NumberID(l.last)
	var err error
	if c.text, err = wire.AppendRequest(nil, c.id, method, params); err != nil {
		return failed(method, err.Error())
	}
	l.calls[c.id] = c
	l.queue = append(l.queue, c)
	l.poke()
	return nil
}

// ask makes a call and waits until its done has taken the result. If ctx ends first, the call is withdrawn; the server may still have
// received it.
func (l *link) ask(ctx context.Context, c *call, method string, params any) ([]byte, error) {
	came := make(chan outcome, 1)
	take := c.done
	c.done = func(result []byte, err error) {
		if take != nil {
			take(result, err)
		}
		came <- outcome{result, err}
	}
	if err := ctx.Err(); err != nil {
		return nil, cancelled(method, err)
	}
	if err := l.start(c, method, params); err != nil {
		return nil, err
	}
	select {
	case o := <-came:
		return o.result, o.err
	case <-ctx.Done():
		if l.giveUp(c) {
			return nil, cancelled(method, ctx.Err())
		}
		o := <-came // the answer has arrived
		return o.result, o.err
	}
}

// mayHaveArrived reports whether a call that was withdrawn may have reached the server.
func (l *link) mayHaveArrived(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.sent || c.resent
}

// withdraw withdraws a call that has certainly not arrived.
func (l *link) withdraw(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c || c.sent || c.resent {
		return false
	}
	l.remove(c)
	return true
}

// remove forgets a call. The lock is held.
func (l *link) remove(c *call) {
	delete(l.calls, c.id)
	l.queue = slices.DeleteFunc(l.queue, func(other *call) bool { return other == c })
}

// giveUp withdraws a call. It returns false if the result has already arrived; done has received it or will.
func (l *link) giveUp(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c {
		return false
	}
	l.remove(c)
	if c.sent {
		l.abandoned[c.id] = true
		if len(l.abandoned) > maxGiven {
			l.cut(broken(errors.New("it owes too many answers")))
		}
	}
	return true
}

// acknowledge tells the server that it need not keep the events of a process up to seq. Only the last acknowledgement counts.
func (l *link) acknowledge(process string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.acks[process]; !l.closed && l.has(wire.ExtensionFlow) && (waits || len(l.acks) < maxAcks) {
		l.acks[process] = seq
		l.poke()
	}
}

// notify queues an answer to a request of the server. The answer belongs to this connection only. notify reports whether there was
// room.
func (l *link) notify(text []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.notices) >= maxNotices {
		return false
	}
	l.notices = append(l.notices, text)
	l.poke()
	return true
}

// poke wakes the writer.
func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pop returns the next message to send; nil if there is none.
func (l *link) pop() (text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for process, seq := range l.acks {
		delete(l.acks, process)
		text, _ = wire.AppendNotification(nil, wire.ProcessAcknowledge, wire.SeqParams{ProcessID: process, Seq: seq})
		return text
	}
	switch {
	case len(l.notices) > 0:
		text, l.notices = l.notices[0], l.notices[1:]
	case len(l.queue) > 0:
		c := l.queue[0]
		l.queue = l.queue[1:]
		c.sent = true
		text = c.text
	}
	return text
}

// resume puts the calls that have no answer yet on a new connection, in their order. A call that might do something twice fails
// if the old connection may have carried it.
func (l *link) resume() {
	l.mu.Lock()
	l.queue, l.notices = nil, nil
	clear(l.abandoned)
	var uncertain []*call
	for id, c := range l.calls {
		if c.sent && !c.again {
			uncertain = append(uncertain, c)
			delete(l.calls, id)
			continue
		}
		c.resent, c.sent = c.resent || c.sent, false
		l.queue = append(l.queue, c)
	}
	slices.SortFunc(l.queue, func(a, b *call) int { return cmp.Compare(a.number, b.number) })
	l.mu.Unlock()
	for _, c := range uncertain {
		c.done(nil, errUncertain)
	}
	l.resumed()
	l.poke()
}

// answered removes and returns the call to which a response belongs; nil if the call was given up.
func (l *link) answered(id wire.ID) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[id]; c != nil && c.sent {
		delete(l.calls, id)
		return c, nil
	}
	if l.abandoned[id] {
		delete(l.abandoned, id)
		return nil, nil
	}
	return nil, violation("it answered request %.40s, which it was not asked", id)
}
