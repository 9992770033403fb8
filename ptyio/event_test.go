package ptyio

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/execbus/execbus/messages"
)

// TestOutputOfAHostsOwnSpawnerIsReleasedOnce, by whoever is first, and needs nobody.
func TestOutputOfAHostsOwnSpawnerIsReleasedOnce(t *testing.T) {
	var released atomic.Int32
	o := NewOutput(messages.Stderr, []byte("x"), func() { released.Add(1) })
	o.Looked()
	if released.Load() != 0 {
		t.Error("looked at is not released")
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(o.Release)
		all.Go(o.Discard)
	}
	all.Wait()
	if n := released.Load(); n != 1 || o.At != nil || o.Stream != messages.Stderr || string(o.Bytes) != "x" {
		t.Errorf("released %d times: %+v", n, o)
	}
	for _, o := range []Output{{}, NewOutput(messages.PTY, nil, nil), NewOutputAt(messages.PTY, nil, Position{Offset: 3, Seq: 2}, nil)} {
		o.Looked()
		o.Release()
		o.Discard()
	}
	at := NewOutputAt(messages.PTY, nil, Position{Offset: 3, Seq: 2}, func() { released.Add(1) })
	at.Discard()
	if *at.At != (Position{Offset: 3, Seq: 2}) || released.Load() != 2 {
		t.Errorf("%+v, released %d times", at.At, released.Load())
	}
}
