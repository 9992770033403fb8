package actors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

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
