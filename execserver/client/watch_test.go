package client

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/ptyio"
)

// deaf is a connection whose other side does not answer pings while silent is set.
type deaf struct {
	wire.Conn
	silent *atomic.Bool
	pings  *atomic.Int64
}

func (d deaf) Ping(ctx context.Context) error {
	d.pings.Add(1)
	if d.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func TestAConnectionThatIsDeadWithoutASignIsReplaced(t *testing.T) {
	p := newPeer(t, all...)
	times, limits := quick()
	times.idle, times.pong = 5*time.Millisecond, 50*time.Millisecond
	var silent atomic.Bool
	var pings atomic.Int64
	s := p.connectOver(func(ctx context.Context) (wire.Conn, error) {
		conn, err := p.dial(ctx)
		return deaf{conn, &silent, &pings}, err
	}, times, limits)
	l := p.start(s, ptyio.Launch{})
	eventually(t, "pings are answered", func() bool { return pings.Load() > 3 })
	silent.Store(true)
	p.accept()
	silent.Store(false)
	p.welcome("session", true)
	p.finish(l, 1)
	if exited, _ := l.ended(t); exited.Lost != nil {
		t.Errorf("%+v", exited)
	}
}

// slow is a connection whose answers to pings come too late, behind other messages.
type slow struct {
	wire.Conn
	reads, pings *atomic.Int64
}

func (s slow) Read(ctx context.Context) ([]byte, error) {
	s.reads.Add(1) // the last message has been taken
	return s.Conn.Read(ctx)
}

func (s slow) Ping(ctx context.Context) error {
	for began := s.reads.Load(); s.reads.Load() < began+2; { // one may have been before the ping
		if ctx.Err() != nil {
			return ctx.Err()
		}
		runtime.Gosched()
	}
	s.pings.Add(1)
	return context.DeadlineExceeded
}

func TestASlowConnectionIsNotTakenForADeadOne(t *testing.T) {
	p := newPeer(t, all...)
	times, limits := quick()
	times.idle, times.pong = time.Millisecond, patience
	var reads, pings atomic.Int64
	s := p.connectOver(func(ctx context.Context) (wire.Conn, error) {
		conn, err := p.dial(ctx)
		return slow{conn, &reads, &pings}, err
	}, times, limits)
	l := p.start(s, ptyio.Launch{})
	seq := uint64(1)
	for ; pings.Load() < 5 && len(p.dialled) == 0; seq++ {
		p.chunk(l, seq, "x")
	}
	p.finish(l, seq)
	if exited, _ := l.ended(t); exited.Lost != nil || len(p.dialled) > 0 {
		t.Errorf("%+v, and %d connections more", exited, len(p.dialled))
	}
}

// stuck is a connection that accepts no message while full is set.
type stuck struct {
	wire.Conn
	full *atomic.Bool
}

func (s stuck) Write(ctx context.Context, message []byte) error {
	if s.full.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Conn.Write(ctx, message)
}

func TestAConnectionThatTakesNothingIsReplaced(t *testing.T) {
	p := newPeer(t, all...)
	times, limits := quick()
	times.send = 50 * time.Millisecond
	var full, never atomic.Bool
	first := &full
	s := p.connectOver(func(ctx context.Context) (wire.Conn, error) {
		conn, err := p.dial(ctx)
		mine := first
		first = &never // of the next
		return stuck{conn, mine}, err
	}, times, limits)
	l := p.start(s, ptyio.Launch{TTY: true})
	full.Store(true)
	written := l.write("x", time.Time{})
	p.resumed()
	p.answer(p.expect(wire.ProcessWrite), wire.WriteResult{Status: wire.WriteAccepted})
	if r := within(t, "the write", written); r.err != nil || r.taken != 1 {
		t.Errorf("%+v", r)
	}
}

// The usual bounds are those that the documentation promises. Other tests shorten them.
func TestTheUsualBounds(t *testing.T) {
	times, limits := usualTimes(), usualLimits()
	if times.dial != 10*time.Second || times.handshake != 10*time.Second || times.recover != 25*time.Second || times.pause != 100*time.Millisecond ||
		times.idle != 15*time.Second {
		t.Errorf("%+v", times)
	}
	if limits.end != 10*time.Second || limits.close != 10*time.Second {
		t.Errorf("%+v", limits)
	}
}
