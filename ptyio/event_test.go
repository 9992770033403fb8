package ptyio

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// The first Release or Discard releases a batch of the host's own spawner, even if nothing else uses the batch.
func TestOutputOfAHostsOwnSpawnerIsReleasedOnce(t *testing.T) {
	var released atomic.Int32
	returned := func(n int32) {
		t.Helper()
		for late := time.Now().Add(10 * time.Second); released.Load() < n && time.Now().Before(late); {
			runtime.Gosched()
		}
	}
	o := NewOutput(messages.StreamStderr, []byte("x"), func() { released.Add(1) })
	var all sync.WaitGroup
	for range 10 {
		all.Go(o.Release)
		all.Go(o.Discard)
	}
	all.Wait()
	returned(1)
	if n := released.Load(); n != 1 || o.At != nil || o.Stream != messages.StreamStderr || string(o.Bytes) != "x" {
		t.Errorf("released %d times: %+v", n, o)
	}
	for _, o := range []Output{{}, NewOutput(messages.StreamPTY, nil, nil), NewOutputAt(messages.StreamPTY, nil, Position{Offset: 3, Seq: 2}, nil)} {
		o.Release()
		o.Discard()
	}
	at := NewOutputAt(messages.StreamPTY, nil, Position{Offset: 3, Seq: 2}, func() { released.Add(1) })
	at.Discard()
	returned(2)
	if *at.At != (Position{Offset: 3, Seq: 2}) || released.Load() != 2 {
		t.Errorf("%+v, released %d times", at.At, released.Load())
	}
}

func TestAHostsOwnReleaseHarmsNobody(t *testing.T) {
	hang, left := make(chan struct{}), make(chan struct{})
	NewOutput(messages.StreamStdout, nil, func() { <-hang }).Release() // it returns although the host's function hangs
	NewOutput(messages.StreamStdout, nil, func() { panic("deliberate") }).Release()
	NewOutput(messages.StreamStdout, nil, func() { defer close(left); runtime.Goexit() }).Discard()
	<-left
	close(hang)
}
