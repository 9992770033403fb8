package session

import (
	"fmt"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

// inquiries are the questions on behalf of running commands, about hosts and about executions.
type inquiries struct {
	open    map[*protocol.Inquiry]*entry // with the process; nil if that is not known
	refused map[asking]map[string]string // why, by the key of what was refused
	// unanswered has why executions were refused about which nobody answered, by the process of the caller.
	unanswered map[messages.ProcessID]map[try]string
}

// try is an execution that one process of a command's tree tries. What looks through PATH tries it under the next directory when it was
// refused under one. Another process is another attempt: a loop that comes again is asked about again.
type try struct {
	key string
	pid int
}

// maxUnanswered bounds the attempts that are remembered for one process; one more, and all are forgotten.
const maxUnanswered = 256

// asking is what a person has refused things to.
type asking struct {
	process    messages.ProcessID
	executions bool // otherwise hosts
}

// maxRefused bounds how many hosts, and how many executions, a person refuses to one process, or to connections that show no credential,
// before nobody is asked about further ones: a process can ask for as many as it likes, and persons tire.
const maxRefused = 32

// tired is why nobody is asked any more.
func (a asking) tired() string {
	what := "hosts"
	if a.executions {
		what = "executions"
	}
	return fmt.Sprintf("a person has refused %d %s to this command already, and is asked no more", maxRefused, what)
}

// askingOf is what an inquiry asks for, and the key of what it is about.
func askingOf(q *protocol.Inquiry) (asking, string) {
	if x := q.Request.Execution; x != nil {
		return asking{q.Process, true}, x.Key(false)
	}
	return asking{q.Process, false}, q.Request.Host.Key(false)
}

// inquiryAsker is the recipient of the verdict about an inquiry.
type inquiryAsker struct {
	system  *system.System
	session *system.PID
	inquiry *protocol.Inquiry
}

// Answer passes the verdict to the session, behind the approvals that it rests on.
func (a inquiryAsker) Answer(reply any) {
	a.system.Send(a.session, inquiryAnswered{a.inquiry, reply.(protocol.Verdict)})
}

// inquiryAnswered is from the approval actor to the session.
type inquiryAnswered struct {
	*protocol.Inquiry
	verdict protocol.Verdict
}

// Discard answers for a session that is gone.
func (m inquiryAnswered) Discard() { m.Refuse(protocol.SessionOver) }

const (
	processOver   = "its process has ended"
	processEnding = "its process was told to end"
)

// inquired puts a question, and holds the clocks of the process that asks. A connection without a credential counts as one of the only
// process that there is, so that its caller can be asked; what is approved is for connections without a credential.
func (v *supervisor) inquired(q *protocol.Inquiry) {
	e := v.entries[q.Process]
	switch {
	case q.Process != 0 && (e == nil || e.last != nil):
		q.Refuse(processOver)
		return
	case q.Process == 0 && len(v.entries) == 1:
		for _, only := range v.entries {
			e = only
		}
	case q.Process == 0 && v.closing && len(v.entries) == 0:
		q.Refuse(protocol.SessionOver)
		return
	}
	if e != nil && e.unwanted {
		q.Refuse(processEnding)
		return
	}
	who, key := askingOf(q)
	refused := v.inquiries.refused[who]
	if why, before := refused[key]; before {
		q.Refuse(why)
		return
	}
	if x := q.Request.Execution; x != nil {
		if why, before := v.inquiries.unanswered[q.Process][try{key, x.PID}]; before {
			q.Refuse(why)
			return
		}
	}
	if len(refused) >= maxRefused {
		q.Refuse(who.tired())
		return
	}
	v.put(v.consultFor(q, e))
}

// consultFor makes the question of an inquiry, which is open from now on.
func (v *supervisor) consultFor(q *protocol.Inquiry, e *entry) protocol.Consult {
	m := protocol.Consult{Asker: v.askerOf(q), Plan: policy.Plan{Decision: policy.Ask}, Until: q.Until(), Origin: messages.Origin{Session: v.SessionID, At: time.Now()},
		Request:  q.Request,
		Snapshot: policy.Snapshot{Approval: v.settings.Approval, Sandbox: v.settings.Sandbox, Rules: v.settings.Rules, Dir: v.settings.Dir}}
	if m.Request.Host != nil {
		m.Request.Dir, m.Snapshot.Sandbox.Network = v.settings.Dir, v.hosts.policy
	}
	if e != nil && e.last != nil {
		e = nil
	}
	if e != nil {
		m.Process, m.Origin, m.Owner = e.info.Process, v.origin(e), e.info.Owner
		m.Request = describe(m.Request, e)
		if e.asked++; e.asked == 1 {
			v.ctx.Send(e.actor, protocol.AskedAbout{Open: true})
		}
	}
	if v.inquiries.open == nil {
		v.inquiries.open = map[*protocol.Inquiry]*entry{}
	}
	v.inquiries.open[q] = e
	return m
}

// describe adds to the request of an inquiry what is known of its process.
func describe(r policy.Request, e *entry) policy.Request {
	label := messages.Visible(e.info.Label)
	if r.Host != nil {
		about := *r.Host
		about.Command, about.Runs = label, e.info.Process
		r.Host, r.Dir = &about, e.info.Dir
		return r
	}
	about := *r.Execution
	about.Command = label
	r.Execution = &about
	return r
}

func (v *supervisor) askerOf(q *protocol.Inquiry) inquiryAsker {
	return inquiryAsker{v.ctx.System(), v.ctx.Self(), q}
}

// inquiryAnswered answers an inquiry, and goes on with the end of its process, which may wait for that. What a person has refused is
// remembered, so that a process which tries again is not asked about again; and so is, for its caller, what nobody has answered.
func (v *supervisor) inquiryAnswered(m inquiryAnswered) []effect {
	e, open := v.inquiries.open[m.Inquiry]
	if open && len(v.entries) > 0 && m.verdict.Decision == messages.DecisionDenied && m.verdict.Source == messages.DecidedByPerson {
		who, key := askingOf(m.Inquiry)
		v.inquiries.refuse(who, key, m.verdict.Refusal.Detail)
	}
	if x := m.Inquiry.Request.Execution; open && x != nil && m.verdict.Refusal != nil && m.verdict.Source == messages.DecidedByDeadline {
		v.inquiries.pass(m.Process, try{x.Key(false), x.PID}, m.verdict.Refusal.Detail)
	}
	m.Answer(m.verdict)
	delete(v.inquiries.open, m.Inquiry)
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

func (i *inquiries) refuse(who asking, key, why string) {
	if i.refused == nil {
		i.refused = map[asking]map[string]string{}
	}
	if i.refused[who] == nil {
		i.refused[who] = map[string]string{}
	}
	i.refused[who][key] = why
}

// pass remembers that nobody answered about an attempt.
func (i *inquiries) pass(process messages.ProcessID, a try, why string) {
	if i.unanswered == nil {
		i.unanswered = map[messages.ProcessID]map[try]string{}
	}
	if all := i.unanswered[process]; all == nil || len(all) == maxUnanswered {
		i.unanswered[process] = map[try]string{}
	}
	i.unanswered[process][a] = why
}

// withdrawInquiries withdraws the inquiries of a process, or those that belong to none. Their verdicts still come.
func (v *supervisor) withdrawInquiries(e *entry) {
	for q, of := range v.inquiries.open {
		if of == e {
			q.Refuse(processOver)
			v.uninquired(q)
		}
	}
}

// uninquired withdraws an inquiry, unless its verdict is on its way.
func (v *supervisor) uninquired(q *protocol.Inquiry) {
	e, open := v.inquiries.open[q]
	if v.approval.actor == nil || !open {
		return
	}
	m := protocol.Withdraw{Asker: v.askerOf(q)}
	if e != nil {
		m.Process = e.info.Process
	}
	v.ctx.Send(v.approval.actor, m)
}

// forgetInquiries forgets what was refused to a process that has ended.
func (v *supervisor) forgetInquiries(id messages.ProcessID) {
	delete(v.inquiries.refused, asking{id, true})
	delete(v.inquiries.refused, asking{id, false})
	delete(v.inquiries.unanswered, id)
	if len(v.entries) == 0 { // connections that belong to no process
		delete(v.inquiries.refused, asking{})
	}
}

// closeInquiries answers those that wait.
func (v *supervisor) closeInquiries() {
	for q := range v.inquiries.open {
		q.Refuse(protocol.SessionOver)
	}
	v.inquiries = inquiries{}
}
