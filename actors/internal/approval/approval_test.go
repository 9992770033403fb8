package approval

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/tests/probe"
)

const id = messages.SessionID("s")

// desk is an approval actor with a session that notes what it gets.
type desk struct {
	t       *testing.T
	sys     *system.System
	actor   *system.PID
	session *probe.Probe
	plans   map[string]policy.Plan // by the directory of the request
}

func newDesk(t *testing.T, change func(*Config)) *desk {
	d := &desk{t: t, session: probe.New(t), plans: map[string]policy.Plan{}}
	d.sys = system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Unexpected: func(_ *system.PID, message any) { t.Errorf("unexpected: %T", message) }})
	all := bus.New(bus.Options{})
	listener, err := all.Subscribe(bus.Filter{Kinds: []messages.EventKind{messages.KindApprovalRequested}}, bus.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given := shared.Dependencies{Bus: all, Logger: slog.New(slog.DiscardHandler), MakePlan: func(r policy.Request, s policy.Snapshot) policy.Plan {
		plan := d.plans[r.Dir]
		if s.Granted(plan.CacheKey) {
			plan.Decision = policy.Run
		}
		return plan
	}}.WithDefaults().Session(id)
	keeper, err := d.sys.Spawn("rules", func(ctx *system.Context) {
		if m, is := ctx.Message().(protocol.Amend); is {
			ctx.Respond(protocol.Amended{Amend: m, Err: errors.New("it is a test")})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan *system.PID, 1)
	if _, err := d.sys.Spawn("session", func(ctx *system.Context) {
		d.session.Receive(ctx.Message())
		if _, is := ctx.Message().(system.Started); is {
			c := Config{Session: given, Rulebook: keeper, Rules: protocol.NewRules{Rules: &rules.Set{}}, Busy: make(chan struct{}, 1)}
			if change != nil {
				change(&c)
			}
			started <- Spawn(ctx, c)
		}
	}); err != nil {
		t.Fatal(err)
	}
	d.actor = <-started
	t.Cleanup(func() {
		if err := d.sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		listener.Close()
		all.Close()
	})
	return d
}

// consult asks about a command.
func (d *desk) consult(process messages.ProcessID, c protocol.Consult) {
	c.Process, c.Origin = process, messages.Origin{Session: id, Process: process}
	c.Request.Argv = []string{"make"}
	d.sys.Send(d.actor, c)
}

// questions returns the directories of the questions that wait, when that for last is among them: plans are made one after the other.
func (d *desk) questions(last string) []messages.Question {
	d.t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		all, err := system.Ask[messages.Questions](d.t.Context(), d.sys, d.actor, protocol.ListQuestions{})
		if err != nil || time.Now().After(late) {
			d.t.Fatalf("no question for %s: %+v, %v", last, all, err)
		}
		if slices.ContainsFunc(all, func(q messages.Question) bool { return q.Dir == last }) {
			return all
		}
	}
}

func TestOnlyEqualQuestionsMerge(t *testing.T) {
	ask := policy.Plan{Decision: policy.Ask, CacheKey: "key", FirstAttempt: policy.Sandboxed}
	plan := func(change func(*policy.Plan)) *policy.Plan { changed := ask; change(&changed); return &changed }
	base := func() protocol.Consult {
		return protocol.Consult{Request: policy.Request{Dir: "/one"}, Plan: ask, Snapshot: policy.Snapshot{Sandbox: messages.SandboxPolicy{
			Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/a"}}}}
	}
	for name, c := range map[string]struct {
		change func(*protocol.Consult)
		plan   *policy.Plan
		merge  bool
	}{
		"equal":                {func(*protocol.Consult) {}, &ask, true},
		"another command":      {func(*protocol.Consult) {}, plan(func(p *policy.Plan) { p.CacheKey = "other" }), false},
		"first outside":        {func(*protocol.Consult) {}, plan(func(p *policy.Plan) { p.FirstAttempt = policy.Unsandboxed }), false},
		"another sandbox":      {func(c *protocol.Consult) { c.Snapshot.Sandbox.WritableRoots = []string{"/a", "/b"} }, &ask, false},
		"another kind of it":   {func(c *protocol.Consult) { c.Snapshot.Sandbox.Type = messages.SandboxReadOnly }, &ask, false},
		"another policy":       {func(c *protocol.Consult) { c.Snapshot.Approval.Mode = messages.ApproveUntrusted }, &ask, false},
		"about a denial":       {func(c *protocol.Consult) { c.Denial = &messages.Denial{} }, plan(func(p *policy.Plan) { p.OnDenial = policy.AskTo }), false},
		"not to be remembered": {func(*protocol.Consult) {}, plan(func(p *policy.Plan) { p.CacheKey = "" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			d.plans["/one"], d.plans["/two"], d.plans["/last"] = ask, *c.plan, *plan(func(p *policy.Plan) { p.CacheKey = "last" })
			second, last := base(), base()
			second.Request.Dir, second.Plan, last.Request.Dir = "/two", *c.plan, "/last"
			c.change(&second)
			d.consult(1, base())
			d.consult(2, second)
			d.consult(3, last)
			if n := len(d.questions("/last")); (n == 2) != c.merge || n > 3 {
				t.Errorf("%d questions", n)
			}
		})
	}
}

// A rule that cannot be made is no reason to refuse a command that a person has allowed, and the next question goes on.
func TestARuleThatCannotBeMadeAllowsTheCommandOnce(t *testing.T) {
	d := newDesk(t, nil)
	d.plans["/one"] = policy.Plan{Decision: policy.Ask, CacheKey: "key", Amendment: []string{"make"}}
	d.consult(1, protocol.Consult{Request: policy.Request{Dir: "/one"}})
	q := d.questions("/one")[0]
	if _, err := system.Ask[protocol.Done](t.Context(), d.sys, d.actor, messages.Decide{Question: q.ID,
		Decision: messages.Decision{Kind: messages.DecisionApprovedWithRule}}); err != nil {
		t.Fatal(err)
	}
	probe.Expect(d.session, time.Minute, func(v protocol.Verdict) bool {
		return v.Process == 1 && v.Refusal == nil && v.Decision == messages.DecisionApprovedWithRule
	})
}

// Every consult has one verdict, however the actor ends.
func TestAnActorThatStopsAnswersWhatWaits(t *testing.T) {
	d := newDesk(t, nil)
	d.plans["/one"] = policy.Plan{Decision: policy.Ask, CacheKey: "key"}
	open := make(chan struct{})
	latch := protocol.NewLatch()
	latch <- func() { close(open) }
	d.consult(1, protocol.Consult{Request: policy.Request{Dir: "/one"}, Latch: latch})
	d.questions("/one")
	if err := d.sys.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-open // the verdict goes to a session that has ended
}
