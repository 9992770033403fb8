package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/harness"
)

// soaked runs a soak.
func soaked(t *testing.T, ctx context.Context, a arguments) (s *soak, code int) {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the soak reads /proc, which only Linux has")
	}
	var said bytes.Buffer
	s, err := newSoak(a, harness.NewProgress(&said))
	if err != nil {
		t.Fatal(err)
	}
	s.run(ctx)
	code, text := s.result()
	if _, broken := s.faults.all(); broken > 0 {
		t.Errorf("%s\n%s", &said, text)
	}
	return s, code
}

func TestSmallSoak(t *testing.T) {
	for _, duration := range []time.Duration{3 * time.Second, 6 * time.Second, 12 * time.Second} { // a busy machine needs longer
		s, code := soaked(t, t.Context(), arguments{duration: duration, parallel: 4, seed: 1, only: regexp.MustCompile("")})
		if code != harness.ExitOK {
			t.Fatalf("exit code %d", code)
		}
		counts := s.host.tally.all()
		undone := slices.DeleteFunc(scenarios(), func(s scenario) bool { return counts["step: "+s.name] > 0 })
		var table bytes.Buffer
		if s.writeTable(&table); len(s.judge.points) >= 3 && counts["commands"] >= 100 && counts["bytes checked"] > 0 && len(undone) == 0 && strings.Contains(table.String(), "ok\n") {
			return
		}
		t.Logf("it did little in %s: %d scenarios left out\n%s", duration, len(undone), &table)
	}
	t.Error("it did too little each time")
}

func TestInterruptedRunCleansUpAndSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s, code := soaked(t, ctx, arguments{duration: time.Hour, parallel: 2, only: regexp.MustCompile("short|copy|terminate")})
	if _, text := s.result(); code != harness.ExitFailed || !strings.Contains(text, "interrupted") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
		code int
	}{
		{"-help", "Usage: soak", harness.ExitOK},
		{"extra", "unexpected argument", harness.ExitUsage},
		{"-duration 1ms", "use 1s or more", harness.ExitUsage},
		{"-parallel 0", "use 1 to 256", harness.ExitUsage},
		{"-only nothing", "matches no scenario; there are short,", harness.ExitUsage},
		{"-only (", "-only: error parsing", harness.ExitUsage},
	} {
		var out, progress bytes.Buffer
		if code := command.Execute(t.Context(), strings.Fields(test.args), &out, &progress); code != test.code {
			t.Errorf("%s: exit code %d, want %d", test.args, code, test.code)
		}
		if !strings.Contains(progress.String(), test.want) {
			t.Errorf("%s: does not say %q:\n%s", test.args, test.want, &progress)
		}
	}
}

func TestChoicesFollowFromTheSeed(t *testing.T) {
	choices := func(seed uint64) (names string) {
		a := arguments{seed: seed}
		for worker := range 4 {
			for n := range 50 {
				dice := a.dice(worker, n)
				names += draw(dice, scenarios()).name + " "
				_ = dice.Uint64()
			}
		}
		return names
	}
	if first, again := choices(7), choices(7); first != again || first == choices(8) {
		t.Error("the same seed does not choose the same, or another one does")
	}
}

func TestFloodsAreCheckedByteByByte(t *testing.T) {
	for _, tty := range []bool{false, true} {
		f := flood{lines: 200_000, tty: tty}
		all := generate(f)
		if err := f.check(all, 0); err != nil {
			t.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(1, 1))
		for range 200 {
			from := dice.IntN(len(all))
			part := bytes.Clone(all[from : from+dice.IntN(min(len(all)-from, 5000))+1])
			if err := f.check(part, int64(from)); err != nil {
				t.Fatal(err)
			}
			part[dice.IntN(len(part))] ^= 1
			if f.check(part, int64(from)) == nil {
				t.Fatal("a wrong byte was not found")
			}
		}
		if f.check(append(all, '1'), 0) == nil {
			t.Error("a byte too many was not found")
		}
		const half = 512 << 10
		text := append(append(bytes.Clone(all[:half]), messages.OmissionMarker(f.total()-2*half)...), all[len(all)-half:]...)
		if err := f.transcript(text, f.total()); err != nil {
			t.Error(err)
		}
		if f.transcript(text[1:], f.total()) == nil || f.transcript(all[:100], 101) == nil {
			t.Error("a wrong transcript was not found")
		}
	}
}

func generate(f flood) []byte {
	end := "\n"
	if f.tty {
		end = "\r\n"
	}
	var b bytes.Buffer
	for i := range f.lines {
		fmt.Fprintf(&b, "%d%s", firstLine+i, end)
	}
	return b.Bytes()
}

func TestAccountsFindWhatIsMissing(t *testing.T) {
	f := flood{lines: 10}
	all := generate(f)
	a := account{flood: f}
	for _, r := range []*messages.Result{{Output: all[:10]}, {Output: append(bytes.Clone(all[10:15]), all[70:80]...), Head: 5, Omitted: 55}} {
		if err := a.take(r); err != nil {
			t.Error(err)
		}
	}
	if a.taken != f.total() {
		t.Errorf("%d bytes, want %d", a.taken, f.total())
	}
	if (&account{flood: f}).take(&messages.Result{Output: all[1:3]}) == nil {
		t.Error("a lost byte was not found")
	}
	e, counts := follower{flood: f}, &tally{}
	for _, event := range []messages.Event{messages.OutputDelta{Seq: 1, Bytes: all[:9]}, messages.Gap{First: 9, End: 20, Deltas: 2}} {
		if err := e.see(event, counts); err != nil {
			t.Error(err)
		}
	}
	if e.see(messages.OutputDelta{Seq: 5, Offset: 20, Bytes: all[20:30]}, counts) == nil {
		t.Error("a lost delta was not found")
	}
	lossless := follower{flood: f, lossless: true}
	if lossless.see(messages.Gap{First: 0, End: 20, Deltas: 2}, counts) == nil {
		t.Error("a gap of a lossless subscriber was not found")
	}
	if !e.done && (e.see(messages.ExecEnded{Total: 21}, counts) == nil || !e.done) {
		t.Error("a lost end was not found")
	}
}

func TestDriftIsJudgedAgainstTheBaseline(t *testing.T) {
	for _, test := range []struct {
		q      quantity
		growth int64
		drifts bool
	}{
		{descriptors, 1, true}, {descriptors, 0, false}, {goroutines, 1, true}, {goroutines, -1, false},
		{zombies, 1, true}, {descendants, 1, true}, {heap, heapSlack, false}, {heap, heapSlack + 1, true}, {rss, 1 << 30, false},
	} {
		j := &judge{faults: &faults{say: io.Discard}}
		base := sample{descriptors: 10, goroutines: 5, heap: 1 << 20}
		j.add(base)
		later := base
		later[test.q] += test.growth
		if drifted := len(j.add(later)) > 0; drifted != test.drifts {
			t.Errorf("%s %+d: drifted %v", facts[test.q].name, test.growth, drifted)
		}
		if _, complaints := j.faults.all(); (complaints > 0) != test.drifts {
			t.Errorf("%s %+d: %d complaints", facts[test.q].name, test.growth, complaints)
		}
	}
}

func TestAStartMayBeRefusedAfterItsAnswerOnlyIfThatSaysSo(t *testing.T) {
	refusal := messages.ExecEnded{EndRecord: messages.EndRecord{Cause: messages.CauseSpawnFailed, Status: messages.StatusNone()}}
	for _, test := range []struct {
		err       error
		unstarted bool
		broken    bool
	}{
		{nil, false, true},
		{nil, true, false},
		{&messages.Error{Code: messages.ErrCancelled}, true, false},
		{&messages.Error{Code: messages.ErrLimitReached}, false, false},
	} {
		e := newEntry("here", want{}, 0)
		new(ledger).answered(e, test.err, test.unstarted)
		if problem := e.judge(refusal, false, false); (problem != "") != test.broken {
			t.Errorf("%v, not started: %t: %q", test.err, test.unstarted, problem)
		}
	}
}

// bookkeeping makes a ledger of a session that does not exist, with one command that returns 0. It also returns the
// complaints so far.
func bookkeeping(out *flood) (l *ledger, e *entry, complaints func() string) {
	c := &client{name: "session", host: &host{faults: &faults{say: io.Discard}}}
	c.ledger = ledger{client: c, entries: map[messages.CallID]*entry{}}
	e = c.ledger.expect("call", "here", want{codes: []int{0}, output: out})
	return &c.ledger, e, func() string {
		all, _ := c.host.faults.all()
		return strings.Join(all, "\n")
	}
}

func TestEventsOutOfPlaceAreFound(t *testing.T) {
	of := func(process messages.ProcessID) messages.Origin {
		return messages.Origin{Call: "call", Process: process}
	}
	exited := messages.EndRecord{Cause: messages.CauseExited, Status: messages.StatusExited(0)}
	left := exited
	left.Tree.Survivors = []messages.Survivor{{PID: 7}}
	wrong := messages.EndRecord{Cause: messages.CauseExited, Status: messages.StatusExited(7)}
	start, exit, closed := messages.ExecStarted{Origin: of(1)}, messages.ExecExited{Origin: of(1)}, messages.OutputClosed{Origin: of(1)}
	end := messages.ExecEnded{Origin: of(1), EndRecord: exited}
	for complaint, events := range map[string][]messages.Event{
		"":                         {start, exit, closed, end},
		"came 2 times":             {start, exit, exit, closed, end},
		"before its start":         {exit, start, closed, end},
		"earlier events were of 1": {start, exit, messages.OutputClosed{Origin: of(2)}, messages.ExecEnded{Origin: of(2), EndRecord: exited}},
		"behind its end":           {start, exit, closed, end, messages.OutputDelta{Origin: of(1)}},
		"nobody made":              {messages.ExecStarted{Origin: messages.Origin{Call: "other", Process: 1}}},
		"left survivors":           {start, exit, closed, messages.ExecEnded{Origin: of(1), EndRecord: left}},
		"cannot have returned":     {start, exit, closed, messages.ExecEnded{Origin: of(1), EndRecord: wrong}},
	} {
		l, _, complaints := bookkeeping(nil)
		for _, event := range events {
			l.note(event)
		}
		found := complaints()
		if (found == "") != (complaint == "") || !strings.Contains(found, complaint) || strings.Contains(found, "\n") {
			t.Errorf("%q, want only %q", found, complaint)
		}
		if n := l.client.host.tally.all()["ended: exited"]; complaint == "" && n != 1 {
			t.Errorf("%d ends are counted, want 1", n)
		}
	}
}

func TestASubscriberOfAFloodMissesNothing(t *testing.T) {
	f := flood{lines: 2000}
	all := generate(f)
	for complaint, event := range map[string]messages.Event{
		"": messages.OutputDelta{Seq: 3, Offset: 16, Bytes: all[16:24]},
		"delta 4 at offset 16, want delta 3 at 16": messages.OutputDelta{Seq: 4, Offset: 16, Bytes: all[16:24]},
		"delta 3 at offset 24, want delta 3 at 16": messages.OutputDelta{Seq: 3, Offset: 24, Bytes: all[24:32]},
		"a delta of 0 bytes":                       messages.OutputDelta{Seq: 3, Offset: 16},
		"a delta of 8193 bytes":                    messages.OutputDelta{Seq: 3, Offset: 16, Bytes: all[16 : 16+messages.MaxOutputDelta+1]},
		"at offset 16 stands":                      messages.OutputDelta{Seq: 3, Offset: 16, Bytes: all[24:32]},
		"a gap from 8 to 24":                       messages.Gap{First: 8, End: 24, Deltas: 2, Inputs: 1},
		"a gap from 16 to 16":                      messages.Gap{First: 16, End: 16, Deltas: 1},
		"of 0 deltas":                              messages.Gap{First: 16, End: 24},
		"told of 16 bytes":                         messages.ExecEnded{Total: 24},
	} {
		follows := follower{flood: f, pos: 16, seq: 2}
		err := follows.see(event, &tally{})
		if found := fmt.Sprint(err); (err == nil) != (complaint == "") || !strings.Contains(found, complaint) {
			t.Errorf("%T: %v, want %q", event, err, complaint)
		}
	}
	follows := follower{flood: f, pos: 16, seq: 2, leave: 3}
	for _, event := range []messages.Event{messages.Gap{Inputs: 1, InputBytes: 3}, messages.Gap{First: 16, End: 32, Deltas: 2},
		messages.OutputDelta{Seq: 5, Offset: 32, Bytes: all[32:33]}} {
		if err := follows.see(event, &tally{}); err != nil {
			t.Error(err)
		}
	}
	if follows.pos != 33 || follows.seq != 5 || !follows.done {
		t.Errorf("it is at byte %d, delta %d, done: %t", follows.pos, follows.seq, follows.done)
	}
}

func TestAProcessOfTheRunIsKnownByItsEnvironment(t *testing.T) {
	environment, err := os.ReadFile("/proc/self/environ")
	first, _, _ := bytes.Cut(environment, []byte{0})
	if err != nil || len(first) == 0 {
		t.Skipf("this process has no environment that the kernel shows (%v)", err)
	}
	for mark, want := range map[string]bool{string(first): true, string(first) + "x": false, string(first[1:]): false} {
		if w := (&watcher{mark: []byte(mark)}); w.marked(os.Getpid()) != want {
			t.Errorf("%q is a variable of this process: %t, want %t", mark, !want, want)
		}
	}
}

func TestTheOutputOfAnEndedCommandIsCounted(t *testing.T) {
	f := flood{lines: 10}
	all := generate(f)
	damaged := bytes.Clone(all)
	damaged[8] = 'x'
	for complaint, end := range map[string]messages.ExecEnded{
		"":                            {Transcript: all, Total: f.total()},
		"has 80 bytes of 79":          {Transcript: all, Total: f.total() - 1},
		"72 bytes of output, 80 were": {Transcript: all[:72], Total: 72},
		"at offset 8 stands":          {Transcript: damaged, Total: f.total()},
	} {
		l, e, complaints := bookkeeping(&f)
		e.seen = map[messages.EventKind]int{messages.KindExecStarted: 1, messages.KindExecExited: 1, messages.KindOutputClosed: 1}
		end.Origin = messages.Origin{Call: "call", Process: 1}
		end.EndRecord = messages.EndRecord{Cause: messages.CauseExited, Status: messages.StatusExited(0)}
		l.note(end)
		if found := complaints(); (found == "") != (complaint == "") || !strings.Contains(found, complaint) {
			t.Errorf("%q, want %q", found, complaint)
		}
	}
}

func TestAnEndIsOneThatMayBe(t *testing.T) {
	whole := []messages.EventKind{messages.KindExecStarted, messages.KindExecExited, messages.KindOutputClosed}
	lost := whole[:1]
	killed := messages.ExitStatus{Kind: messages.ExitSignal, Number: 9}
	const disturbed, closing, struck, answered = 1, 2, 4, 8
	for _, test := range []struct {
		cause   messages.Cause
		by      messages.TerminatedBy
		status  messages.ExitStatus
		events  []messages.EventKind
		when    int
		problem string
	}{
		{messages.CauseExited, "", messages.StatusExited(0), whole, answered, ""},
		{messages.CauseExited, "", messages.StatusExited(2), whole, answered, ""},
		{messages.CauseExited, "", messages.StatusExited(1), whole, disturbed | struck, "cannot have returned"},
		{messages.CauseExited, "", killed, whole, 0, "nobody sent it a signal"},
		{messages.CauseExited, "", killed, whole, struck, ""},
		{messages.CauseExited, "", killed, whole, disturbed, ""},
		{messages.CauseTerminated, "host", killed, whole, 0, ""},
		{messages.CauseTerminated, "", killed, whole, 0, "nobody terminated it"},
		{messages.CauseTerminated, "host", messages.StatusNone(), whole, 0, "has no status"},
		{messages.CauseTerminated, "host", messages.StatusNone(), nil, 0, ""},
		{messages.CauseExited, "", messages.StatusNone(), whole, disturbed, "has exited, but"},
		{messages.CauseExited, "", messages.StatusExited(0), lost, disturbed, "has exited, but"},
		{messages.CauseExited, "", messages.ExitStatus{Kind: "odd"}, whole, 0, "no kind of status"},
		{messages.CauseSpawnFailed, "", messages.StatusNone(), nil, 0, ""},
		{messages.CauseSpawnFailed, "", messages.StatusNone(), nil, answered, "has started, or had to"},
		{messages.CauseSpawnFailed, "", messages.StatusNone(), nil, answered | closing, ""},
		{messages.CauseSpawnFailed, "", messages.StatusNone(), nil, answered | disturbed, ""},
		{messages.CauseSpawnFailed, "", messages.StatusNone(), whole, disturbed, "has started, or had to"},
		{messages.CauseRuntimeFailure, "", messages.StatusNone(), nil, 0, "nothing has failed"},
		{messages.CauseRuntimeFailure, "", messages.StatusNone(), lost, disturbed, ""},
		{messages.CauseTerminated, "host", killed, lost, 0, "was not told"},
		{messages.CauseTerminated, "host", killed, whole[:2], 0, "was not told"},
		{messages.CauseTerminated, "host", killed, lost, disturbed, ""},
	} {
		e := newEntry("here", want{codes: []int{0, 2}, struck: test.when&struck != 0}, 0)
		e.ran = test.when&answered != 0
		for _, kind := range test.events {
			e.seen[kind]++
		}
		end := messages.ExecEnded{EndRecord: messages.EndRecord{Cause: test.cause, By: test.by, Status: test.status}}
		got := e.judge(end, test.when&disturbed != 0, test.when&closing != 0)
		if (got == "") != (test.problem == "") || !strings.Contains(got, test.problem) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// A command that was taken must end; one that was refused must not run.
func TestALedgerIsSettled(t *testing.T) {
	started := messages.ExecStarted{Origin: messages.Origin{Call: "call", Process: 1}}
	ended := messages.ExecEnded{Origin: started.Origin, EndRecord: messages.EndRecord{Cause: messages.CauseSpawnFailed, Status: messages.StatusNone()}}
	refused := &messages.Error{Code: messages.ErrInvalidRequest}
	for complaint, happens := range map[string]func(l *ledger, e *entry){
		"":                  func(l *ledger, e *entry) { l.note(ended) },
		"it ran as process": func(l *ledger, e *entry) { l.note(started); l.answered(e, refused, false) },
		"it never started":  func(l *ledger, e *entry) { l.note(ended); l.answered(e, nil, false) },
	} {
		l, e, complaints := bookkeeping(nil)
		happens(l, e)
		l.settle()
		if found := complaints(); (found == "") != (complaint == "") || !strings.Contains(found, complaint) {
			t.Errorf("%q, want %q", found, complaint)
		}
		if counts := l.client.host.tally.all(); counts["commands"] != 1 || len(l.entries) != 0 {
			t.Errorf("%d commands are counted, want 1; %d entries stay", counts["commands"], len(l.entries))
		}
	}
	l, e, complaints := bookkeeping(nil)
	l.answered(e, refused, false)
	if l.settle(); complaints() != "" {
		t.Errorf("of a command that was refused: %q", complaints())
	}
}
