package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/hosts"
)

// hostTable is what a session knows of the hosts that its commands talk to.
type hostTable struct {
	network  shared.Network          // made for the first policy that names hosts
	policy   *messages.NetworkPolicy // nil: nothing is allowed
	snapshot hosts.Snapshot          // what the network decides from
	open     map[*hostQuestion]bool
	refused  map[messages.ProcessID]map[string]string // why, by policy.Host.Key
}

// maxRefused bounds how many hosts a person refuses to one process, or to connections that show no credential, before nobody is asked
// about further ones: a process can ask for as many hosts as it likes, and persons tire.
const maxRefused = 32

// connect gives settings the session's network, if their policy names hosts, and the network what it decides from. Commands that run keep
// the network, whatever policy they began under: the newest rules hold for them, too.
func (v *supervisor) connect(s *shared.Settings) error {
	s.Network = nil
	h, named := &v.hosts, s.Sandbox.Network
	if h.network != nil && named == nil && s.Sandbox.Confined() && !s.Sandbox.NetworkAccess {
		h.policy = nil
		h.update()
	}
	if named == nil || v.NewNetwork == nil {
		return nil
	}
	rules, err := hosts.NewRules(named.Hosts, s.Rules.Network())
	if err != nil {
		return err
	}
	if h.network == nil {
		h.open, h.refused = map[*hostQuestion]bool{}, map[messages.ProcessID]map[string]string{}
		h.network = v.NewNetwork(shared.NetworkOptions{Session: v.SessionID, Ask: askAbout(v.ctx.System(), v.ctx.Self()), AskTimeout: v.config.ApprovalDeadline})
	}
	h.policy, h.snapshot.Rules, h.snapshot.Default = named, rules, named.Default
	h.update()
	s.Network, s.ByName = h.network, h.snapshot.Ports()
	return nil
}

// granted takes the hosts that are approved.
func (v *supervisor) granted(m protocol.HostGrants) {
	if v.hosts.snapshot.Grants = m.All; v.hosts.network != nil {
		v.hosts.update()
	}
}

// update tells the network what it decides from: nothing is allowed if the policy names no hosts any more.
func (h *hostTable) update() {
	if h.policy == nil {
		h.network.Update(hosts.Snapshot{})
		return
	}
	h.network.Update(h.snapshot)
}

// forgetHosts ends the connections of a process that has ended, and forgets the hosts that were approved for it.
func (v *supervisor) forgetHosts(id messages.ProcessID) {
	if v.hosts.network == nil {
		return
	}
	v.hosts.network.End(id)
	gone := []messages.ProcessID{id}
	if len(v.entries) == 0 {
		gone = append(gone, 0) // connections that belong to no process
	}
	for _, id := range gone {
		delete(v.hosts.refused, id)
		if v.approval.actor != nil && slices.ContainsFunc(v.hosts.snapshot.Grants, func(g hosts.Grant) bool { return !g.Session && g.Process == id }) {
			v.ctx.Send(v.approval.actor, protocol.ForgetProcess{Process: id})
		}
	}
}

// closeNetwork ends all connections, and answers those that wait.
func (v *supervisor) closeNetwork() {
	for q := range v.hosts.open {
		q.answer(errSessionOver)
	}
	if v.hosts.network != nil {
		v.hosts.network.Close()
	}
	v.hosts = hostTable{}
}

// hostQuestion is a question about a host, from the connection that waits for its answer.
type hostQuestion struct {
	hosts.Request
	until time.Time
	reply chan error // room for one
	entry *entry     // of the process; nil if that is not known
	asker hostAsker
}

// answer gives the connection its answer. Only the first one counts.
func (q *hostQuestion) answer(err error) {
	select {
	case q.reply <- err:
	default:
	}
}

// hostAsker is the recipient of the verdict.
type hostAsker struct {
	system   *system.System
	session  *system.PID
	question *hostQuestion
}

// Answer passes the verdict to the session, behind the approvals that it rests on.
func (a hostAsker) Answer(reply any) {
	a.system.Send(a.session, hostAnswered{a.question, reply.(protocol.Verdict)})
}

// From the network to its session, and from there to itself.
type (
	hostAsked    struct{ *hostQuestion }
	hostUnwanted struct{ *hostQuestion }
	hostAnswered struct {
		*hostQuestion
		verdict protocol.Verdict
	}
)

var (
	errProcessOver = errors.New("its process has ended")
	errEnding      = errors.New("its process was told to end")
	errSessionOver = errors.New("its session has ended")
	errTired       = fmt.Errorf("a person has refused %d hosts to this command already, and is asked no more", maxRefused)
)

// Discard answers for a session that is gone.
func (m hostAsked) Discard() { m.answer(errSessionOver) }

// Discard answers for a session that is gone.
func (m hostAnswered) Discard() { m.answer(errSessionOver) }

// askAbout is the function by which the network asks.
func askAbout(sys *system.System, session *system.PID) func(context.Context, hosts.Request) error {
	return func(ctx context.Context, r hosts.Request) error {
		q := &hostQuestion{Request: r, reply: make(chan error, 1)}
		q.until, _ = ctx.Deadline()
		q.asker = hostAsker{sys, session, q}
		sys.Send(session, hostAsked{q})
		select {
		case err := <-q.reply:
			return err
		case <-ctx.Done():
			sys.Send(session, hostUnwanted{q})
			return ctx.Err()
		}
	}
}

// hostAsked puts a question, and holds the clocks of the process that asks. A connection without a credential counts as one of the only
// process that there is, so that its caller can be asked; what is approved is for connections without a credential.
func (v *supervisor) hostAsked(q *hostQuestion) {
	e := v.entries[q.Process]
	switch {
	case q.Process != 0 && (e == nil || e.last != nil):
		q.answer(errProcessOver)
		return
	case q.Process == 0 && len(v.entries) == 1:
		for _, only := range v.entries {
			e = only
		}
	case q.Process == 0 && v.closing && len(v.entries) == 0:
		q.answer(errSessionOver)
		return
	}
	if e != nil && e.unwanted {
		q.answer(errEnding)
		return
	}
	about := &policy.Host{Request: q.Request}
	refused := v.hosts.refused[q.Process]
	if why, before := refused[about.Key(false)]; before {
		q.answer(errors.New(why))
		return
	}
	if len(refused) >= maxRefused {
		q.answer(errTired)
		return
	}
	m := protocol.Consult{Asker: q.asker, Plan: policy.Plan{Decision: policy.Ask}, Until: q.until, Origin: messages.Origin{Session: v.SessionID, At: time.Now()},
		Request:  policy.Request{Argv: about.Argv(), Dir: v.settings.Dir, Host: about},
		Snapshot: policy.Snapshot{Approval: v.settings.Approval, Sandbox: v.settings.Sandbox, Rules: v.settings.Rules, Dir: v.settings.Dir}}
	m.Snapshot.Sandbox.Network = v.hosts.policy
	if e != nil && e.last == nil {
		about.Command, about.Runs, m.Request.Dir = messages.Visible(e.info.Label), e.info.Process, e.info.Dir
		m.Process, m.Origin, m.Owner = e.info.Process, v.origin(e), e.info.Owner
		q.entry = e
		if e.asked++; e.asked == 1 {
			v.ctx.Send(e.actor, protocol.AskedAbout{Open: true})
		}
	}
	v.hosts.open[q] = true
	v.put(m)
}

// refuse remembers that a person has refused a host, so that a process which tries again is not asked about again.
func (h *hostTable) refuse(r hosts.Request, why string) {
	if h.refused[r.Process] == nil {
		h.refused[r.Process] = map[string]string{}
	}
	h.refused[r.Process][(&policy.Host{Request: r}).Key(false)] = why
}

// hostAnswered answers a connection, and goes on with the end of its process, which may wait for that.
func (v *supervisor) hostAnswered(m hostAnswered) []effect {
	var why error
	if m.verdict.Refusal != nil {
		why = errors.New(m.verdict.Refusal.Detail)
	}
	if v.hosts.open[m.hostQuestion] && len(v.entries) > 0 && m.verdict.Decision == messages.DecisionDenied && m.verdict.Source == messages.DecidedByPerson {
		v.hosts.refuse(m.Request, m.verdict.Refusal.Detail)
	}
	m.answer(why)
	delete(v.hosts.open, m.hostQuestion)
	e := m.entry
	if e == nil {
		return v.serveTerminations()
	}
	if e.asked--; e.asked == 0 {
		v.ctx.Send(e.actor, protocol.AskedAbout{})
		if e.last != nil {
			return v.ended(*e.last)
		}
	}
	return nil
}

// withdrawHosts withdraws the questions of a process, or those that belong to none. Their verdicts still come.
func (v *supervisor) withdrawHosts(e *entry) {
	for q := range v.hosts.open {
		if q.entry == e {
			q.answer(errProcessOver)
			v.hostUnwanted(q)
		}
	}
}

// hostUnwanted withdraws a question, unless its verdict is on its way.
func (v *supervisor) hostUnwanted(q *hostQuestion) {
	if v.approval.actor == nil || !v.hosts.open[q] {
		return
	}
	m := protocol.Withdraw{Asker: q.asker}
	if q.entry != nil {
		m.Process = q.entry.info.Process
	}
	v.ctx.Send(v.approval.actor, m)
}
