package execbus_test

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// until collects the events up to the first of a kind.
func until(t *testing.T, events *bus.Subscription, kind messages.EventKind) []messages.Event {
	t.Helper()
	var all []messages.Event
	for event, err := range events.All(patient(t)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, event)
		if event.Kind() == kind {
			return all
		}
	}
	panic("unreachable: the events end with an error")
}

func TestTheEventsOfACommand(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		events := watch(t, session, execbus.Watch{})
		command := bash("echo out; read line; echo err >&2; exit 5")
		command.Call, command.Dir = "c1", "/"
		id := launch(t, session, command)
		if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("in\n"), UntilTaken: true}); err != nil {
			t.Fatal(err)
		}
		all := until(t, events, messages.KindExecEnded)
		var kinds []string
		streams := map[messages.Stream]string{}
		for i, event := range all {
			from := event.From()
			if from.Session != session.ID() || from.Process != id || from.Call != "c1" || time.Since(from.At) > patience {
				t.Errorf("%T comes from %+v", event, from)
			}
			switch e := event.(type) {
			case messages.ToolDecision:
				if i != 0 || !e.Allowed || e.Attempt != 1 || e.Source != messages.DecidedByPolicy || !e.Unsandboxed || e.Decision != "" {
					t.Errorf("event %d is %+v", i, e)
				}
			case messages.ExecStarted:
				if i != 1 || e.Argv[0] != "bash" || len(e.Argv) != 3 || e.Dir != "/" || e.TTY || e.PID <= 0 {
					t.Errorf("event %d is %+v", i, e)
				}
			case messages.OutputDelta:
				streams[e.Stream] += string(e.Bytes)
			case messages.TerminalInteraction:
				if e.Length != 3 || e.Mode != messages.InputPipe || e.Input != nil {
					t.Errorf("the input is told as %+v", e)
				}
			case messages.ExecExited:
				if e.Status != messages.StatusExited(5) {
					t.Errorf("the exit is told as %v", e.Status)
				}
			case messages.OutputClosed:
				if e.Total != 8 {
					t.Errorf("the end of the output is told as %d bytes", e.Total)
				}
			case messages.ExecEnded:
				if e.Cause != messages.CauseExited || e.Status != messages.StatusExited(5) || e.Total != 8 || e.Duration <= 0 ||
					!strings.Contains(string(e.Transcript), "out\n") || len(e.Transcript) != 8 {
					t.Errorf("the end is told as %+v", e)
				}
			default:
				t.Errorf("nobody expected %+v", e)
			}
			kinds = append(kinds, string(event.Kind()))
		}
		if streams[messages.StreamStdout] != "out\n" || streams[messages.StreamStderr] != "err\n" {
			t.Errorf("the output is told as %q", streams)
		}
		for _, kind := range []messages.EventKind{messages.KindExecStarted, messages.KindTerminalInteraction, messages.KindExecExited,
			messages.KindOutputClosed, messages.KindExecEnded} {
			if n := strings.Count(" "+strings.Join(kinds, " ")+" ", " "+string(kind)+" "); n != 1 {
				t.Errorf("%s came %d times: %v", kind, n, kinds)
			}
		}
	})
}

func TestWatchSelectsEvents(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	session, other := openSession(t, rt, execbus.SessionOptions{}), openSession(t, rt, execbus.SessionOptions{})
	start := func(s *execbus.Session, call messages.CallID) messages.ProcessID {
		command := bash("read line; echo from $line")
		command.Call = call
		return launch(t, s, command)
	}
	one := start(session, "one")
	selections := map[string]*bus.Subscription{
		"one":             watch(t, session, execbus.Watch{Processes: []messages.ProcessID{one}, Kinds: []messages.EventKind{messages.KindOutputDelta}}),
		"two":             watch(t, session, execbus.Watch{Calls: []messages.CallID{"two"}, Kinds: []messages.EventKind{messages.KindOutputDelta}}),
		"one two three":   watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}}),
		"three one":       watch(t, session, execbus.Watch{Calls: []messages.CallID{"three", "one"}, Kinds: []messages.EventKind{messages.KindOutputDelta}}),
		"other":           watch(t, other, execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}}),
		"nobody's output": watch(t, session, execbus.Watch{Calls: []messages.CallID{"nobody's"}}),
	}
	processes := map[messages.CallID]messages.ProcessID{"one": one, "two": start(session, "two"), "three": start(session, "three")}
	for call, id := range processes {
		input := messages.WriteStdin{Process: id, Bytes: []byte(call + "\n"), UntilTaken: true}
		if _, err := session.Write(patient(t), input); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := start(other, "one")
	if _, err := other.Write(patient(t), messages.WriteStdin{Process: elsewhere, Bytes: []byte("other\n"), UntilTaken: true}); err != nil {
		t.Fatal(err)
	}
	for _, id := range processes {
		finish(t, session, id)
	}
	finish(t, other, elsewhere)
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	for name, events := range selections {
		seen := ""
		for range strings.Fields(strings.TrimPrefix(name, "nobody's output")) {
			seen += string(await[messages.OutputDelta](t, events, nil).Bytes)
		}
		for _, who := range []string{"one", "two", "three", "other"} {
			if want := strings.Contains(name, who); strings.Contains(seen, "from "+who+"\n") != want {
				t.Errorf("who selects %q sees %q", name, seen)
			}
		}
		events.Close()
		if event, err := events.Next(t.Context()); err == nil {
			t.Errorf("there is more: %v", event)
		}
	}
	_, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{""}})
	wantError(t, err, messages.ErrInvalidRequest, "Kinds")
}

func TestALosslessSubscriberMissesNothing(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		const size = 8 << 20 // more than an ordinary subscription keeps
		events := watch(t, session, execbus.Watch{Lossless: true})
		lossy := watch(t, session, execbus.Watch{})
		launch(t, session, bash(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size)))
		var total int64
		var sequence uint64
		for event, err := range events.All(patient(t)) {
			if err != nil {
				t.Fatal(err)
			}
			switch e := event.(type) {
			case messages.OutputDelta:
				sequence++
				if e.Seq != sequence || e.Offset != total || len(e.Bytes) > messages.MaxOutputDelta || len(bytes.Trim(e.Bytes, "x")) > 0 {
					t.Fatalf("delta %d at %d: %d at %d with %d bytes", sequence, total, e.Seq, e.Offset, len(e.Bytes))
				}
				total += int64(len(e.Bytes))
			case messages.Gap:
				t.Fatalf("there is a gap: %+v", e)
			case messages.ExecEnded:
				if total != size || e.Total != size {
					t.Errorf("%d bytes came of %d, and the end tells of %d", total, size, e.Total)
				}
				checkGaps(t, lossy, size)
				return
			}
		}
	})
}

// checkGaps reads what an ordinary subscription has kept: every byte came or is in a gap.
func checkGaps(t *testing.T, events *bus.Subscription, size int64) {
	t.Helper()
	var at, lost int64
	for _, event := range until(t, events, messages.KindExecEnded) {
		switch e := event.(type) {
		case messages.Gap:
			if e.First != at {
				t.Errorf("a gap begins at %d, the last event ended at %d", e.First, at)
			}
			at, lost = e.End, lost+e.End-e.First
		case messages.OutputDelta:
			if e.Offset != at {
				t.Errorf("a delta begins at %d, the last event ended at %d", e.Offset, at)
			}
			at += int64(len(e.Bytes))
		}
	}
	if at != size || lost == 0 {
		t.Errorf("the events account for %d bytes of %d, %d of them lost", at, size, lost)
	}
}

func TestTheDeathOfAWardenIsTold(t *testing.T) {
	t.Parallel()
	logs := &records{}
	rt := newRuntime(t, execbus.Options{Logger: logs.logger()})
	first, second := openSession(t, rt, execbus.SessionOptions{}), openSession(t, rt, execbus.SessionOptions{})
	subscriptions := []*bus.Subscription{watch(t, first, execbus.Watch{}), watch(t, second, execbus.Watch{})}
	ends := watch(t, first, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	id := launch(t, first, bash("echo $PPID; sleep 1000"))
	warden := pids(t, []byte(awaitOutput(t, subscriptions[0], "\n")), 1)[0]
	if err := syscall.Kill(warden, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, events := range subscriptions {
		notice := await[messages.ExecNotice](t, events, nil)
		if !strings.Contains(notice.Text, fmt.Sprint(warden)) || !strings.Contains(notice.Text, "signal(9)") || notice.At.IsZero() {
			t.Errorf("the notice is %+v", notice)
		}
	}
	end := await[messages.ExecEnded](t, ends, nil)
	if end.Process != id || end.Cause != messages.CauseRuntimeFailure || end.Status != messages.StatusNone() || end.Detail == "" {
		t.Errorf("the command ended with %v", end.EndRecord.String())
	}
	logs.want(t, "ERROR", "the warden died", "pid", warden)
	logs.want(t, "WARN", "process ended", "cause", string(messages.CauseRuntimeFailure))
	if got := exec(t, first, bash("echo again")).OutputText(); got != "again\n" {
		t.Errorf("with a new warden a command says %q", got)
	}
}
