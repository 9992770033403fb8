package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// reluctant is an approver that answers when it is told to, whatever its context says.
type reluctant struct {
	asked  chan messages.Question
	answer chan messages.Decision
	inside chan struct{} // holds a token during a call
}

func newReluctant() *reluctant {
	return &reluctant{asked: make(chan messages.Question, 10), answer: make(chan messages.Decision), inside: make(chan struct{}, 1)}
}

func (r *reluctant) approve(_ context.Context, q messages.Question) (messages.Decision, error) {
	select {
	case r.inside <- struct{}{}:
		defer func() { <-r.inside }()
	default:
		panic("it was called for two questions at once")
	}
	r.asked <- q
	return <-r.answer, nil
}

// gave is how often it was called.
func (r *reluctant) gave() int { return len(r.asked) }

func approved() messages.Decision { return messages.Decision{Kind: messages.DecisionApproved} }

func TestAnApproverThatNeverReturnsIsLeftAlone(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		r := newReluctant()
		s := b.open(func(c *shared.SessionConfig) { c.Approver = r.approve })
		defer func() { r.answer <- approved() }()
		first := s.call(does("prompt", "asked", "one"))
		synctest.Wait()
		second := s.call(does("prompt", "asked", "two"))
		time.Sleep(time.Hour) // it may take any time while a caller waits
		if first.answered(0) || second.answered(0) || r.gave() != 1 {
			t.Errorf("answered, or %d questions at once", r.gave())
		}
		first.cancel()
		synctest.Wait()
		if !first.answered(0) {
			t.Error("the cancelled call is not answered")
		}
		time.Sleep(soon.Approver - time.Millisecond)
		if second.answered(0) {
			t.Error("no patience")
		}
		third := s.call(does("prompt", "asked", "three"))
		time.Sleep(time.Second)
		for _, call := range []waiting{second, third, s.call(does("prompt", "asked", "four"))} {
			synctest.Wait()
			_, err := answerIs(t, call)
			if refused := wantError(t, "a question for an approver that hangs", err, messages.ErrRejected); refused.Hint == "" {
				t.Errorf("%+v", refused)
			}
		}
		if r.gave() != 1 {
			t.Errorf("called %d times", r.gave())
		}
	})
}

func TestAListenerAnswersInsteadOfAnApproverThatHangs(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		r := newReluctant()
		s := &asker{talk: b.open(func(c *shared.SessionConfig) { c.Approver = r.approve })}
		s.listen()
		first := s.call(does("prompt", "asked", "one"))
		s.answer(messages.DecisionDenied) // by the listener
		second := s.call(does("prompt", "asked", "two", "wait"))
		time.Sleep(time.Minute)
		if second.answered(0) || r.gave() != 1 {
			t.Errorf("answered, or %d calls at once", r.gave())
		}
		s.answer(messages.DecisionApproved)
		second.result()
		_, err := answerIs(t, first)
		wantError(t, "the first", err, messages.ErrRejected)
		third := s.call(does("prompt", "asked", "three", "wait"))
		synctest.Wait()
		r.answer <- approved() // to the first: it is free again
		synctest.Wait()
		if r.gave() != 2 {
			t.Errorf("called %d times", r.gave())
		}
		r.answer <- approved()
		third.result()
	})
}

func TestTheNextApprovalActorDoesNotCallAnApproverThatHasNotReturned(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		r := newReluctant()
		s := b.open(func(c *shared.SessionConfig) { c.Approver = r.approve })
		first := s.call(does("prompt", "asked", "one"))
		synctest.Wait()
		b.crash(b.only("/approval$"))
		synctest.Wait()
		_, err := answerIs(t, first)
		wantError(t, "what waited at the crash", err, messages.ErrRejected)
		second := s.call(does("prompt", "asked", "two"))
		time.Sleep(soon.Approver + time.Second)
		_, err = answerIs(t, second)
		if refused := wantError(t, "the approver is busy", err, messages.ErrRejected); !strings.Contains(refused.Detail, "it has not returned") {
			t.Errorf("%+v", refused)
		}
		r.answer <- approved()
		third := s.call(does("prompt", "asked", "three", "wait"))
		synctest.Wait()
		r.answer <- approved()
		third.result()
		if r.gave() != 2 {
			t.Errorf("called %d times", r.gave())
		}
	})
}

func TestASpawnerThatNeverReturnsIsAbandoned(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		one, other := b.open(nil), b.open(nil)
		call := one.call(does("foreign,spawn=hang", "say:7", "wait"))
		synctest.Wait()
		time.Sleep(time.Hour) // a start may take any time until it is terminated
		other.exec(does("prompt", "wait"))
		ending := one.call(messages.Terminate{Process: firstProcess})
		synctest.Wait()
		time.Sleep(soon.Spawn - time.Millisecond)
		if ending.answered(0) {
			t.Error("no patience")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if reply, err := answerIs(t, ending); err != nil || reply.(*messages.EndRecord).Cause != messages.CauseTerminated {
			t.Errorf("%+v, %v", reply, err)
		}
		_, err := answerIs(t, call)
		wantError(t, "the start", err, messages.ErrProcessEnded)
		if got := b.stats(); got.Hanging != 1 || got.Processes != 1 {
			t.Errorf("%+v", got)
		}
		_, err = ask[any](b.host, other.supervisor, does("prompt", "wait"))
		wantError(t, "a start while the spawner hangs", err, messages.ErrRuntimeFailure)
		close(b.machine.release) // it returns, with a child
		b.machine.release = make(chan struct{})
		synctest.Wait()
		children := b.machine.all()
		if ended, abandoned := children[len(children)-1].state(); len(children) != 2 || !ended || abandoned == 0 {
			t.Errorf("%d children; the late one has ended: %t, was given up %d times", len(children), ended, abandoned)
		}
		if got := b.stats(); got.Hanging != 0 {
			t.Errorf("%+v", got)
		}
		other.exec(does("prompt", "wait"))
		wantLastWords(t, b, one)
	})
}

func TestAChildThatNeverEndsIsAbandonedOnceAndNamed(t *testing.T) {
	for _, kind := range []string{"foreign,deaf", "foreign,end=hang,abandon=hang", "foreign,end=panic,abandon=panic", "foreign,end=leave,abandon=leave"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := b.open(nil)
				id := s.exec(does(kind, "say:10", "wait")).Process
				poll := s.call(messages.Poll{Process: id, NoTimeout: true})
				synctest.Wait() // until it has said it
				record, err := s.terminate(id)
				if err != nil || record.Cause != messages.CauseRuntimeFailure && record.Cause != messages.CauseTerminated || len(record.Tree.Survivors) != 1 {
					t.Fatalf("%+v, %v", record, err)
				}
				if named := record.Tree.Survivors[0]; named.PID != 1 || named.Name == "" {
					t.Errorf("%+v", named)
				}
				poll.result()
				time.Sleep(time.Hour)
				if _, abandoned := b.machine.all()[0].state(); abandoned != 1 {
					t.Errorf("it was given up %d times", abandoned)
				}
				if end := wantLastWords(t, b, s)[id]; end.Total != 10 {
					t.Errorf("%+v", end)
				}
				if got := b.stats(); got.Processes != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// The resolver is a host's own code, too.
func TestAResolverThatFailsFailsItsCommandOnly(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.Approval = messages.ApprovalPolicy{Mode: messages.ApproveUntrusted} })
		for _, how := range []string{"panic", "leave"} {
			_, err := ask[any](b.host, s.supervisor, does("prompt,resolve="+how, "wait"))
			wantError(t, how, err, messages.ErrRuntimeFailure)
		}
		hangs := s.call(messages.ExecCommand{Argv: []string{"prompt,resolve=hang"}, Yield: new(time.Second)})
		if got := hangs.result(); !got.Running {
			t.Errorf("%+v", got)
		} else if record, err := s.terminate(got.Process); err != nil || record.Cause != messages.CauseTerminated {
			t.Errorf("%+v, %v", record, err)
		}
		s.exec(does("prompt", "wait"))
		synctest.Wait()
		if got := len(probe.Of[messages.ExecEnded](s.events, nil)); got != 3 {
			t.Errorf("%d ends", got)
		}
	})
}

func TestAResolverThatNeverAnswersCostsSoManyGoroutines(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.Approval = messages.ApprovalPolicy{Mode: messages.ApproveUntrusted} })
		for range shared.MaxAsked + 40 {
			call := s.call(messages.ExecCommand{Argv: []string{"prompt,resolve=hang"}, Yield: new(time.Second)})
			if record, err := s.terminate(call.result().Process); err != nil || record.Cause != messages.CauseTerminated {
				t.Fatalf("%+v, %v", record, err)
			}
		}
		synctest.Wait()
		if got := b.machine.hangs(); got != shared.MaxAsked {
			t.Errorf("%d are asked and have not returned, want %d", got, shared.MaxAsked)
		}
	})
}

// A spawner may tell of a child and then fail. The child lives, so the actor that takes over from a crashed one must know it.
func TestAChildOfASpawnerThatFailedIsNotForgotten(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		s.exec(does("prompt", "wait"))
		b.system.Send(s.supervisor, protocol.NoChild{Process: firstProcess, Attempt: 1})
		b.crash(b.only("/process$"))
		synctest.Wait()
		wantNoChild(t, b)
		if end := wantLastWords(t, b, s)[firstProcess]; end.Tree.Ended != 1 {
			t.Errorf("%+v", end)
		}
	})
}

func TestNoEventFollowsAnEnd(t *testing.T) {
	// One question of two processes; each may go first, and the question be open or answered then.
	for n := range 8 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := &asker{talk: b.open(nil)}
				s.listen()
				calls := []waiting{s.call(does("prompt", "asked", "wait")), s.call(does("prompt", "asked", "wait"))}
				synctest.Wait()
				if waits := s.questions(); len(waits) != 1 {
					t.Fatalf("%d questions", len(waits))
				}
				id := messages.ProcessID(firstProcess + n%2)
				if n < 4 {
					calls[n%2].cancel()
				} else {
					s.system.Send(s.supervisor, messages.Terminate{Process: id})
				}
				if n%4 < 2 {
					synctest.Wait()
				}
				s.decide("q1", approved())
				synctest.Wait()
				for _, started := range s.list() {
					s.terminate(started.Process)
				}
				synctest.Wait() // until the ends have reached the subscriber
				ends := wantLastWords(t, b, s.talk)
				if len(ends) != 2 {
					t.Errorf("%+v", ends)
				}
				s.answeredOnce()
			})
		})
	}
}
