package actors

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/tests/probe"
)

func TestAnEndThatIsLostIsLostAlsoAfterATermination(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		id := s.exec(does("prompt,lost", "wait")).Process
		if record, err := s.terminate(id); err != nil || record.Cause != messages.CauseRuntimeFailure || record.By != "" || record.Detail != "the machine is gone" {
			t.Errorf("%+v, %v", record, err)
		}
	})
}

func TestAStartThatEndsBeforeItHasItsSlotLeaksNone(t *testing.T) {
	inBubble(t, bubbleOptions{max: 2}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		hold := newStop(isA[protocol.TakeSlot])
		b.fault(hold.before)
		call := s.call(does("prompt", "wait"))
		<-hold.there
		s.system.Send(s.supervisor, messages.Terminate{Process: firstProcess})
		synctest.Wait()
		close(hold.goes)
		_, err := call.reply()
		wantError(t, "the start", err, messages.ErrProcessEnded)
		synctest.Wait()
		if got := b.stats(); got.Processes != 0 || got.Started != 1 {
			t.Errorf("%+v", got)
		}
		fill2 := []*messages.Result{s.exec(does("prompt", "wait")), s.exec(does("prompt", "wait"))}
		if got := b.stats(); got.Processes != len(fill2) {
			t.Errorf("%+v", got)
		}
	})
}

func TestStartsAtTheRuntimesCapAreServedInOrderOrRefusedAndForgotten(t *testing.T) {
	inBubble(t, bubbleOptions{max: 1}, func(t *testing.T, b *bubble) {
		s, other := b.open(nil), b.open(nil)
		first := s.exec(does("prompt", "wait")).Process
		second := other.call(does("prompt", "wait"))
		synctest.Wait()
		third := s.call(does("prompt", "wait"))
		synctest.Wait()
		s.terminate(first)
		synctest.Wait()
		if !second.answered(0) || third.answered(0) {
			t.Fatal("not the first one was served")
		}
		time.Sleep(slotPatience)
		synctest.Wait()
		_, err := answerIs(t, third)
		wantError(t, "the one that waited too long", err, messages.ErrLimitReached)
		other.terminate(second.result().Process)
		fourth := s.exec(does("prompt", "wait")).Process
		if got := b.stats(); got.Started != 3 || got.Processes != 1 {
			t.Errorf("a refused start stays: %+v", got)
		}
		s.terminate(fourth)
	})
}

func TestTheCommandsBeforeTheirSlotsAreBounded(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) {
			c.MaxProcesses, c.Approval = 1, messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}
		})
		for range 1 + mostQueued {
			s.call(does("prompt,resolve=hang"))
		}
		_, err := ask[any](b.host, s.supervisor, does("prompt", "wait"))
		wantError(t, "one too many", err, messages.ErrLimitReached)
		if n := len(s.list()); n != 1+mostQueued {
			t.Errorf("%d are accepted", n)
		}
		s.terminate(firstProcess)
		s.call(does("prompt,resolve=hang"))
		if n := len(s.list()); n != 1+mostQueued {
			t.Errorf("%d are accepted when one has gone", n)
		}
	})
}

func TestACommandThatNeverRanHasNoOutputThatCloses(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		_, err := ask[any](b.host, s.supervisor, does("foreign,spawn=fail"))
		wantError(t, "the start", err, messages.ErrSpawnFailed)
		synctest.Wait()
		if closed := probe.Of[messages.OutputClosed](s.events, nil); len(closed) > 0 {
			t.Errorf("%+v", closed)
		}
		_, err = ask[any](b.host, s.supervisor, messages.ExecCommand{Argv: []string{"foreign,respawn=fail", "say:10", "retry", "denied"}})
		wantError(t, "the second attempt", err, messages.ErrSpawnFailed)
		synctest.Wait()
		if closed := probe.Of[messages.OutputClosed](s.events, nil); len(closed) != 1 || closed[0].Total != 10 {
			t.Errorf("%+v", closed)
		}
	})
}

func TestHeldBackBytesAreHereWhenTheLeaderHasExited(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		began := time.Now()
		got := s.exec(messages.ExecCommand{Argv: []string{"prompt", "say:3", "part", "leave:0", "wait"}})
		if !bytes.Equal(got.Output, []byte("xxx\xe2\x82")) || got.Running || !time.Now().Equal(began) {
			t.Errorf("%q after %v", got.Output, time.Since(began))
		}
	})
}

func TestOlderRulesNeverWin(t *testing.T) {
	var mu sync.Mutex
	var seen []*rules.Set
	plan := func(r policy.Request, s policy.Snapshot) policy.Plan {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, s.Rules)
		return policy.Plan{Decision: policy.Ask, CacheKey: fmt.Sprint(r.Argv)}
	}
	inBubble(t, bubbleOptions{plan: plan}, func(t *testing.T, b *bubble) {
		var none *rules.Set
		older, err := none.With([]string{"older"})
		if err != nil {
			t.Fatal(err)
		}
		newer, err := older.With([]string{"newer"})
		if err != nil {
			t.Fatal(err)
		}
		s := &asker{talk: b.open(nil)}
		s.listen()
		approval := b.only("/approval$")
		for _, rules := range []protocol.NewRules{{Version: 1, Rules: older}, {Version: 2, Rules: newer}, {Version: 1, Rules: older}} {
			b.system.Send(s.supervisor, rules)
			synctest.Wait()
			b.system.Send(approval, rules)
			synctest.Wait()
		}
		s.call(does("prompt", "wait"))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(seen, []*rules.Set{newer, newer}) { // one for the process, one for the approval actor
			t.Errorf("plans were made from %v, newer is %p", seen, newer)
		}
	})
}

func TestTheWarningCountFalls(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.WarnProcesses = 5, 2 })
		for range 3 {
			id := s.exec(does("prompt", "wait")).Process
			s.exec(does("prompt", "wait"))
			s.terminate(id)
			if last := s.list(); len(last) != 1 {
				t.Fatalf("%+v", last)
			}
			s.terminate(s.list()[0].Process)
		}
		synctest.Wait()
		warnings := probe.Of[messages.ProcessWarning](s.events, nil)
		for _, w := range warnings {
			if w.Processes != 2 {
				t.Errorf("%+v", w)
			}
		}
		if len(warnings) != 3 {
			t.Errorf("%d warnings", len(warnings))
		}
	})
}

func TestAnotherApprovalActorHasNoGrants(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := &asker{talk: b.open(nil)}
		s.listen()
		command := messages.ExecCommand{Argv: []string{"prompt", "asked"}}
		first := s.call(command)
		before := s.answer(messages.DecisionApprovedForSession)
		first.result()
		s.exec(command) // without a question
		b.crash(b.only("/approval$"))
		synctest.Wait()
		if notices := probe.Of[messages.ExecNotice](s.events, nil); len(notices) != 1 || notices[0].Session != s.id {
			t.Errorf("%+v", notices)
		}
		if left := s.grants(); len(left) > 0 {
			t.Errorf("%+v", left)
		}
		wantError(t, "a question of before", s.decide(before.ID, approved()), messages.ErrAlreadyResolved)
		again := s.call(command)
		if q := s.answer(messages.DecisionApproved); q.ID == before.ID {
			t.Errorf("%s was given twice", q.ID)
		}
		again.result()
	})
}

func TestTheRecordsOfAllSessionsAreBoundedTogether(t *testing.T) {
	const bound = 4 << 20
	inBubble(t, bubbleOptions{records: bound}, func(t *testing.T, b *bubble) {
		var all []*talk
		for range 30 {
			s := b.open(nil)
			all = append(all, s)
			for range 3 {
				s.exec(messages.ExecCommand{Argv: []string{"prompt", "say:100000"}})
			}
			synctest.Wait()
			if got := b.stats().Records; got > bound {
				t.Fatalf("%d bytes", got)
			}
		}
		var kept int
		for _, s := range all {
			kept += len(must[messages.Processes](b.host, s.supervisor, protocol.ListProcesses{Records: true}))
		}
		if one := int64(200_000); int64(kept) < bound/one-2 || kept == 90 {
			t.Errorf("%d of 90 records are kept", kept)
		}
		for _, s := range all[:29] {
			must[protocol.Done](b.host, s.supervisor, protocol.CloseSession{})
		}
		synctest.Wait()
		if got := b.stats().Records; got > 3*300_000 {
			t.Errorf("%d bytes of sessions that are closed", got)
		}
	})
}

func TestAMalformedRequestLeavesNoTrace(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		for _, bad := range []messages.ExecCommand{{}, {Argv: []string{"x"}, Script: "y"}, {Argv: []string{"x"}, Yield: new(time.Duration(-1))},
			{Script: "x", Shell: "/no/shell/of/any/kind"}, {Argv: []string{"x"}, Environment: &messages.EnvironmentPolicy{Inherit: "everything"}}} {
			_, err := ask[any](b.host, s.supervisor, bad)
			wantError(t, fmt.Sprintf("%+v", bad), err, messages.ErrInvalidRequest)
		}
		synctest.Wait()
		if seen := s.events.Seen(); len(seen) > 0 {
			t.Errorf("events: %+v", seen)
		}
		if all := must[messages.Processes](b.host, s.supervisor, protocol.ListProcesses{Records: true}); len(all) > 0 {
			t.Errorf("records: %+v", all)
		}
	})
}
