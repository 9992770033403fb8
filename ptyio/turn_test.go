package ptyio

import (
	"os"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestATurnIsTakenAndGivenBack(t *testing.T) {
	s := &stream{credits: make(chan struct{}, 2)}
	var given *turn
	for range cap(turns) {
		if given = takeTurn(nil); given == nil {
			t.Fatal("no turn although one was free")
		}
	}
	if began := time.Now(); takeTurn(nil) != nil || time.Since(began) < maxTurn {
		t.Fatal("a turn although all were taken, or no wait for one")
	}
	first := Output{owner: &batch{stream: s, buffer: new([MaxBatch]byte), turn: given}}
	first.Looked()
	if given = takeTurn(nil); given == nil {
		t.Error("a batch that was looked at kept its turn")
	}
	second := Output{owner: &batch{stream: s, buffer: new([MaxBatch]byte), turn: given}}
	first.Release()
	if len(turns) != cap(turns) {
		t.Error("a turn was given back twice")
	}
	second.Looked()
	second.Release()
	if len(turns) != cap(turns)-1 {
		t.Errorf("%d of %d turns are taken after one was given back", len(turns), cap(turns))
	}
	for len(turns) > 0 {
		<-turns
	}
}

func TestAnAbandonedChildWaitsForNoTurn(t *testing.T) {
	for range cap(turns) {
		turns <- struct{}{}
	}
	defer func() {
		for range cap(turns) {
			<-turns
		}
	}()
	abandoned := make(chan struct{})
	close(abandoned)
	if takeTurn(abandoned) != nil {
		t.Error("a turn although all were taken")
	}
}

// flooding is a stream that hands out batches with turns and gets none of them back. Bytes written to write go through it.
// It ends with abandon or when write is closed.
func flooding(t *testing.T) (write *os.File, batches <-chan Output, abandon func(), closed <-chan struct{}) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outputs, end := make(chan Output, Credits), make(chan struct{})
	c := &child{exited: make(chan struct{}), ended: make(chan struct{}), abandoned: make(chan struct{}),
		launch: Launch{Events: func(e Event) {
			switch e := e.(type) {
			case Output:
				outputs <- e
			case Closed:
				close(end)
			}
		}}}
	s := newStream(c, messages.StreamStdout, read, Credits)
	s.pace = pace{began: time.Now().Add(time.Hour), bytes: floodBytes}
	c.streams = []*stream{s}
	c.undrained.Store(2)
	c.opened.Store(1)
	go s.run()
	return write, outputs, func() { close(c.abandoned); c.wake() }, end
}

func TestTurnsComeBackFromStreamsWhoseBatchesDoNot(t *testing.T) {
	for _, abandoned := range []bool{true, false} {
		write, batches, abandon, closed := flooding(t)
		for range Credits - 1 {
			_, _ = write.WriteString("x")
			batch := <-batches
			defer func() { // too late, and a second time
				batch.Looked()
				batch.Release()
			}()
		}
		if len(turns) != min(cap(turns), Credits-1) {
			t.Errorf("%d turns are taken", len(turns))
		}
		if abandoned {
			abandon()
			defer write.Close()
		} else {
			_ = write.Close()
		}
		<-closed
		if len(turns) != 0 {
			t.Errorf("abandoned %v: %d turns are still taken", abandoned, len(turns))
		}
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
