package actors

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// wantLastWords checks of every process of which there was an event that its end is one, its last event, and has the total of
// its output; and that every child has ended, unless it is deaf.
func wantLastWords(t testing.TB, b *bubble, s *talk) map[messages.ProcessID]messages.ExecEnded {
	t.Helper()
	synctest.Wait()
	ends, totals := map[messages.ProcessID]messages.ExecEnded{}, map[messages.ProcessID]int64{}
	seen := map[messages.ProcessID]bool{}
	for _, message := range s.events.Seen() {
		event := message.(messages.Event)
		id := event.From().Process
		if id == 0 {
			continue
		}
		seen[id] = true
		if end, ended := ends[id]; ended {
			t.Errorf("%s: after the end of %d (%v) comes %T %+v", s.id, id, &end.EndRecord, event, event)
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			if e.Offset != totals[id] {
				t.Errorf("%s: output of %d at %d, want %d", s.id, id, e.Offset, totals[id])
			}
			totals[id] += int64(len(e.Bytes))
		case messages.ExecEnded:
			ends[id] = e
			if e.Total != totals[id] {
				t.Errorf("%s: the total of %d is %d, want %d: %v", s.id, id, e.Total, totals[id], &e.EndRecord)
			}
		}
	}
	for id := range seen {
		if _, ended := ends[id]; !ended {
			t.Errorf("%s: %d has not ended", s.id, id)
		}
	}
	return ends
}

// wantNoChild checks that every child has ended, or was given up.
func wantNoChild(t testing.TB, b *bubble) {
	t.Helper()
	for _, c := range b.machine.all() {
		if ended, abandoned := c.state(); !ended && (!c.deaf && c.traits["abandon"] == "" || abandoned == 0) {
			t.Errorf("the child of %q lives, and was given up %d times", c.launch.Argv, abandoned)
		}
	}
}

// stages are commands, and the actions that bring them into each state of a process.
var stages = []struct {
	name  string
	argv  []string
	state messages.ProcessState
	said  int64
}{
	{"awaiting approval", []string{"prompt", "asked", "wait"}, messages.StateAwaitingApproval, 0},
	{"starting", []string{"prompt,spawn=late", "say:10", "wait"}, messages.StateStarting, 0},
	{"running", []string{"prompt", "say:10", "wait"}, messages.StateRunning, 10},
	{"running, not ours", []string{"foreign", "say:10", "wait"}, messages.StateRunning, 10},
	{"asked again", []string{"prompt", "say:10", "again", "denied"}, messages.StateStarting, 10},
	{"starting again", []string{"prompt,respawn=late", "say:10", "retry", "denied"}, messages.StateStarting, 10},
	{"exited", []string{"prompt", "say:10", "leave:5", "wait"}, messages.StateExited, 10},
	{"deaf", []string{"deaf", "say:10", "wait"}, messages.StateRunning, 10},
}

// eachCrash crashes actors with a process in each state, while calls wait for it, and checks that their obligations are met.
func eachCrash(t *testing.T, crash func(b *bubble, s *talk, process *system.PID)) {
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := b.open(nil)
				(&asker{talk: s}).listen()
				call := s.call(messages.ExecCommand{Argv: stage.argv, Yield: new(messages.MaxYield)})
				synctest.Wait()
				listed := s.list()
				if len(listed) != 1 || listed[0].State != stage.state {
					t.Fatalf("the list: %+v", listed)
				}
				id := listed[0].Process
				calls := []waiting{call, s.call(messages.Poll{Process: id, NoTimeout: true}), s.call(awaiting(id)),
					s.call(awaiting(id, id)), s.call(messages.ReadOutput{Process: id, Tail: 1, Wait: time.Minute})}
				crash(b, s, b.only("/process$"))
				time.Sleep(time.Minute)
				for i, call := range calls {
					if _, err := answerIs(t, call); err == nil && i == 1 {
						t.Errorf("call %d was answered without an error", i)
					}
				}
				ends := wantLastWords(t, b, s)
				if end, ended := ends[id]; ended && (end.Cause != messages.CauseRuntimeFailure || end.Total != stage.said) {
					t.Errorf("the end: %v with %d bytes, want %d", &end.EndRecord, end.Total, stage.said)
				} else if !ended {
					t.Error("there is no end")
				}
				wantNoChild(t, b)
				if got := b.stats(); got.Processes != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func TestAProcessActorCrashesInEachState(t *testing.T) {
	eachCrash(t, func(b *bubble, _ *talk, process *system.PID) { b.crash(process) })
}

func TestASupervisorCrashesWithAProcessInEachState(t *testing.T) {
	eachCrash(t, func(b *bubble, s *talk, _ *system.PID) { b.crash(s.supervisor) })
}

func TestAProcessActorAndItsSupervisorCrash(t *testing.T) {
	eachCrash(t, func(b *bubble, s *talk, process *system.PID) {
		// The supervisor crashes while the report of the other crash is in its mailbox.
		hold := newStop(func(self *system.PID, message any) bool {
			_, list := message.(protocol.ListProcesses)
			return list
		})
		b.fault(hold.before)
		s.call(protocol.ListProcesses{})
		<-hold.there
		b.crash(s.supervisor)
		b.crash(process)
		synctest.Wait()
		close(hold.goes)
	})
}

func TestASupervisorCrashesAtTheNewsOfACrash(t *testing.T) {
	for _, at := range []string{"lastWords", "Crashed"} {
		t.Run(at, func(t *testing.T) {
			eachCrash(t, func(b *bubble, s *talk, process *system.PID) {
				b.fault(func(self *system.PID, message any) {
					if self.Equal(s.supervisor) && strings.HasSuffix(fmt.Sprintf("%T", message), "."+at) {
						panic("deliberate")
					}
				})
				b.crash(process)
			})
		})
	}
}

func TestAnApprovalActorAndAProcessActorCrash(t *testing.T) {
	t.Run("the process first", func(t *testing.T) {
		eachCrash(t, func(b *bubble, _ *talk, process *system.PID) {
			b.crash(process)
			b.crash(b.only("/approval$"))
		})
	})
	// The process crashes before it hears of the other crash: if it heard, one that waits for an answer would end without a crash.
	t.Run("the approval actor first", func(t *testing.T) {
		eachCrash(t, func(b *bubble, s *talk, process *system.PID) {
			hold := newStop(func(self *system.PID, message any) bool { return self.Equal(process) })
			b.fault(hold.before)
			s.call(messages.Poll{Process: s.list()[0].Process})
			<-hold.there
			b.crash(process)
			b.crash(b.only("/approval$"))
			synctest.Wait()
			close(hold.goes)
		})
	})
}

// Requests in the mailbox of a process are answered, too, if its session crashes.
func TestARequestInAMailboxIsAnswered(t *testing.T) {
	for name, crash := range map[string]func(b *bubble, s *talk, process *system.PID){
		"the session crashes": func(b *bubble, s *talk, _ *system.PID) { b.crash(s.supervisor) },
		"the process crashes": func(b *bubble, _ *talk, process *system.PID) { b.crash(process) },
		"the runtime crashes": func(b *bubble, _ *talk, _ *system.PID) { b.crash(b.runtime) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := b.open(nil)
				id := s.exec(does("prompt", "wait")).Process
				process := b.only("/process$")
				hold := newStop(func(self *system.PID, message any) bool { return self.Equal(process) })
				b.fault(hold.before)
				first := s.call(messages.Poll{Process: id, NoTimeout: true})
				<-hold.there
				calls := []waiting{first, s.call(messages.Poll{Process: id}), s.call(messages.Signal{Process: id, Signal: 1}),
					s.call(messages.CloseStdin{Process: id}), s.call(messages.ReadOutput{Process: id, Tail: 1})}
				synctest.Wait()
				crash(b, s, process)
				synctest.Wait()
				close(hold.goes)
				synctest.Wait()
				for _, call := range calls {
					answerIs(t, call)
				}
			})
		})
	}
}

func TestACallerThatClosesACrashingRuntimeIsAnswered(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		s.exec(does("deaf", "wait"))
		closing := waiting{s, b.system.Call(b.runtime, CloseRuntime{})}
		synctest.Wait()
		b.crash(b.runtime)
		synctest.Wait()
		if _, err := answerIs(t, closing); err == nil {
			t.Error("it was closed")
		}
		wantLastWords(t, b, s)
	})
}

// A wait over several processes uses them. If its actor crashes they are free.
func TestAWaitThatCrashesUsesNoProcessAnyMore(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = 2, 0 })
		ids := []messages.ProcessID{s.exec(does("prompt", "wait")).Process, s.exec(does("prompt", "wait")).Process}
		waits := s.call(awaiting(ids...))
		synctest.Wait()
		_, err := ask[any](b.host, s.supervisor, does("prompt", "wait"))
		wantError(t, "while both are waited for", err, messages.ErrLimitReached)
		b.crash(b.only("/wait$"))
		synctest.Wait()
		_, err = answerIs(t, waits)
		wantError(t, "the wait", err, messages.ErrRuntimeFailure)
		s.exec(does("prompt", "wait"))
		if end := probe.Expect[messages.ExecEnded](s.events, patience, func(e messages.ExecEnded) bool { return e.By != "" }); end.Process != ids[0] {
			t.Errorf("%+v", end)
		}
	})
}

// The child may end between the last words of its actor and the report of the crash.
func TestACrashIsNotClosedBeforeItIsKnown(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		id := s.exec(does("prompt", "wait")).Process
		process := b.only("/process$")
		poll := s.call(messages.Poll{Process: id, NoTimeout: true})
		synctest.Wait()
		hold := newStop(func(self *system.PID, message any) bool { return self.Equal(process) })
		b.fault(hold.before)
		b.system.Send(s.supervisor, protocol.Handover{Process: id, Output: output.New(), Event: protocol.EndEvent{Bus: b.bus, Origin: messages.Origin{Session: s.id, Process: id}}})
		b.machine.all()[0].kill()
		synctest.Wait()
		if ends := s.endsOf(id); len(ends) > 0 {
			t.Errorf("closed: %+v", ends)
		}
		b.fault(func(self *system.PID, _ any) {
			if self.Equal(process) {
				panic("deliberate")
			}
		})
		close(hold.goes)
		synctest.Wait()
		answerIs(t, poll)
		wantLastWords(t, b, s)
	})
}

// A question that was in a mailbox when the session crashed is never put.
func TestASupervisorCrashesAtAQuestion(t *testing.T) {
	for _, at := range []struct {
		name string
		at   func(self *system.PID, message any) bool
	}{
		{"that it passes on", func(self *system.PID, message any) bool {
			return strings.Contains(self.Id[strings.LastIndex(self.Id, "/"):], "session$") && isA[protocol.Consult](self, message)
		}},
		{"and with it the actor that asks", func(self *system.PID, message any) bool {
			return strings.Contains(self.Id[strings.LastIndex(self.Id, "/"):], "approval$") && isA[protocol.Consult](self, message)
		}},
	} {
		t.Run(at.name, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := &asker{talk: b.open(nil)}
				s.listen()
				b.fault(func(self *system.PID, message any) {
					if at.at(self, message) {
						b.crash(s.supervisor)
						panic("deliberate")
					}
				})
				// The first attempt has an event, so there is an end.
				call := s.call(messages.ExecCommand{Argv: []string{"prompt", "say:10", "again", "denied"}})
				synctest.Wait()
				if _, err := answerIs(t, call); err == nil {
					t.Error("it was answered without an error")
				}
				if end, ended := wantLastWords(t, b, s.talk)[firstProcess]; !ended || end.Total != 10 {
					t.Errorf("%+v", end)
				}
			})
		})
	}
}
