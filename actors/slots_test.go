package actors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// crowd makes candidates with the ids 1 to n, used in this order.
func crowd(n int, change func(c *candidate)) []candidate {
	var all []candidate
	for id := 1; id <= n; id++ {
		c := candidate{id: messages.ProcessID(id), used: uint64(100 + id)}
		change(&c)
		all = append(all, c)
	}
	return all
}

func TestTheVictim(t *testing.T) {
	exited := func(ids ...messages.ProcessID) func(*candidate) {
		return func(c *candidate) { c.exited = slices.Contains(ids, c.id) }
	}
	busy := func(change func(*candidate), ids ...messages.ProcessID) func(*candidate) {
		return func(c *candidate) {
			change(c)
			c.busy = slices.Contains(ids, c.id)
		}
	}
	for _, test := range []struct {
		name      string
		all       []candidate
		protected int
		want      messages.ProcessID // zero for none
	}{
		{"an exited one that is not protected goes first", crowd(10, exited(2)), 8, 2},
		{"of several the least recently used", crowd(12, exited(2, 4)), 8, 2},
		{"none exited: the least recently used", crowd(10, exited()), 8, 1},
		{"exited but protected: the least recently used", crowd(10, exited(3, 10)), 8, 1},
		{"the least recently used is busy: the next", crowd(10, busy(exited(), 1)), 8, 2},
		{"all that are not protected are busy: none", crowd(10, busy(exited(), 1, 2)), 8, 0},
		{"an exited one is busy: no living one goes", crowd(10, busy(exited(1), 1)), 8, 0},
		{"an exited one is busy, another is not", crowd(12, busy(exited(1, 3), 1)), 8, 3},
		{"a protected exited one is busy: no reason to wait", crowd(10, busy(exited(9), 9)), 8, 1},
		{"all are protected", crowd(8, exited(1)), 8, 0},
		{"nobody is protected", crowd(1, exited()), 0, 1},
		{"nobody is there", nil, 8, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			slices.Reverse(test.all) // the order must not matter
			got := victims(test.all, test.protected)
			if len(got) == 0 && test.want != 0 || len(got) > 0 && got[0] != test.want {
				t.Errorf("%d, want %d first", got, test.want)
			}
		})
	}
}

func TestPropertiesOfTheVictims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		protected := rapid.IntRange(0, 10).Draw(t, "protected")
		all := crowd(rapid.IntRange(0, 30).Draw(t, "n"), func(c *candidate) {
			c.exited, c.busy = rapid.Bool().Draw(t, "exited"), rapid.Bool().Draw(t, "busy")
		})
		got := victims(rapid.Permutation(all).Draw(t, "order"), protected)
		if again := victims(slices.Clone(all), protected); !slices.Equal(got, again) {
			t.Fatalf("%d, or %d in another order", got, again)
		}
		open := all[:max(len(all)-protected, 0)]
		waited := slices.ContainsFunc(open, func(c candidate) bool { return c.exited && c.busy })
		last := candidate{exited: true}
		for _, id := range got {
			at := slices.IndexFunc(open, func(c candidate) bool { return c.id == id })
			switch {
			case at < 0 || open[at].busy:
				t.Fatalf("%d is protected or busy", id)
			case !open[at].exited && waited:
				t.Fatalf("%d lives, and one that has exited was passed over", id)
			case open[at].exited && !last.exited || open[at].exited == last.exited && open[at].used < last.used:
				t.Fatalf("%d comes too late in %d", id, got)
			}
			last = open[at]
		}
		for _, c := range open {
			if !c.busy && (c.exited || !waited) && !slices.Contains(got, c.id) {
				t.Fatalf("%d could end, and is not among %d", c.id, got)
			}
		}
	})
}

// fill starts idle processes.
func fill(s *talk, n int) []messages.ProcessID {
	var ids []messages.ProcessID
	for range n {
		ids = append(ids, s.exec(quick(idle)).Process)
	}
	return ids
}

func TestAtTheCapExactlyTheLeastRecentlyUsedIsPruned(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 6, 2 })
	ids := fill(s, 6)
	poll := s.call(messages.Poll{Process: ids[1]})
	s.call(messages.WriteStdin{Process: ids[0], Bytes: []byte("used"), UntilTaken: true}).reply() // so the third is the next
	next := s.exec(quick(idle)).Process
	end := s.ended(ids[2])
	if end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByPrune || end.Status != messages.StatusSignaled(15) {
		t.Errorf("%v", &end.EndRecord)
	}
	var live []messages.ProcessID
	for _, info := range s.list() {
		live = append(live, info.Process)
	}
	if want := append(slices.Delete(slices.Clone(ids), 2, 3), next); !slices.Equal(live, want) {
		t.Errorf("live: %v, want %v", live, want)
	}
	if got := h.stats(); got.Processes != 6 || got.Started != 7 {
		t.Errorf("%+v", got)
	}
	s.call(messages.Terminate{Process: ids[1]})
	poll.result()
}

func TestTheCapIsHardAndTheErrorNamesTheBusy(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 3, 1 })
	ids := fill(s, 3)
	var polls []waiting
	for _, id := range ids {
		polls = append(polls, s.call(messages.Poll{Process: id, NoTimeout: true}))
	}
	_, err := ask[any](h, s.supervisor, shell("echo never"))
	if full := wantError(t, "one too many", err, messages.ErrLimitReached); !slices.Equal(full.Busy, ids) || !strings.Contains(full.Error(), " just now: "+messages.ProcessIDs(ids)+"; wait for one to end") {
		t.Errorf("busy: %v, want %v: %v", full.Busy, ids, full)
	}
	if live := s.list(); len(live) != 3 {
		t.Errorf("somebody was harmed: %+v", live)
	}
	for _, poll := range polls {
		if poll.answered(0) {
			t.Error("a poll has ended")
		}
	}
	if _, err := s.terminate(ids[1]); err != nil {
		t.Error(err)
	}
	wantCode(t, s.exec(shell("exit 0")), 0)
}

func TestNoProcessIsPrunedWhileAnExitedOneIsBusy(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 4, 1 })
	kept := quick("sleep 1000 & exit 5")
	kept.OnLeaderExit = messages.LeaderExitKeepsTree
	exited := s.exec(kept).Process
	must[*messages.Result](h, s.supervisor, messages.Poll{Process: exited}) // this reports the exit, so that the next one waits
	poll := s.call(messages.Poll{Process: exited, NoTimeout: true})
	living := fill(s, 3)
	_, err := ask[any](h, s.supervisor, shell("echo never"))
	wantError(t, "one too many", err, messages.ErrLimitReached)
	if live := s.list(); len(live) != 4 || poll.answered(0) {
		t.Errorf("somebody was harmed: %+v", live)
	}
	poll.cancel()
	_, err = poll.reply()
	wantError(t, "the poll", err, messages.ErrCancelled)
	next := s.exec(quick(idle)).Process
	s.ended(exited)
	var live []messages.ProcessID
	for _, info := range s.list() {
		live = append(live, info.Process)
	}
	if want := append(living, next); !slices.Equal(live, want) {
		t.Errorf("live: %v, want %v", live, want)
	}
}

func TestAQuickCommandEndsNoOtherProcess(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 4, 0 })
	ids := fill(s, 4)
	for range 3 {
		var calls []waiting
		for n := range ids {
			calls = append(calls, s.call(shell(fmt.Sprint("exit ", n))))
		}
		for n, call := range calls {
			wantCode(t, call.result(), n)
		}
		for range calls {
			if end := probe.Expect[messages.ExecEnded](s.events, patience, nil); end.By != "" {
				t.Errorf("%v", &end.EndRecord)
			}
		}
	}
	awaitThat(t, "four slots are taken", func() bool { return h.stats().Processes == 4 })
	lasting := s.call(messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(messages.MinYield)})
	if got := s.stats().Processes; got > 5 {
		t.Errorf("%d slots", got)
	}
	if got := lasting.result(); !got.Running {
		t.Errorf("%+v", got)
	}
	if end := s.ended(ids[0]); end.By != messages.TerminatedByPrune { // now somebody has to go
		t.Errorf("%v", &end.EndRecord)
	}
	s.typedNothing(ids[1:])
	awaitThat(t, "four slots are taken", func() bool { return h.stats().Processes == 4 })
}

// typedNothing checks that processes live.
func (s *talk) typedNothing(ids []messages.ProcessID) {
	s.t.Helper()
	live := map[messages.ProcessID]bool{}
	for _, info := range s.list() {
		live[info.Process] = true
	}
	for _, id := range ids {
		if !live[id] {
			s.t.Errorf("%d has ended", id)
		}
	}
}

// started waits until so many processes have been started in all.
func (s *talk) started(n int) {
	s.t.Helper()
	awaitThat(s.t, fmt.Sprint(n, " are started"), func() bool { return len(probe.Of[messages.ExecStarted](s.events, nil)) >= n })
}

func TestWhereTheRuntimeHasNoSlotForAGuestItsVictimGivesItsOwn(t *testing.T) {
	h := newHost(t, hostOptions{max: 4})
	s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 4, 1 })
	ids := fill(s, 4)
	next := s.exec(quick(idle)).Process
	if end := s.ended(ids[0]); end.By != messages.TerminatedByPrune {
		t.Errorf("%v", &end.EndRecord)
	}
	s.typedNothing(append(ids[1:], next))
	var polls []waiting
	for _, id := range append(ids[1:], next) {
		polls = append(polls, s.call(messages.Poll{Process: id, NoTimeout: true}))
	}
	must[messages.Processes](h, s.supervisor, protocol.ListProcesses{})
	for range 3 { // a refused command ends no other process
		_, err := ask[any](h, s.supervisor, quick(idle))
		wantError(t, "one too many", err, messages.ErrLimitReached)
	}
	s.typedNothing(append(ids[1:], next))
	for _, poll := range polls {
		poll.cancel()
	}
}

func TestAWarningNearTheCap(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.WarnProcesses = 5, 3 })
	fill(s, 5)
	for range 5 {
		probe.Expect[messages.ExecStarted](s.events, patience, nil)
	}
	warnings := probe.Of[messages.ProcessWarning](s.events, nil)
	if len(warnings) != 3 {
		t.Fatalf("%+v", warnings)
	}
	for i, w := range warnings {
		if w.Processes != 3+i || w.Max != 5 || w.Process != messages.ProcessID(1002+i) {
			t.Errorf("%+v", w)
		}
	}
	want := "The maximum number of unified exec processes you can keep open is 60 and you currently have 61 processes open. " +
		"Reuse older processes or close them to prevent automatic pruning of old processes"
	if got := warningText(60, 61); got != want {
		t.Errorf("%q", got)
	}
}

func TestABurstIsWarnedAboutAsOftenAsItsCommandsOneByOne(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.WarnProcesses = 8, 7 })
	for range 8 {
		s.call(shell("sleep 60"))
	}
	for range 8 {
		probe.Expect[messages.ExecStarted](s.events, patience, nil)
	}
	var counts []int
	for _, w := range probe.Of[messages.ProcessWarning](s.events, nil) {
		counts = append(counts, w.Processes)
	}
	if !slices.Equal(counts, []int{7, 8}) {
		t.Errorf("warned of %v processes", counts)
	}
}

func TestTheRuntimesCapHoldsOverAllSessions(t *testing.T) {
	h := newHost(t, hostOptions{max: 3})
	one, other := h.open(nil), h.open(nil)
	mine := fill(one, 2)
	fill(other, 1)
	_, err := ask[any](h, other.supervisor, shell("echo never"))
	wantError(t, "one too many", err, messages.ErrLimitReached)
	if got := h.stats(); got.Processes != 3 || got.Started != 3 || got.Sessions != 2 {
		t.Errorf("%+v", got)
	}
	if _, err := one.terminate(mine[0]); err != nil {
		t.Error(err)
	}
	wantCode(t, other.exec(shell("exit 0")), 0)
	must[protocol.Done](h, one.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
	awaitThat(t, "the slots came back", func() bool { got := h.stats(); return got.Processes == 1 && got.Sessions == 1 })
	last := h.open(nil)
	fill(last, 2)
	if got := h.stats(); got.Processes != 3 {
		t.Errorf("a closed session gave back more than it had: %+v", got)
	}
	if got := h.stats(); got.Ended[messages.CauseTerminated] != 2 || got.Ended[messages.CauseExited] != 1 || got.Ended[messages.CauseSpawnFailed] != 1 {
		t.Errorf("%+v", got)
	}
}

func TestAStartWaitsForASlotThatIsAboutToBeFree(t *testing.T) {
	h := newHost(t, hostOptions{max: 1})
	one, other := h.open(nil), h.open(nil)
	for n := range 100 {
		_, err := ask[any](h, one.supervisor, messages.ExecCommand{Argv: []string{"/nonexistent/program"}})
		wantError(t, "a command that cannot begin", err, messages.ErrNoSuchProgram)
		wantCode(t, other.exec(shell(fmt.Sprint("exit ", n%3))), n%3)
	}
}

func TestASessionThatEndsWaitsForNoSlot(t *testing.T) {
	h := newHost(t, hostOptions{max: 1})
	one, other, third := h.open(nil), h.open(nil), h.open(nil)
	mine := fill(one, 1)
	waits := other.call(quick(idle))
	must[protocol.Done](h, other.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
	_, err := waits.reply()
	wantError(t, "the one that waited", err, messages.ErrProcessEnded)
	if _, err := one.terminate(mine[0]); err != nil {
		t.Error(err)
	}
	wantCode(t, third.exec(shell("exit 3")), 3)
	awaitThat(t, "no slot is taken", func() bool { return h.stats().Processes == 0 })
}

func TestIdsAreDeterministicIfAskedAndOtherwiseInTheirRange(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	var ids []messages.ProcessID
	for range 3 {
		ids = append(ids, s.exec(shell("true")).Process)
	}
	if !slices.Equal(ids, []messages.ProcessID{1000, 1001, 1002}) {
		t.Errorf("%v", ids)
	}
	random := h.open(func(c *shared.SessionConfig) { c.DeterministicIDs = false })
	seen := map[messages.ProcessID]bool{}
	for _, id := range fill(random, 20) {
		if id < 1000 || id > 99_999 || seen[id] {
			t.Errorf("id %d", id)
		}
		seen[id] = true
	}
	if list := random.list(); !slices.IsSortedFunc(list, func(a, b messages.ProcessInfo) int { return cmp.Compare(a.Process, b.Process) }) {
		t.Errorf("the list is not in order: %+v", list)
	}
}
