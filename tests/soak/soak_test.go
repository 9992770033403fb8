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
