package actors

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// deaf is a command that takes no input.
func deaf(s *talk, tty bool) messages.ProcessID {
	command := quick("stty raw -echo 2>/dev/null; echo deaf; exec sleep 1000")
	command.OpenStdin, command.TTY = true, tty
	id := s.exec(command).Process
	s.said(id, "deaf")
	return id
}

func TestAWriteThatIsNotTakenKeepsItsYield(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		ids, writes, began := map[bool]messages.ProcessID{}, map[bool]waiting{}, time.Now()
		for _, tty := range []bool{false, true} {
			id := deaf(s, tty)
			much := s.call(messages.WriteStdin{Process: id, Bytes: make([]byte, ptyio.MaxPendingInput), Patience: new(time.Hour)})
			more := s.call(messages.WriteStdin{Process: id, Bytes: []byte("x"), Patience: new(time.Hour)})
			_, err := more.reply()
			if full := wantError(t, "a write over the bound", err, messages.ErrInputFull); full.Op != "write" ||
				!strings.HasPrefix(full.Detail, fmt.Sprintf("1 writes with %d bytes wait", ptyio.MaxPendingInput)) {
				t.Errorf("%+v", full)
			}
			ids[tty], writes[tty] = id, much
		}
		for tty, id := range ids {
			got := writes[tty].result()
			if !got.Running || got.InputErr != nil || got.Taken <= 0 || got.Taken+got.Pending != ptyio.MaxPendingInput || string(got.Output) != "deaf\n" {
				t.Errorf("tty %t: %+v", tty, got)
			}
			if took := time.Since(began); took > messages.MaxYield/2 {
				t.Errorf("tty %t: it took %v", tty, took)
			}
			if _, err := s.terminate(id); err != nil {
				t.Error(err)
			}
			rest := must[*messages.Result](h, s.supervisor, messages.Poll{Process: id})
			if len(rest.EarlierInput) != 1 || rest.EarlierInput[0].Taken < got.Taken || rest.EarlierInput[0].Err == nil ||
				rest.EarlierInput[0].Bytes != ptyio.MaxPendingInput {
				t.Errorf("tty %t: later %+v", tty, rest)
			}
		}
	})
}

func TestAWriteThatDoesNotWaitIsAnsweredWhenItsBytesAreTakenOrLost(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		for _, tty := range []bool{false, true} {
			id := deaf(s, tty)
			much := s.call(messages.WriteStdin{Process: id, Bytes: make([]byte, ptyio.MaxPendingInput), UntilTaken: true, Patience: new(time.Hour)})
			if much.answered(10 * time.Millisecond) {
				t.Error("it was answered before the bytes were taken")
			}
			if _, err := s.terminate(id); err != nil {
				t.Error(err)
			}
			if got := much.result(); got.InputErr == nil || got.Taken <= 0 || got.Taken >= ptyio.MaxPendingInput {
				t.Errorf("tty %t: %+v, %v", tty, got, got.InputErr)
			}
		}
	})
}

func TestInputThatIsNotTakenInTimeIsDiscardedAndCounted(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := deaf(s, false)
	got := must[*messages.Result](h, s.supervisor,
		messages.WriteStdin{Process: id, Bytes: make([]byte, ptyio.MaxPendingInput), UntilTaken: true, Patience: new(100 * time.Millisecond)})
	if !got.Running || !errors.Is(got.InputErr, messages.ErrInputNotTaken) || got.Taken <= 0 || got.Pending != 0 {
		t.Errorf("%+v, %v", got, got.InputErr)
	}
}

func TestACancelledWriteTakesNoOutput(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := deaf(s, false)
	must[*messages.Result](h, s.supervisor, messages.WriteStdin{Process: id, UntilTaken: true}) // of nothing takes nothing
	late := s.call(messages.WriteStdin{Process: id, Bytes: make([]byte, ptyio.MaxPendingInput/2), Patience: new(100 * time.Millisecond), Yield: new(messages.MaxYield)})
	late.cancel()
	_, err := late.reply()
	wantError(t, "the cancelled call", err, messages.ErrCancelled)
	must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id}) // comes after the cancelled write, whose bytes have been discarded by now
	s.call(messages.Signal{Process: id, Signal: 9})
	got := must[*messages.Result](h, s.supervisor, messages.Poll{Process: id})
	if string(got.Output) != "deaf\n" || len(got.EarlierInput) != 1 || got.EarlierInput[0].Err == nil {
		t.Errorf("the bytes that were not taken: %+v", got)
	}
}

func TestTheEndOfInputComesAfterTheWrites(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	for _, tty := range []bool{false, true} {
		command := quick("cat; exit 8")
		command.OpenStdin, command.TTY, command.Call = true, tty, "by-end-of-input"
		id := s.exec(command).Process
		poll := s.call(messages.Poll{Process: id, NoTimeout: true})
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("last words\n"), UntilTaken: true})
		must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id})
		poll.result()
		if end := s.ended(id); end.Status != messages.StatusExited(8) || end.Call != "by-end-of-input" || !strings.Contains(string(end.Transcript), "last words") {
			t.Errorf("%v, %q", &end.EndRecord, end.Transcript)
		}
	}
	id := deaf(s, true)
	_, err := ask[any](h, s.supervisor, messages.CloseStdin{Process: id})
	wantError(t, "the end of a raw terminal's input", err, messages.ErrUnsupported)
	_, err = ask[any](h, s.supervisor, messages.Resize{Process: cat(s)})
	wantError(t, "a resize on pipes", err, messages.ErrNotATerminal)
}

// Many writers at one process: the bytes of each write arrive whole, and those of each writer in its order.
func TestManyWritersToOneProcess(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(map[bool]string{false: "pipe", true: "raw terminal"}[tty], func(t *testing.T) {
			h := newHost(t, hostOptions{})
			s := h.open(nil)
			writers, each := 200, 5
			if *soak {
				each = 100
			}
			file := filepath.Join(s.dir, "got")
			command := quick(`stty raw -echo 2>/dev/null; exec 3<&0; trap 'echo signalled' USR1
				(trap '' USR1; exec cat <&3 >` + file + `) & echo ready; while :; do wait; done`)
			command.OpenStdin, command.TTY = true, tty
			id := s.exec(command).Process
			s.said(id, "ready")
			poll := s.call(messages.Poll{Process: id, Yield: new(messages.DefaultMaxPoll)})
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					for n := range each {
						line := fmt.Appendf(nil, "%d %d %s\n", w, n, strings.Repeat("x", (w*7+n*13)%300))
						got, err := ask[*messages.Result](h, s.supervisor, messages.WriteStdin{Process: id, Bytes: line, UntilTaken: true})
						if err != nil || got.Taken != len(line) {
							t.Errorf("write: %+v, %v", got, err)
							return
						}
					}
				})
			}
			all.Wait()
			long := s.call(messages.Poll{Process: id, Yield: new(messages.DefaultMaxPoll)})
			if _, err := ask[protocol.Done](h, s.supervisor, messages.Signal{Process: id, Signal: 10}); err != nil {
				t.Error(err)
			}
			s.said(id, "signalled")
			next := make([]int, writers)
			awaitThat(t, "all lines are there", func() bool {
				got, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				return bytes.Count(got, []byte("\n")) >= writers*each
			})
			got, _ := os.ReadFile(file)
			for line := range strings.Lines(string(got)) {
				var w, n int
				var tail string
				if _, err := fmt.Sscan(line, &w, &n, &tail); err != nil && len(strings.Fields(line)) != 2 {
					t.Fatalf("not a whole line: %q", line)
				}
				if n != next[w] || len(tail) != (w*7+n*13)%300 || strings.Trim(tail, "x") != "" {
					t.Fatalf("writer %d: line %d, want %d: %q", w, n, next[w], line)
				}
				next[w]++
			}
			s.call(messages.Terminate{Process: id, Grace: new(time.Duration)})
			poll.result()
			long.reply()
		})
	}
}

func TestAWriteThatTheExitOvertakesKnowsHowMuchWasTaken(t *testing.T) {
	release := make(chan struct{})
	var o hostOptions
	o.seam.child = func(child ptyio.Child) ptyio.Child { return lateWriter{child, release} }
	h := newHost(t, o)
	s := h.open(nil)
	command := quick("read -r x; echo got $x; exit 4")
	command.OpenStdin = true
	id := s.exec(command).Process
	write := s.call(messages.WriteStdin{Process: id, Bytes: []byte("input\n"), Yield: new(messages.MaxYield)})
	probe.Expect(s.events, patience, func(e messages.OutputClosed) bool { return e.Process == id })
	got := write.result() // the program has exited, and nothing is known of the bytes
	wantCode(t, got, 4)
	if string(got.Output) != "got input\n" || !errors.Is(got.InputErr, messages.ErrInputNotTaken) {
		t.Errorf("%+v, %v", got, got.InputErr)
	}
	second := s.call(messages.WriteStdin{Process: id, Bytes: []byte("late\n"), UntilTaken: true})
	must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: id, Tail: 1}) // the second is there
	if ends := s.endsOf(id); len(ends) != 0 {
		t.Errorf("it ended while a write was open: %+v", ends)
	}
	close(release)
	if _, err := second.reply(); err != nil && !errors.Is(err, messages.ErrClosed) {
		t.Error(err)
	}
	s.ended(id)
}

// lateWriter reports the outcome of a write only when it is released.
type lateWriter struct {
	ptyio.Child
	release chan struct{}
}

func (l lateWriter) Write(p []byte, deadline time.Time, done func(ptyio.Taken, error)) func() int {
	return l.Child.Write(p, deadline, func(n ptyio.Taken, err error) {
		go func() {
			<-l.release
			done(n, err)
		}()
	})
}

func TestInputIsQueuedWithoutWaiting(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		for _, tty := range []bool{false, true} {
			id := deaf(s, tty)
			got := must[*messages.Result](h, s.supervisor,
				messages.WriteStdin{Process: id, Bytes: make([]byte, ptyio.MaxPendingInput), NoWait: true, Patience: new(time.Hour)})
			if !got.Running || got.InputErr != nil || got.Taken+got.Pending != ptyio.MaxPendingInput || len(got.Output) > 0 {
				t.Errorf("tty %t: %+v", tty, got)
			}
			_, err := ask[any](h, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte("x"), NoWait: true})
			wantError(t, "a write over the bound", err, messages.ErrInputFull)
			if _, err := s.terminate(id); err != nil {
				t.Error(err)
			}
			rest := must[*messages.Result](h, s.supervisor, messages.Poll{Process: id})
			if len(rest.EarlierInput) != 1 || rest.EarlierInput[0].Err == nil || rest.EarlierInput[0].Bytes != ptyio.MaxPendingInput ||
				string(rest.Output) != "deaf\n" {
				t.Errorf("tty %t: later %+v", tty, rest)
			}
		}
	})
}

// The program reads nothing, and the terminal is full. A key that is a signal acts all the same.
func TestASignalKeyActsBeforeQueuedInput(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	command := quick("echo up; exec sleep 1000")
	command.TTY = true
	id := s.exec(command).Process
	s.said(id, "up")
	s.call(messages.WriteStdin{Process: id, Bytes: bytes.Repeat([]byte("line\n"), 100_000), NoWait: true, Patience: new(time.Hour)}).result()
	s.call(messages.WriteStdin{Process: id, Bytes: []byte("\x03"), NoWait: true}).result()
	if end := s.ended(id); end.Status != messages.StatusSignaled(2) {
		t.Errorf("%v", &end.EndRecord)
	}
}

func TestInputWithoutWaitingKeepsItsPlace(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	command := quick("while read line; do echo got $line; done; exit 8")
	command.OpenStdin = true
	id := s.exec(command).Process
	waits := s.call(messages.WriteStdin{Process: id, Bytes: []byte("one\n"), Yield: new(messages.MaxYield)})
	for _, line := range []string{"two\n", "three\n"} {
		if got := s.call(messages.WriteStdin{Process: id, Bytes: []byte(line), NoWait: true}).result(); got.Taken != 0 || got.Pending != len(line) {
			t.Errorf("%q: %+v", line, got)
		}
	}
	s.said(id, "got one")
	waits.cancel()
	must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id})
	if end := s.ended(id); string(end.Transcript) != "got one\ngot two\ngot three\n" {
		t.Errorf("%q", end.Transcript)
	}
	rest := s.call(messages.Poll{Process: id}).result()
	if len(rest.EarlierInput) != 0 {
		t.Errorf("all was taken, and it says %+v", rest.EarlierInput)
	}
}

// The leader exits while a child that it leaves behind holds the input. A write that takes no output waits for its bytes.
func TestAWriteThatTakesNoOutputLeavesItAtTheExit(t *testing.T) {
	for _, noWait := range []bool{false, true} {
		h := newHost(t, hostOptions{})
		s := h.open(nil)
		command := quick("sleep 1000 <&0 & echo up; until [ -e go ]; do sleep 0.01; done; exit 3")
		command.Dir, command.OpenStdin, command.OnLeaderExit = t.TempDir(), true, messages.LeaderExitKeepsTree
		id := s.exec(command).Process
		s.said(id, "up")
		write := s.call(messages.WriteStdin{Process: id, Bytes: make([]byte, ptyio.MaxPendingInput), UntilTaken: !noWait, NoWait: noWait, Patience: new(time.Hour)})
		poll := s.call(messages.Poll{Process: id, NoTimeout: true})
		must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: id, Tail: 1}) // both are there
		if err := os.WriteFile(filepath.Join(command.Dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := poll.result(); string(got.Output) != "up\n" || got.Status != messages.StatusExited(3) || !got.Running {
			t.Errorf("no wait %t: %+v", noWait, got)
		}
		if _, err := s.terminate(id); err != nil {
			t.Error(err)
		}
		got := write.result()
		if len(got.Output) > 0 || !noWait && (got.Taken == 0 || got.InputErr == nil) {
			t.Errorf("no wait %t: %+v", noWait, got)
		}
	}
}

// An aborted turn cancels the calls that wait. Nobody waits for a queued key, and it goes on.
func TestInputWithoutWaitingOutlivesItsTurn(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	command := quick("echo up; until [ -e go ]; do sleep 0.01; done; exec cat")
	command.Dir, command.OpenStdin, command.Owner = t.TempDir(), true, "turn"
	id := s.exec(command).Process
	s.said(id, "up")
	s.call(messages.WriteStdin{Process: id, Bytes: bytes.Repeat([]byte("x"), ptyio.MaxPendingInput/2), NoWait: true, Patience: new(time.Hour)}).result()
	h.system.Send(s.supervisor, protocol.OwnerAborted{Owner: "turn"})
	must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: id, Tail: 1}) // it knows
	if err := os.WriteFile(filepath.Join(command.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id})
	if end := s.ended(id); end.Total != ptyio.MaxPendingInput/2+3 {
		t.Errorf("%d bytes came back", end.Total)
	}
	if got := s.call(messages.Poll{Process: id}).result(); len(got.EarlierInput) != 0 {
		t.Errorf("all was taken, and an answer says %v", got.EarlierInput)
	}
}
