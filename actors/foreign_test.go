package actors

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// foreign is a host's own spawner, which starts nothing.
type foreign struct {
	spawn func(ptyio.Launch) ptyio.Child
	quiet bool // it leaves it to others to say that the child is born
}

func (f foreign) Spawn(_ context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	child := f.spawn(launch)
	if !f.quiet {
		launch.Events(ptyio.Spawned{Child: child})
	}
	return child, nil
}
func (foreign) Resolver() ptyio.Resolver { return ptyio.Local() }

func (foreign) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	return ptyio.Enclosed(c), nil
}

func (foreign) Can(ptyio.Launch) (messages.Enforcement, error) {
	return messages.Enforcement{Level: messages.AssuranceIsolated}, nil
}

func (foreign) Close() error { return nil }

// puppet is a foreign child whose behaviour at its end is set by the test.
type puppet struct{ end func() }

func (puppet) PID() int { return 4711 }
func (puppet) Write(p []byte, _ time.Time, done func(ptyio.Taken, error)) func() int {
	done(ptyio.Taken{Bytes: len(p)}, nil)
	return nil
}
func (puppet) CloseStdin(done func(error))              { done(nil) }
func (puppet) Resize(messages.Size) error               { return nil }
func (puppet) Signal(syscall.Signal, ptyio.Scope) error { return nil }
func (p puppet) EndTree(time.Duration)                  { p.end() }
func (p puppet) Abandon()                               { p.end() }

// oddities are ways in which a spawner may report the life of a child that has said "said".
var oddities = map[string][]ptyio.Event{
	"in order":             {said, exit3, ptyio.Drained{}, ptyio.Closed{}, treeEnded},
	"exited twice":         {said, exit3, ptyio.Exited{Status: messages.StatusExited(9)}, ptyio.Drained{}, ptyio.Closed{}, exit3, treeEnded, exit3},
	"the tree first":       {said, treeEnded, ptyio.Closed{}, exit3},
	"closed first":         {said, ptyio.Closed{}, late, ptyio.Closed{}, treeEnded, exit3, late},
	"never drained":        {said, exit3, ptyio.Closed{}, treeEnded},
	"drained first":        {said, ptyio.Drained{}, ptyio.Drained{}, exit3, treeEnded, ptyio.Closed{}},
	"output after the end": {said, exit3, ptyio.Drained{}, ptyio.Closed{}, late, treeEnded, late, treeEnded},
	"everything twice":     {said, exit3, exit3, ptyio.Drained{}, ptyio.Drained{}, ptyio.Background{Count: 1}, ptyio.Background{}, ptyio.Closed{}, ptyio.Closed{}, treeEnded, treeEnded},
}

var (
	said      = ptyio.NewOutput(messages.StreamStdout, []byte("said"), func() { panic("deliberate") })
	late      = ptyio.NewOutput(messages.StreamStdout, []byte("late"), func() { panic("deliberate") })
	exit3     = ptyio.Exited{Status: messages.StatusExited(3)}
	treeEnded = ptyio.TreeEnded{TreeReport: messages.TreeReport{Ended: 1}}
)

func TestAForeignSpawnersReportsLeadToOneEnd(t *testing.T) {
	for name, events := range oddities {
		for i, sandboxed := range []messages.SandboxType{messages.SandboxDangerFullAccess, messages.SandboxReadOnly} { // whose exits are looked at first
			t.Run(name+" "+string(sandboxed), func(t *testing.T) {
				spawner := foreign{quiet: i == 0, spawn: func(launch ptyio.Launch) ptyio.Child {
					for _, event := range events { // all of it before its birth
						launch.Events(event)
					}
					return puppet{end: func() {}}
				}}
				h := newHost(t, hostOptions{seam: seam{Spawner: spawner}})
				s := h.open(func(c *shared.SessionConfig) { c.Sandbox.Type = sandboxed })
				got := s.exec(messages.ExecCommand{Argv: []string{"true"}, Yield: new(messages.MaxYield)})
				wantCode(t, got, 3)
				if string(got.Output) != "said" {
					t.Errorf("%q", got.Output)
				}
				if end := s.ended(got.Process); end.Cause != messages.CauseExited || end.Status != messages.StatusExited(3) ||
					string(end.Transcript) != "said" || end.Total != 4 {
					t.Errorf("%v, %q", &end.EndRecord, end.Transcript)
				}
				h.shutdown()
				if ends := s.endsOf(got.Process); len(ends) != 1 {
					t.Errorf("%d ends", len(ends))
				}
			})
		}
	}
}

// A spawner may report a flood before the birth. What is kept of it is bounded, and the end is not lost.
func TestAFloodBeforeTheBirthLosesNoEnd(t *testing.T) {
	const more = 10
	for name, last := range map[string][]ptyio.Event{
		"then the end": {exit3, ptyio.Drained{}, exit3, ptyio.Closed{}, late, treeEnded},
		"then nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			released := make(chan struct{}, mostEarly+more)
			end := make(chan func(), 1)
			spawner := foreign{spawn: func(launch ptyio.Launch) ptyio.Child {
				for i := range mostEarly + more {
					batch := []byte("x")
					if i == mostEarly-1 {
						batch = []byte("\xc3") // the rest of its character is lost
					}
					launch.Events(ptyio.NewOutput(messages.StreamStdout, batch, func() { released <- struct{}{} }))
				}
				for _, event := range last {
					launch.Events(event)
				}
				end <- func() {
					for _, event := range []ptyio.Event{exit3, ptyio.Closed{}, treeEnded} {
						launch.Events(event)
					}
				}
				return puppet{end: func() {}}
			}}
			h := newHost(t, hostOptions{seam: seam{Spawner: spawner}})
			s := h.open(nil)
			call := s.call(messages.ExecCommand{Argv: []string{"true"}, Yield: new(messages.MaxYield)})
			if finish := <-end; last == nil {
				finish()
			}
			got := call.result()
			wantCode(t, got, 3)
			if len(got.Output) != mostEarly || got.Omitted != more || got.Head != mostEarly {
				t.Errorf("%d bytes, head %d, %d omitted", len(got.Output), got.Head, got.Omitted)
			}
			if ended := s.ended(got.Process); ended.Total != mostEarly+more {
				t.Errorf("%+v", ended)
			}
			for range mostEarly + more {
				<-released
			}
		})
	}
}

// A flood that loses bytes on its way, and whose batches are released to code that blocks or panics.
func TestAForeignFloodThatLosesBytesIsCountedExactly(t *testing.T) {
	const batches, size, lost = 2000, 1000, 24
	hang := make(chan struct{})
	defer close(hang)
	var released atomic.Int64
	spawner := foreign{spawn: func(launch ptyio.Launch) ptyio.Child {
		credits := make(chan struct{}, ptyio.Credits)
		go func() {
			for i := range batches {
				credits <- struct{}{}
				at := ptyio.Position{Offset: int64(i * (size + lost)), Seq: uint64(i * 2)}
				launch.Events(ptyio.NewOutputAt(messages.StreamStdout, bytes.Repeat([]byte("x"), size), at, func() {
					released.Add(1)
					<-credits
					if i%2 == 0 {
						panic("deliberate")
					}
					if i%500 == 1 {
						<-hang
					}
				}))
			}
			launch.Events(exit3)
			launch.Events(ptyio.Closed{})
			launch.Events(treeEnded)
		}()
		return puppet{end: func() {}}
	}}
	h := newHost(t, hostOptions{seam: seam{Spawner: spawner}})
	s := h.open(nil)
	got := s.exec(messages.ExecCommand{Argv: []string{"sh"}, Yield: new(messages.MaxYield)})
	wantCode(t, got, 3)
	const total = batches*(size+lost) - lost
	if int64(len(got.Output))+got.Omitted != total {
		t.Errorf("%d bytes and %d omitted are not %d", len(got.Output), got.Omitted, total)
	}
	end := s.ended(got.Process)
	if end.Total != total {
		t.Errorf("the total is %d, not %d", end.Total, total)
	}
	next := int64(0)
	for _, event := range s.events.Seen() {
		switch e := event.(type) {
		case messages.OutputDelta:
			if e.Offset != next {
				t.Fatalf("a delta at %d, after %d", e.Offset, next)
			}
			next += int64(len(e.Bytes))
		case messages.Gap:
			if e.First != next || e.End-e.First != lost {
				t.Fatalf("a gap from %d to %d, after %d", e.First, e.End, next)
			}
			next = e.End
		}
	}
	if next != total {
		t.Errorf("the events end at %d, not %d", next, total)
	}
	zero := int64(0)
	page := must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: got.Process, Offset: &zero, SkipLost: true, Max: 10 * size})
	if len(page.Chunks) == 0 || page.Chunks[0].Offset != page.Missed {
		t.Errorf("%+v", page)
	}
	awaitThat(t, "every batch came back", func() bool { return released.Load() == batches })
	if ends := s.endsOf(got.Process); len(ends) != 1 {
		t.Errorf("%d ends", len(ends))
	}
}

// useless is a foreign child of which every call blocks until the test is over, or panics.
type useless struct{ call func() }

func (u useless) PID() int { return 4711 }
func (u useless) Write([]byte, time.Time, func(ptyio.Taken, error)) func() int {
	u.call()
	return nil
}
func (u useless) CloseStdin(func(error))                   { u.call() }
func (u useless) Resize(messages.Size) error               { u.call(); return nil }
func (u useless) Signal(syscall.Signal, ptyio.Scope) error { u.call(); return nil }
func (u useless) EndTree(time.Duration)                    { u.call() }
func (u useless) Abandon()                                 { u.call() }

// brief is the patience of tests with foreign code that does not return.
var brief = shared.Patience{Spawn: 40 * time.Millisecond, Child: 40 * time.Millisecond, End: 40 * time.Millisecond}

func TestAForeignChildWhoseCallsAllFailStillEnds(t *testing.T) {
	for _, name := range []string{"blocks", "panics"} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			defer close(over)
			var inside atomic.Int64
			spawner := foreign{spawn: func(ptyio.Launch) ptyio.Child {
				return useless{func() {
					if name == "panics" {
						panic("deliberate")
					}
					inside.Add(1)
					<-over
				}}
			}}
			h := newHost(t, hostOptions{seam: seam{Spawner: spawner}, patience: brief})
			s := h.open(nil)
			id := s.exec(protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"sh"}, TTY: true, Grace: new(brief.Child)}}).Process
			first := s.call(messages.Signal{Process: id, Signal: 15})
			cancelled := s.call(messages.WriteStdin{Process: id, Bytes: []byte("x"), UntilTaken: true})
			cancelled.cancel()
			_, err := cancelled.reply()
			if err == nil {
				t.Error("a write that was cancelled, or failed, succeeded")
			}
			_, err = first.reply()
			wantError(t, "the call that does not return", err, messages.ErrRuntimeFailure)
			for _, request := range []any{messages.WriteStdin{Process: id, Bytes: []byte("x"), UntilTaken: true}, messages.WriteStdin{Process: id, Bytes: []byte("\x03")},
				messages.CloseStdin{Process: id}, messages.Resize{Process: id}, messages.Signal{Process: id, Signal: 15},
				messages.Signal{Process: id, Signal: 15, Tree: true}} {
				_, err := ask[any](h, s.supervisor, request)
				wantError(t, "a request", err, messages.ErrRuntimeFailure)
			}
			if name == "blocks" && inside.Load() != 1 {
				t.Errorf("%d goroutines are in the child", inside.Load())
			}
			record, err := s.terminate(id)
			if err != nil || record.Cause != messages.CauseRuntimeFailure && record.Cause != messages.CauseTerminated {
				t.Errorf("%v, %v", record, err)
			} else if left := record.Tree.Survivors; len(left) != 1 || left[0].PID != 4711 {
				t.Errorf("%+v", left)
			}
			if n := inside.Load(); name == "blocks" && n > 2 { // the lane's, and the one that abandons
				t.Errorf("%d goroutines are in the child", n)
			}
			s.exec(protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"sh"}, Grace: new(brief.Child)}}) // left to the shutdown
			h.shutdown()
			for _, started := range probe.Of[messages.ExecStarted](s.events, nil) {
				awaitThat(t, "its end has reached the subscriber", func() bool { return len(s.endsOf(started.Process)) > 0 })
				if ends := s.endsOf(started.Process); len(ends) != 1 {
					t.Errorf("%d ends of %d", len(ends), started.Process)
				}
			}
		})
	}
}

// slow is a foreign child whose first write takes until the test lets it go on.
type slow struct {
	puppet
	hold  chan struct{}
	wrote chan string
}

func (c slow) Write(p []byte, _ time.Time, done func(ptyio.Taken, error)) func() int {
	<-c.hold
	c.wrote <- string(p)
	done(ptyio.Taken{Bytes: len(p)}, nil)
	return func() int { panic("deliberate") } // nobody asks a child that is not prompt
}

func TestBytesForAForeignChildDoNotOvertakeEachOther(t *testing.T) {
	const writes = 50
	child := slow{hold: make(chan struct{}), wrote: make(chan string, writes)}
	ended := make(chan struct{})
	spawner := foreign{spawn: func(launch ptyio.Launch) ptyio.Child {
		child.end = sync.OnceFunc(func() {
			go func() {
				defer close(ended)
				for _, event := range []ptyio.Event{exit3, ptyio.Closed{}, treeEnded} {
					launch.Events(event)
				}
			}()
		})
		return child
	}}
	h := newHost(t, hostOptions{seam: seam{Spawner: spawner}})
	s := h.open(nil)
	id := s.exec(protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"sh"}, OpenStdin: true}}).Process
	waits := s.call(messages.WriteStdin{Process: id, Bytes: []byte("0"), Yield: new(messages.MinYield)})
	if got := waits.result(); !got.Running || got.Taken != 0 || got.Pending != 1 {
		t.Errorf("at its yield: %+v", got)
	}
	var calls []waiting
	for i := 1; i < writes; i++ {
		calls = append(calls, s.call(messages.WriteStdin{Process: id, Bytes: []byte(fmt.Sprint(i)), UntilTaken: true}))
	}
	close(child.hold)
	for i := range writes {
		if got := <-child.wrote; got != fmt.Sprint(i) {
			t.Fatalf("write %d brought %q", i, got)
		}
	}
	for _, call := range calls {
		if got := call.result(); got.InputErr != nil || got.Taken == 0 {
			t.Errorf("%+v", got)
		}
	}
	if _, err := s.terminate(id); err != nil {
		t.Error(err)
	}
	<-ended
}
