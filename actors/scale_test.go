package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// bare opens a session that nobody watches.
func (b *bubble) bare(n int) *talk {
	b.t.Helper()
	id := messages.SessionID(fmt.Sprint("bare-", n))
	return &talk{host: b.host, id: id, supervisor: must[*system.PID](b.host, b.runtime, OpenSession{shared.SessionConfig{Session: id, Dir: "/",
		LongestPoll: messages.DefaultMaxPoll, OutputTokens: messages.DefaultOutputTokens, MaxProcesses: 64, WarnProcesses: 60, Protected: 8,
		Sandbox: messages.SandboxPolicy{Type: messages.SandboxReadOnly}, Approval: messages.ApprovalPolicy{Mode: messages.ApproveNever}}})}
}

func TestTenThousandSessions(t *testing.T) {
	n := max(share(10_000), 2_000)
	inBubble(t, bubbleOptions{max: n}, func(t *testing.T, b *bubble) {
		var all []*talk
		for i := range n {
			s := b.bare(i)
			all = append(all, s)
			if i%10 == 0 {
				s.exec(does("prompt", "say:10", "wait"))
			}
		}
		synctest.Wait()
		if got := b.stats(); got.Sessions != n || got.Processes != n/10 {
			t.Errorf("%+v", got)
		}
		for i, s := range all {
			if i%2 == 0 {
				b.system.Send(s.supervisor, protocol.CloseSession{})
			}
		}
		synctest.Wait()
		if got := b.stats(); got.Sessions != n/2 || got.Processes != 0 || got.Ended[messages.CauseTerminated] != uint64(n/10) || got.Records != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestTenThousandWaits(t *testing.T) {
	n := max(share(10_000), 2_000)
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.bare(0)
		var ids []messages.ProcessID
		for range 4 {
			ids = append(ids, s.exec(does("prompt", "wait")).Process)
		}
		kinds := []messages.Wait{awaiting(ids[:1]...), awaiting(ids...), anyOf(ids...), within(time.Minute, awaiting(ids[1:]...)),
			within(time.Minute, awaiting(ids[:1]...))}
		var calls []waiting
		for i := range n {
			calls = append(calls, s.call(kinds[i%len(kinds)]))
		}
		synctest.Wait()
		left := 0
		for i, call := range calls { // every ninth call is cancelled
			if i%9 == 0 {
				call.cancel()
			} else if kind := kinds[i%len(kinds)]; kind.NoTimeout {
				left++
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for i, call := range calls {
			over := i%9 == 0 || kinds[i%len(kinds)].Yield != nil
			if call.answered(0) != over {
				t.Fatalf("wait %d: answered %t", i, !over)
			}
		}
		if waits := b.actors("/wait$"); len(waits) != left {
			t.Errorf("%d actors wait", len(waits))
		}
		s.terminate(ids[0])
		synctest.Wait()
		for i, call := range calls {
			if i%9 == 0 && kinds[i%len(kinds)].NoTimeout {
				_, err := answerIs(t, call)
				wantError(t, "a cancelled wait", err, messages.ErrCancelled)
			} else if kind := kinds[i%len(kinds)]; (i%9 == 0 || kind.Any || kind.Yield != nil || len(kind.For) == 1) != call.answered(0) {
				t.Fatalf("wait %d: answered %t", i, call.answered(0))
			}
		}
		must[protocol.Done](b.host, s.supervisor, protocol.TerminateAll{})
		synctest.Wait()
		for _, call := range calls {
			answerIs(t, call)
		}
		if waits := b.actors("/wait$"); len(waits) > 0 {
			t.Errorf("%d actors wait", len(waits))
		}
	})
}

// The list of waiting starts is served in linear time: twenty times as many take some twenty times as long, not four hundred
// times. The limit lies far from both, and a machine that is busy with something else gets more tries.
func TestWaitingStartsAreServedInLinearTime(t *testing.T) {
	sys := system.NewSystem(discarding, system.Options{})
	took := func(n int) time.Duration {
		runtime, err := StartRuntime(sys, shared.Dependencies{Bus: bus.New(bus.Options{}), Spawner: newFiction(), Logger: discarding, MaxProcesses: 1})
		if err != nil {
			t.Fatal(err)
		}
		return applyMany(t, sys, runtime, n)
	}
	few, many := time.Hour, time.Hour
	for tries := 0; tries < 5 || tries < 40 && many > 150*few; tries++ {
		few, many = min(few, took(1_500)), min(many, took(30_000))
	}
	t.Logf("1,500: %v, 30,000: %v", few, many)
	if many > 150*few {
		t.Errorf("1,500 took %v, 30,000 %v", few, many)
	}
	if err := sys.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// applyMany applies for slots, takes every second one back, the last first, and gives slots back until all are served or refused.
func applyMany(t *testing.T, sys *system.System, runtime *system.PID, n int) time.Duration {
	t.Helper()
	served := make(chan struct{})
	answers := 0
	began := time.Now()
	_, err := sys.Spawn("applicants", func(ctx *system.Context) {
		switch ctx.Message().(type) {
		case system.Started:
			for i := range n {
				ctx.Request(runtime, protocol.TakeSlot{Process: messages.ProcessID(i)})
			}
			for i := n - 1; i > 0; i -= 2 {
				ctx.Request(runtime, protocol.WithdrawSlot{Process: messages.ProcessID(i)})
			}
			for range n / 2 {
				ctx.Request(runtime, protocol.GiveSlot{})
			}
		case protocol.SlotTaken:
			if answers++; answers == n/2 {
				close(served)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-served:
	case <-time.After(patience):
		t.Fatal("not all were answered")
	}
	return time.Since(began)
}

// Three waiting readers and a caller that polls read one flood: each reader has all of it, or knows exactly how much it
// has missed.
func TestThreeReadersAndAPollerOfAFlood(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.bare(0)
		words := []string{"prompt"}
		const all = 60 * 200_000
		for range 60 {
			words = append(words, "say:200000", "sleep:1")
		}
		id := s.exec(does(words...)).Process
		results := make(chan string, 4)
		for n := range 3 {
			go func() { results <- s.readAll(id, n, all) }()
		}
		go func() { results <- s.pollAll(id, all) }()
		for range 4 {
			if complaint := <-results; complaint != "" {
				t.Error(complaint)
			}
		}
	})
}

// readAll reads as a waiting reader does; reader 2 is slow.
func (s *talk) readAll(id messages.ProcessID, n int, all int64) string {
	var read, missed int64
	for {
		at := read + missed
		page := must[*messages.OutputPage](s.host, s.supervisor, messages.ReadOutput{Process: id, Offset: &at, Wait: 10 * time.Second, SkipLost: true})
		missed += page.Missed
		for _, chunk := range page.Chunks {
			if chunk.Offset != read+missed {
				return fmt.Sprintf("reader %d: a chunk at %d, want %d", n, chunk.Offset, read+missed)
			}
			read += int64(len(chunk.Bytes))
		}
		switch {
		case !page.Ended || read+missed < page.Total:
		case read+missed != all || n < 2 && missed > 0 || n == 2 && missed == 0:
			return fmt.Sprintf("reader %d: %d bytes, %d missed", n, read, missed)
		default:
			return ""
		}
		if n == 2 {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// pollAll takes the output that no other poll has taken.
func (s *talk) pollAll(id messages.ProcessID, all int64) string {
	var got int64
	for {
		result := must[*messages.Result](s.host, s.supervisor, messages.Poll{Process: id})
		if got += int64(len(result.Output)) + result.Omitted; !result.Running {
			break
		}
	}
	if got != all {
		return fmt.Sprintf("the polls have %d bytes, want %d", got, all)
	}
	return ""
}
