package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// watch is what a decision says about the programs that the command executes.
type watch struct {
	mode    messages.ExecutionMode // off: none is seen
	bare    bool                   // nothing confines the commands of the session, which asks for it all the same
	known   bool                   // the spawner can show them
	refused error                  // the session demands it, and the spawner cannot
}

// watchFor finds out what is seen of a command whose session has this enclosure, in attempts that the enclosure confines. can is
// Spawner.Can.
func watchFor(s *shared.Settings, enclosure ptyio.Enclosure, can func(ptyio.Launch) (messages.Enforcement, error)) watch {
	w := watch{mode: s.Executions, bare: !s.Sandbox.Confined()}
	if w.mode == "" && !w.bare && s.Rules.Strict() {
		w.mode = messages.ExecutionsEnforce
	}
	if w.mode == "" || w.mode == messages.ExecutionsOff || !w.bare && enclosure == nil { // without one the command is refused
		return watch{mode: messages.ExecutionsOff}
	}
	enforced, err := can(ptyio.Launch{Sandbox: enclosure, Executions: &ptyio.Executions{Seen: func([]ptyio.Execution, int) {}, Unconfined: w.bare}})
	w.known = err == nil && enforced.Executions
	if err == nil && !w.known && s.Executions != "" {
		w.refused = unseen(s.Executions, enforced)
	}
	return w
}

// enforces reports whether rules hold for what it executes.
func (w watch) enforces() bool { return w.mode == messages.ExecutionsEnforce && w.known }

// unseen is the error of a command whose executions the spawner cannot show. The spawner says why.
func unseen(mode messages.ExecutionMode, e messages.Enforcement) error {
	why := "the spawner does not say why"
	if at := slices.IndexFunc(e.Missing, func(m messages.Missing) bool { return m.What == messages.MissingExecutions }); at >= 0 {
		why = e.Missing[at].Why
	}
	return &messages.Error{Code: messages.ErrUnsupported, Op: "exec", Subject: "executions",
		Detail: fmt.Sprintf("the session demands %q for the programs that commands execute, and they cannot be seen here: %s; choose off, or leave it out", string(mode), why),
		Hint:   "see SessionOptions.Executions"}
}

// watched reports whether executions are seen in the attempt that is decided about.
func (d *decision) watched() bool {
	return d.watch.mode != messages.ExecutionsOff && (d.watch.bare || d.sandbox() != nil)
}

// executions is what the spawner is told to show of the next attempt; nil for nothing.
func (p *process) executions() *ptyio.Executions {
	d := p.decision
	if d.watch.mode == messages.ExecutionsOff || !d.watch.bare && d.launch.Sandbox == nil {
		p.executed.mode = messages.ExecutionsOff
		return nil
	}
	j := &judge{system: p.ctx.System(), process: p.ctx.Self(), session: p.supervisor, id: p.id, plan: p.MakePlan, snapshot: d.snapshot, planned: policy.Planned(d.request),
		tokens: make(chan struct{}, maxSeen), unseen: make(chan int64, 1)}
	p.executed.judge, p.executed.mode = j, d.watch.mode
	if !d.watch.known {
		p.executed.mode = messages.ExecutionsOff
	}
	x := &ptyio.Executions{Seen: j.seen, Unconfined: d.watch.bare}
	names := d.snapshot.Rules.StrictNames()
	if d.watch.mode == messages.ExecutionsReport {
		j.names = names
		return x
	}
	x.Judge = j.judge
	if x.Names = slices.DeleteFunc(names, func(name string) bool { return len(name) > maxName }); len(x.Names) > ptyio.MaxExecutionNames {
		x.Names, x.All = nil, true
	}
	return x
}

// maxName is the length of the longest name that a file can have, in bytes.
const maxName = 255

// maxSeen bounds the messages about executions that wait for the actor of a process.
const maxSeen = 64

// judge answers for the executions of one attempt, in goroutines of the spawner. It never changes.
type judge struct {
	system           *system.System
	process, session *system.PID
	id               messages.ProcessID
	plan             func(policy.Request, policy.Snapshot) policy.Plan
	snapshot         policy.Snapshot
	planned          []policy.PlannedCommand
	names            []string      // those that rules mention, where none is judged
	tokens           chan struct{} // has one for each message that waits or will come
	unseen           chan int64    // how many executions the actor was not told of; empty: none
}

// seen is from the goroutines of a judge to its process.
type seen struct {
	batch      []messages.Execution
	unreported int64
	tokens     chan struct{}
}

// Discard gives the token back.
func (m seen) Discard() { <-m.tokens }

// judge decides about one execution. It waits for a person where a rule asks. The process is told of a refusal before the answer, and of
// what is allowed when it is known whether the answer was in time. The rules do not change, so what meets none of them never will.
func (j *judge) judge(ctx context.Context, e ptyio.Execution, hold func()) (ptyio.Verdict, func(error)) {
	about := &policy.Execution{Execution: executionOf(e), Process: j.id, Planned: j.planned}
	request := about.Request()
	plan := j.plan(request, j.snapshot)
	v := protocol.Verdict{Plan: plan, Source: plan.Source}
	switch plan.Decision {
	case policy.Run:
	case policy.Ask:
		hold()
		v = j.ask(ctx, request, plan)
	default:
		v.Refusal = shared.Rejected(plan.Reason)
	}
	x := about.Execution
	x.Rule, x.Source, x.Decision = plan.Rule, v.Source, v.Decision
	if plan.Rule == "" && v.Refusal == nil {
		x.Source = ""
	}
	if v.Refusal != nil {
		x.Refused, x.Reason = true, v.Refusal.Detail
	}
	x = shortened(x)
	if !j.room(ctx) {
		return ptyio.Refused, nil
	}
	if x.Refused {
		j.tell(x)
		return ptyio.Refused, nil
	}
	verdict := ptyio.Allowed
	if x.Rule == "" {
		verdict = ptyio.AllowedAlike
	}
	return verdict, func(late error) {
		if late != nil {
			x.Refused, x.Reason, x.Source, x.Decision = true, unjudged(late), messages.DecidedByAbsence, ""
		}
		j.tell(x)
	}
}

// unjudged is why an execution is refused that no answer has reached.
func unjudged(cause error) string {
	if errors.Is(cause, ptyio.ErrJudgedLate) {
		return ptyio.ErrJudgedLate.Error()
	}
	return "the process that was to execute it has ended"
}

// ask asks a person.
func (j *judge) ask(ctx context.Context, request policy.Request, plan policy.Plan) protocol.Verdict {
	v, err := protocol.Inquire(ctx, func(m any) { j.system.Send(j.session, m) }, j.id, request)
	if err != nil {
		return protocol.Verdict{Plan: plan, Source: messages.DecidedByAbsence, Refusal: shared.Rejected(unjudged(context.Cause(ctx)))}
	}
	return v
}

// lastRoom is how long what became of an execution waits for room when nobody waits for its answer any more. The end of a tree waits
// longer for what is said of its executions.
const lastRoom = time.Second

// room waits until there is room to tell the process of an execution, so that every judged one is in the events: also one whose context has
// ended, but not for ever. It reports whether there is.
func (j *judge) room(ctx context.Context) bool {
	select {
	case j.tokens <- struct{}{}:
		return true
	default:
	}
	select {
	case j.tokens <- struct{}{}:
		return true
	case <-ctx.Done():
	}
	late := time.NewTimer(lastRoom)
	defer late.Stop()
	select {
	case j.tokens <- struct{}{}:
		return true
	case <-late.C:
		j.miss(1)
		return false
	}
}

// tell tells the process of one execution, once there is room.
func (j *judge) tell(x messages.Execution) {
	j.system.Send(j.process, seen{batch: []messages.Execution{x}, tokens: j.tokens})
}

// seen tells the process of executions that nobody judges. Where there is no room they are only counted.
func (j *judge) seen(all []ptyio.Execution, dropped int) {
	select {
	case j.tokens <- struct{}{}:
	default:
		j.miss(int64(len(all) + dropped))
		return
	}
	m := seen{unreported: int64(dropped), tokens: j.tokens}
	for _, e := range all {
		x := executionOf(e)
		x.Rule = j.meets(x)
		m.batch = append(m.batch, shortened(x))
	}
	j.system.Send(j.process, m)
}

// meets is the rule that an execution would meet where none is judged.
func (j *judge) meets(x messages.Execution) string {
	names := []string{x.Program, x.Resolved}
	if len(x.Argv) > 0 {
		names = append(names, x.Argv[0])
	}
	if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(j.names, filepath.Base(name)) }) {
		return ""
	}
	return (&policy.Execution{Execution: x}).MetRule(j.snapshot.Rules)
}

// miss counts executions of which the process is not told.
func (j *judge) miss(n int64) {
	for {
		select {
		case j.unseen <- n:
			return
		case more := <-j.unseen:
			n += more
		}
	}
}

// missed is how many executions the process was not told of since the last call.
func (j *judge) missed() int64 {
	select {
	case n := <-j.unseen:
		return n
	default:
		return 0
	}
}

func executionOf(e ptyio.Execution) messages.Execution {
	return messages.Execution{PID: e.PID, Parent: e.Parent, Program: e.Program, Resolved: e.Resolved, Argv: e.Argv, Cut: e.Cut, Dir: e.Dir, Unread: e.Unread}
}

// shortened is an execution with no more arguments than a report has, with a byte behind each.
func shortened(x messages.Execution) messages.Execution {
	left := ptyio.MaxReportedBytes
	for i, argument := range x.Argv {
		if left -= len(argument) + 1; left < 0 {
			x.Argv, x.Cut = slices.Clone(x.Argv[:i]), true
			break
		}
	}
	return x
}

// executed is what a process knows of the programs that were executed.
type executed struct {
	mode  messages.ExecutionMode // of the latest attempt; empty before the first
	all   messages.Executions
	told  int    // how many of the refusals results have named
	judge *judge // of the latest attempt; nil if none was seen
}

// seen notes executions, and publishes them.
func (p *process) seen(m seen) {
	m.Discard()
	if _, over := p.state.(*closed); over { // its end was its last event
		return
	}
	origin, all := p.origin(), &p.executed.all
	told := p.Bus.Wanted(messages.KindProgramExecuted, origin)
	for i := range m.batch {
		all.Add(&m.batch[i])
		if m.batch[i].Refused && p.attempt != nil {
			p.attempt.forbidden = true
		}
		if told {
			p.Bus.Publish(messages.ProgramExecuted{Origin: origin, Execution: m.batch[i]})
		}
	}
	all.Total += m.unreported
	all.Unreported += m.unreported
}

// list is what is known now.
func (e *executed) list() *messages.Executions {
	if e.judge != nil {
		n := e.judge.missed()
		e.all.Total += n
		e.all.Unreported += n
	}
	all := e.all
	all.Mode = cmp.Or(e.mode, messages.ExecutionsOff)
	all.Programs, all.Refusals = slices.Clone(all.Programs), slices.Clone(all.Refusals)
	return &all
}

// report is the list in the record of a process; nil if nothing was seen.
func (e *executed) report() *messages.Executions {
	if all := e.list(); all.Mode != messages.ExecutionsOff || all.Total > 0 {
		return all
	}
	return nil
}

// refusals are the executions that were refused.
func (e *executed) refusals() []messages.Execution { return slices.Clone(e.all.Refusals) }

// news are those that no result has named.
func (e *executed) news() []messages.Execution {
	all := e.refusals()
	fresh := all[min(e.told, len(all)):]
	e.told = len(all)
	if len(fresh) == 0 {
		return nil
	}
	return fresh
}
