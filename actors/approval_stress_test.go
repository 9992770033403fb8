package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/tests/probe"
)

// moody makes plans by the first letter of a script.
func moody(r policy.Request, s policy.Snapshot) policy.Plan {
	plans := map[byte]policy.Plan{'r': returns, 't': retries, 'a': asks, 'b': both, 'q': {Decision: policy.Ask},
		'n': {Decision: policy.Reject, Reason: "never"}}
	p := planner{Plan: plans[r.Argv[len(r.Argv)-1][2]]}
	return p.plan(r, s)
}

// moods are those letters. The output of a script distinguishes the attempts.
const moods = "rtabqn"

func moodyScript() string {
	return fmt.Sprintf(`: %c%d; if [ -n "$CONFINED" ]; then exit 7; fi; echo ran`, moods[rand.IntN(len(moods))], rand.IntN(4))
}

// verdicts are the possible answers of a person.
func anyDecision() messages.Decision {
	kinds := []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedForSession, messages.DecisionApprovedWithRule, messages.DecisionDenied, messages.DecisionAborted}
	d := messages.Decision{Kind: kinds[rand.IntN(len(kinds))]}
	if d.Kind == messages.DecisionApprovedWithRule {
		d.Amendment = []string{"bash", "-c", fmt.Sprint("a rule that matches nothing ", rand.IntN(3))}
	}
	return d
}

// disturb does something to a session whose commands are asked about.
func (s *asker) disturb(calls []waiting) {
	switch rand.IntN(7) {
	case 0, 1:
		if waits := s.questions(); len(waits) > 0 {
			s.decide(waits[rand.IntN(len(waits))].ID, anyDecision())
		}
	case 2:
		calls[rand.IntN(len(calls))].cancel()
	case 3:
		if all := s.list(); len(all) > 0 {
			s.system.Send(s.supervisor, messages.Terminate{Process: all[rand.IntN(len(all))].Process})
		}
	case 4:
		if actors := s.actors("/process$"); len(actors) > 0 && rand.IntN(4) == 0 {
			s.system.Send(actors[rand.IntN(len(actors))], deliberate{})
		}
	case 5:
		if granted := s.grants(); len(granted) > 0 {
			s.system.Send(s.supervisor, messages.RevokeGrant{Grant: granted[0].ID})
		}
	case 6:
		s.ears.Close()
		s.listen()
	}
}

func TestEveryQuestionAndEveryCallEndsOnceAmongCrashes(t *testing.T) {
	sandbox := &playful{Spawner: realSpawner(t, hostOptions{}), fact: noWrite}
	h := newHost(t, hostOptions{seam: seam{Spawner: sandbox}, plan: moody})
	var all sync.WaitGroup
	turn := make(chan struct{}, 4)
	for n := range max(share(3000)/5, 1) {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			h.askAround(n)
		})
	}
	all.Wait()
	awaitThat(t, "no slot is taken", func() bool { return h.stats().Processes == 0 })
}

// askAround lives through one session: many commands, disturbances, and one of several ends.
func (h *host) askAround(n int) {
	approver := func(ctx context.Context, _ messages.Question) (messages.Decision, error) {
		switch rand.IntN(4) {
		case 0:
			panic("deliberate")
		case 1:
			return messages.Decision{}, errors.New("no idea")
		case 2:
			<-ctx.Done()
			return messages.Decision{}, ctx.Err()
		}
		return anyDecision(), nil
	}
	s := &asker{talk: h.open(func(c *shared.SessionConfig) {
		c.Session = messages.SessionID(fmt.Sprint("asked ", n))
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxReadOnly}
		if n%2 == 0 {
			c.Approver = approver
		}
	})}
	s.listen()
	var calls []waiting
	for range 20 {
		var command any = shell(moodyScript())
		switch rand.IntN(4) {
		case 0:
			command = messages.RunCommand{Argv: []string{"bash", "-c", moodyScript()}}
		case 1:
			command = quick(moodyScript())
		}
		calls = append(calls, s.call(command))
		s.disturb(calls)
	}
	for range 20 {
		s.disturb(calls)
	}
	s.finishAsking(n, calls)
}

// finishAsking ends the session, and finds the calls and questions that were not answered.
func (s *asker) finishAsking(n int, calls []waiting) {
	if n%5 == 0 { // the actor that asks dies first
		s.killApproval()
	}
	if n%3 == 0 {
		must[protocol.Done](s.host, s.supervisor, protocol.TerminateAll{})
	}
	must[protocol.Done](s.host, s.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
	for _, call := range calls {
		call.reply()
	}
	s.answeredOnce()
	awaitThat(s.t, "every command has ended", func() bool { return len(probe.Of[messages.ExecEnded](s.events, nil)) >= len(calls) })
	started, ended := map[messages.ProcessID]int{}, map[messages.ProcessID]int{}
	for _, e := range probe.Of[messages.ExecStarted](s.events, nil) {
		started[e.Process]++
	}
	for _, e := range probe.Of[messages.ExecEnded](s.events, nil) {
		ended[e.Process]++
		if e.Cause == messages.CauseRejected && started[e.Process] > 0 {
			s.t.Errorf("process %d was rejected and had been started", e.Process)
		}
	}
	for id, count := range ended {
		if count != 1 || started[id] > 1 {
			s.t.Errorf("process %d was started %d times and ended %d times", id, started[id], count)
		}
	}
	if len(ended) != len(calls) {
		s.t.Errorf("%d of %d commands ended", len(ended), len(calls))
	}
}
