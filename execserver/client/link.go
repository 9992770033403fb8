package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// dialer makes a connection to the server.
type dialer func(context.Context) (wire.Conn, error)

// times are the bounds on waits; tests shorten them.
type times struct {
	dial, greet   time.Duration // one attempt to connect, and its handshake
	recover       time.Duration // all attempts to resume a session
	pause, longer time.Duration // before the second attempt, and the most before later ones
	send          time.Duration // one message, until the connection has taken it
	idle, pong    time.Duration // between pings, and until the server answers one
}

func usualTimes() times {
	return times{dial: wire.DialTimeout, greet: wire.HandshakeTimeout, recover: wire.RecoveryWindow, pause: wire.RecoveryPause,
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

	life context.Context // over when the session is lost or closed; its cause says why
	end  context.CancelCauseFunc
	done chan struct{} // closed when no goroutine of the link is left
	wake chan struct{} // holds a token when there is something to send

	came atomic.Uint64 // messages from the server, on all connections

	session string // the server's id of it; set before the link is shared
	server  wire.InitializeResult

	// mu guards the table of calls, for instants. The callers, the reader and the writer need it at the same time, and a caller that
	// sent a message to an owner of the table would have to wait for two answers instead of one.
	mu      sync.Mutex
	calls   map[wire.ID]*call       // not answered, in all states
	acks    map[string]uint64       // by process: the last event to acknowledge; acknowledgements go out first
	queue   []*call                 // not sent on this connection, in the order in which they go out
	notices [][]byte                // answers to the server's own requests
	given   map[wire.ID]bool        // calls that were given up, of which this connection still owes the answer
	last    int64                   // number of the newest call
	closed  bool                    // further calls are refused
	cut     context.CancelCauseFunc // ends the connection
}

// open connects and begins a session.
func (l *link) open(ctx context.Context) error {
	l.life, l.end = context.WithCancelCause(context.Background())
	l.done, l.wake = make(chan struct{}), make(chan struct{}, 1)
	l.calls, l.given, l.acks = map[wire.ID]*call{}, map[wire.ID]bool{}, map[string]uint64{}
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
		c.finish(nil, lost)
	}
	l.lost(lost)
}

// breach ends the session because the server has broken the protocol.
func (l *link) breach(err error) { l.end(err) }

// close ends the session from this side and waits until nothing of it is left.
func (l *link) close() {
	l.end(errClosed)
	<-l.done
}
