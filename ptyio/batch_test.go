package ptyio

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/messages"
)

// piped reads a pipe as the output of a child, until the returned file is closed.
func piped(t *testing.T, r rate) (write *os.File, batches <-chan Output) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outputs, closed := make(chan Output, Credits), make(chan struct{})
	c := &child{exited: make(chan struct{}), ended: make(chan struct{}), abandoned: make(chan struct{}),
		launch: Launch{Events: func(e Event) {
			switch e := e.(type) {
			case Output:
				outputs <- e
			case Closed:
				close(closed)
			}
		}}}
	s := newStream(c, messages.StreamStdout, read, Credits)
	s.rate = r
	c.streams = []*stream{s}
	c.undrained.Store(2)
	c.opened.Store(1)
	go s.run()
	t.Cleanup(func() {
		_ = write.Close()
		<-closed
	})
	return write, outputs
}

func TestAFewFloodsAreReadAtATimeAndOtherOutputDoesNotWaitForThem(t *testing.T) {
	for range cap(gathering) {
		gathering <- struct{}{}
	}
	flood, batches := piped(t, rate{since: time.Now().Add(time.Hour), bytes: floodBytes})
	quiet, others := piped(t, rate{})
	_, _ = flood.WriteString("flood")
	for range 100 {
		_, _ = quiet.WriteString("x")
		(<-others).Release()
	}
	if len(batches) > 0 {
		t.Error("a flood is read although others are")
	}
	<-gathering
	if b := <-batches; string(b.Bytes) != "flood" {
		t.Errorf("%q", b.Bytes)
	}
	for range cap(gathering) - 1 {
		<-gathering
	}
}

func TestAFloodIsReadOnlyWhereFewAre(t *testing.T) {
	var pipe [2]int
	if err := pipe2(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	for name, read := range map[string]func() int{
		"fill":   func() int { n, _ := fill(pipe[0], make([]byte, 1), true); return n },
		"gather": func() int { return gather(pipe[0], make([]byte, 1)) },
	} {
		_, _ = syscall.Write(pipe[1], []byte("x"))
		synctest.Test(t, func(t *testing.T) {
			defer func(was chan struct{}) { gathering = was }(gathering)
			gathering = make(chan struct{}, 1)
			gathering <- struct{}{}
			got := -1
			go func() { got = read() }()
			synctest.Wait()
			if got != -1 {
				t.Errorf("%s read %d bytes although another flood is read", name, got)
			}
			<-gathering
			synctest.Wait()
			if got != 1 || len(gathering) != 0 {
				t.Errorf("%s read %d bytes, and %d floods count", name, got, len(gathering))
			}
		})
	}
}

func TestAFloodIsOverWhenNothingIsRead(t *testing.T) {
	var r rate
	r.count(floodBytes - 1)
	if r.floods() {
		t.Error("few bytes are a flood")
	}
	r.since = time.Now().Add(time.Hour) // however slow this machine is
	if r.count(1); !r.floods() {
		t.Error("many bytes are no flood")
	}
	if r.count(0); r.floods() {
		t.Error("nothing was read, and the child floods")
	}
	r = rate{since: time.Now().Add(-time.Hour), bytes: floodBytes}
	if r.count(1); r.floods() {
		t.Error("bytes of an hour ago count")
	}
}

func TestAStreamHoldsNoBufferOnceItsBatchIsHandedOut(t *testing.T) {
	for name, want := range map[string]int{"handed out": 1, "above the limit of output": 0} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			defer write.Close()
			batches := 0
			c := &child{dead: true, spawned: make(chan struct{}), launch: Launch{Events: func(e Event) {
				if o, is := e.(Output); is {
					batches++
					o.Release()
				}
			}}}
			close(c.spawned)
			if want == 0 {
				c.launch.Limits.OutputBytes = 1
				c.allowed(1)
			}
			s := newStream(c, messages.StreamStdout, read, 1)
			<-s.credits
			_, _ = write.WriteString("x")
			if s.try(read.Fd()); s.n != 1 || s.buffer == nil {
				t.Fatalf("%d bytes were read", s.n)
			}
			if s.deliver(); batches != want || s.buffer != nil || len(s.credits) != 1 {
				t.Errorf("%d batches, %d credits, a buffer %v", batches, len(s.credits), s.buffer != nil)
			}
		})
	}
}
