package actors

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// planner makes the same plan for every command, except for what grants and rules say. It counts the plans.
type planner struct {
	policy.Plan
	made atomic.Int64
}

// deadlyWord makes the plan crash.
const deadlyWord = "deadly"

func (p *planner) plan(r policy.Request, s policy.Snapshot) policy.Plan {
	if len(r.Argv) == 1 && r.Argv[0] == deadlyWord {
		panic("deadly")
	}
	defer p.made.Add(1)
	plan := p.Plan
	plan.Source, plan.CacheKey = messages.DecidedByPolicy, strings.Join(append([]string{r.Dir, string(plan.FirstAttempt), string(plan.OnDenial)}, r.Argv...), "\x00")
	if plan.FirstAttempt == "" {
		plan.FirstAttempt = policy.Sandboxed
	}
	if plan.OnDenial == "" {
		plan.OnDenial = policy.Return
	}
	switch rule, found := rules.Strictest(s.Rules.Match(r.Argv)); {
	case found && rule.Decision == rules.Allow:
		plan.Decision, plan.FirstAttempt, plan.Source = policy.Run, policy.Unsandboxed, messages.DecidedByRule
	case s.Granted == nil:
	case plan.OnDenial == policy.AskTo && s.Granted(policy.AfterDenial(plan.CacheKey)):
		plan.OnDenial, plan.Source = policy.Retry, messages.DecidedByCache
	case plan.Decision == policy.Ask && s.Granted(plan.CacheKey):
		plan.Decision, plan.Source = policy.Run, messages.DecidedByCache
	}
	return plan
}

// always asks about every command.
func always() *planner { return &planner{Plan: policy.Plan{Decision: policy.Ask, Reason: "because"}} }

// asker is a session whose commands are asked about, with a listener that can answer.
type asker struct {
	*talk
	planner *planner
	ears    *bus.Subscription
}

// newAsker opens a session on a host of its own; somebody listens.
func newAsker(t testing.TB, p *planner, o hostOptions, change func(*shared.SessionConfig)) *asker {
	t.Helper()
	o.plan = p.plan
	s := &asker{talk: newHost(t, o).open(change), planner: p}
	s.listen()
	return s
}

func (s *asker) listen() {
	s.t.Helper()
	ears, err := s.bus.Subscribe(bus.Filter{Sessions: []messages.SessionID{s.id}, Kinds: []messages.EventKind{messages.KindApprovalRequested}},
		bus.SubscribeOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.ears = ears
	s.t.Cleanup(ears.Close)
}

// question waits for the next question that is put.
func (s *asker) question() messages.ApprovalRequested {
	s.t.Helper()
	return probe.Expect[messages.ApprovalRequested](s.events, patience, nil)
}

func (s *asker) decide(id messages.QuestionID, d messages.Decision) error {
	_, err := ask[protocol.Done](s.host, s.supervisor, messages.Decide{Question: id, Decision: d})
	return err
}

// answer answers the next question.
func (s *asker) answer(kind messages.DecisionKind) messages.ApprovalRequested {
	s.t.Helper()
	q := s.question()
	if err := s.decide(q.ID, messages.Decision{Kind: kind}); err != nil {
		s.t.Fatal(err)
	}
	return q
}

func (s *asker) questions() messages.Questions {
	return must[messages.Questions](s.host, s.supervisor, protocol.ListQuestions{})
}

func (s *asker) grants() messages.Grants {
	return must[messages.Grants](s.host, s.supervisor, protocol.ListGrants{})
}

// waits waits until so many questions wait.
func (s *asker) waits(n int) {
	s.t.Helper()
	awaitThat(s.t, "the questions wait", func() bool { return len(s.questions()) == n })
}

// decidedBy checks the sources of all decisions, in any order: they were about several processes.
func (s *asker) decidedBy(want ...messages.DecisionSource) {
	s.t.Helper()
	var got []messages.DecisionSource
	awaitThat(s.t, "the decisions are told", func() bool {
		got = nil
		for _, d := range probe.Of[messages.ToolDecision](s.events, nil) {
			got = append(got, d.Source)
		}
		return len(got) >= len(want)
	})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("decided by %v, want %v", got, want)
	}
}

// nothingLeft checks that no process, slot or question is left, and that every question had one end.
func (s *asker) nothingLeft() {
	s.t.Helper()
	awaitThat(s.t, "no process is left", func() bool { return len(s.list()) == 0 && s.stats().Processes == 0 })
	awaitThat(s.t, "no question is left", func() bool { return len(s.questions()) == 0 })
	s.answeredOnce()
}

// answeredOnce checks that every question that was put was resolved, once.
func (s *asker) answeredOnce() {
	s.t.Helper()
	var put, resolved map[messages.QuestionID]int
	awaitThat(s.t, "every question is resolved", func() bool {
		put, resolved = map[messages.QuestionID]int{}, map[messages.QuestionID]int{}
		for _, message := range s.events.Seen() {
			switch e := message.(type) {
			case messages.ApprovalRequested:
				put[e.ID]++
			case messages.ApprovalResolved:
				resolved[e.Question]++
			}
		}
		return len(resolved) >= len(put)
	})
	for id, n := range put {
		if n != 1 || resolved[id] != 1 {
			s.t.Errorf("question %s was put %d times and resolved %d times", id, n, resolved[id])
		}
	}
	if len(resolved) > len(put) {
		s.t.Errorf("%d questions were put, and %d resolved", len(put), len(resolved))
	}
}

func (s *asker) neverStarted() {
	s.t.Helper()
	if started := probe.Of[messages.ExecStarted](s.events, nil); len(started) > 0 {
		s.t.Errorf("%d commands were started", len(started))
	}
}

// playful is a spawner that imitates a sandbox. It tells the child about the sandbox, and may report a denial.
type playful struct {
	ptyio.Spawner
	fact *messages.Denial // reported with every end of a sandboxed child

	mu       sync.Mutex
	launched []ptyio.Launch
}

// confined is the environment by which a child knows that it would be in a sandbox.
const confined = "CONFINED=1"

func (p *playful) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	p.mu.Lock()
	p.launched = append(p.launched, launch)
	p.mu.Unlock()
	if launch.Sandbox != nil {
		events := launch.Events
		launch.Sandbox, launch.Env = nil, append(slices.Clone(launch.Env), confined)
		launch.Events = func(e ptyio.Event) {
			if exit, ok := e.(ptyio.Exited); ok {
				exit.Denial = p.fact
				e = exit
			}
			events(e)
		}
	}
	return p.Spawner.Spawn(ctx, launch)
}

func (p *playful) Can(ptyio.Launch) (messages.Enforcement, error) {
	return messages.Enforcement{Level: messages.AssuranceIsolated}, nil
}

// launches says of every attempt whether it was sandboxed.
func (p *playful) launches() []bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sandboxed []bool
	for _, l := range p.launched {
		sandboxed = append(sandboxed, l.Sandbox != nil)
	}
	return sandboxed
}

// killApproval crashes the actor that asks.
func (s *asker) killApproval() {
	for _, pid := range s.actors("/approval$") {
		s.system.Send(pid, protocol.Consult{Request: policy.Request{Argv: []string{deadlyWord}}})
	}
}

// actors are those of this session whose name contains part.
func (s *asker) actors(part string) []*system.PID {
	return slices.DeleteFunc(s.host.actors(part), func(pid *system.PID) bool { return !strings.HasPrefix(pid.Id, s.supervisor.Id+"/") })
}

// approvesWithRule approves commands with a rule that cannot be made. Each runs nevertheless, with a warning.
func (s *asker) approvesWithRule(commands int) (warned []messages.ExecNotice) {
	s.t.Helper()
	for range commands {
		call := s.call(shell("echo 1"))
		if err := s.decide(s.question().ID, messages.Decision{Kind: messages.DecisionApprovedWithRule, Amendment: []string{"bash"}}); err != nil {
			s.t.Fatal(err)
		}
		wantCode(s.t, call.result(), 0)
	}
	s.nothingLeft()
	awaitThat(s.t, "the warnings", func() bool {
		warned = probe.Of[messages.ExecNotice](s.events, nil)
		return len(warned) >= commands
	})
	return warned
}
