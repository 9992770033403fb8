package messages

import (
	"fmt"
	"time"
)

// QuestionID names a question; no id is used twice.
type QuestionID string

// DecisionKind is a person's answer to a question.
type DecisionKind string

// The answers.
const (
	DecisionApproved           DecisionKind = "approved"                      // run it this once
	DecisionApprovedForSession DecisionKind = "approved_for_session"          // run it, and do not ask about it again in this session
	DecisionApprovedWithRule   DecisionKind = "approved_execpolicy_amendment" // run it, and allow commands that begin like it from now on
	DecisionDenied             DecisionKind = "denied"                        // the command is rejected; the model goes on
	DecisionTimedOut           DecisionKind = "timed_out"                     // nobody answered before the deadline
	// DecisionAborted rejects the command and stops the turn: the owner's other open questions are rejected with it, and the owner's
	// waiting calls are cancelled, so that no further question of the turn is put. Running commands go on.
	// About a host or an execution it also ends the process that asks.
	DecisionAborted DecisionKind = "abort"
)

// Approves reports whether the command may run.
func (k DecisionKind) Approves() bool {
	return k == DecisionApproved || k == DecisionApprovedForSession || k == DecisionApprovedWithRule
}

// Decision answers a question.
type Decision struct {
	Kind DecisionKind `json:"kind"`
	// Rejection is the text for the model with DecisionDenied; empty means "rejected by user".
	Rejection string `json:"rejection,omitempty"`
	// Amendment replaces the proposed prefix with DecisionApprovedWithRule; empty means the proposed one.
	Amendment []string `json:"amendment,omitempty"`
	// HostRule replaces the proposed rule with DecisionApprovedWithRule about a host. It has to allow what is asked about. Nil means the
	// proposed one.
	HostRule *HostRule `json:"hostRule,omitempty"`
	// Expires is how long DecisionApprovedForSession is remembered; zero means as long as the session.
	Expires time.Duration `json:"expiresNs,omitempty"`
}

// Choice is an answer that is offered, with what would be remembered.
type Choice struct {
	Kind DecisionKind `json:"kind"`
	// Sentence says what the answer does, for a button or a menu.
	Sentence string `json:"sentence"`
	// Remembers says exactly which commands would not be asked about again; empty if nothing is remembered.
	Remembers string `json:"remembers,omitempty"`
}

// Segment is one of the commands that a command line runs, as a question shows it.
type Segment struct {
	// Display is the command, quoted and escaped like Question.Display. A long command is cut at its end.
	Display string `json:"display"`
	// Why says why there is a question about it; empty if this command alone would run without one.
	Why string `json:"why,omitempty"`
	// Hosts are the host names in it that are, or might be, other than they look, each with its form in ASCII.
	Hosts []string `json:"hosts,omitempty"`
}

// HostQuestion says which host a command wants to talk to.
type HostQuestion struct {
	// Process has shown its credential; zero if the connection shows none, as those of some programs do. Whatever can read the
	// variables of a process can show its credential.
	Process ProcessID `json:"process,omitempty"`
	// Command is that of the process, escaped like Question.Display; empty if it is not known.
	Command  string       `json:"command,omitempty"`
	Host     string       `json:"host"` // canonical: a name in ASCII, or an address
	Port     uint16       `json:"port"`
	Protocol HostProtocol `json:"protocol"`
	// Looks says what the name looks like beyond ASCII, with its form in ASCII; empty if it is in ASCII.
	Looks string `json:"looks,omitempty"`
	// Rule is what DecisionApprovedWithRule makes; nil if no rule that allows would spare the question, because another asks.
	Rule *HostRule `json:"rule,omitempty"`
}

// String is "example.com:443 (https)".
func (q HostQuestion) String() string { return hostAccess(q.Host, q.Port, q.Protocol) }

// Question is put to a person about one command, one patch, one host, or one execution. Equal commands that wait share one question, unless the only subscribers that
// could answer are subscribed to single calls.
type Question struct {
	ID QuestionID `json:"id"`
	// Argv is the command as it will run, and Display the same for a person's eyes: one line, quoted as a shell reads it,
	// with control, bidirectional and invisible characters escaped. If the program gets another name than Argv[0],
	// Display begins with "exec -a NAME".
	Argv    []string `json:"argv"`
	Display string   `json:"display"`
	// Segments are the commands that would run: first those that are asked about, and at most 10. MoreSegments is the number of
	// those not shown. A script that is not a list of plain commands is one segment.
	Segments     []Segment `json:"segments,omitempty"`
	MoreSegments int       `json:"moreSegments,omitempty"`
	// Program is the file that was found for Argv[0], if that is a bare name. This file is the one that runs.
	Program string `json:"program,omitempty"`
	Dir     string `json:"dir"`
	// Patch is set if the question is about a patch. Argv then is apply_patch and the files that it changes.
	Patch *PatchQuestion `json:"patch,omitempty"`
	// Host is set if the question is about a host that a running command wants to talk to; the connection waits. Argv then is
	// network-access and the host as a URL.
	Host *HostQuestion `json:"host,omitempty"`
	// Execution is set if the question is about a program that a process of a running command is about to execute; that process waits.
	// Argv then is the program with its arguments.
	Execution *ExecutionQuestion `json:"execution,omitempty"`
	// OpenInput says that the command's input stays open, as a terminal's does: there is no question about later input, or about
	// the commands that an interpreter runs because of it.
	OpenInput bool `json:"openInput,omitempty"`
	// Reason says why there is a question: a denial by the sandbox, a rule, or what is known about the command. It ends with
	// "the caller says" and the caller's justification, which nobody has checked, shortened if it is long.
	Reason string `json:"reason,omitempty"`
	// Unsandboxed says that the command, if approved, runs without a sandbox. Retry says that it has run and its sandbox stopped it.
	Unsandboxed bool `json:"unsandboxed"`
	// Unseen says that the session holds executions to its rules, but would not see those of this command without a sandbox.
	Unseen     bool                   `json:"unseen,omitempty"`
	Retry      bool                   `json:"retry,omitempty"`
	Additional *AdditionalPermissions `json:"additional,omitempty"`
	// Leads says, a line for each path of Additional that is not what it says, where the path leads, or that it is not known.
	Leads []string `json:"leads,omitempty"`
	// Environment lists the variables that the request sets, as NAME=value, escaped like Display.
	Environment []string `json:"environment,omitempty"`
	// Amendment is the prefix that DecisionApprovedWithRule would allow; nil if none is proposed.
	Amendment []string  `json:"amendment,omitempty"`
	Choices   []Choice  `json:"choices"`
	Since     time.Time `json:"since"`
	// Deadline is when the question is answered automatically, with OnDeadline; the zero time means never.
	Deadline   time.Time    `json:"deadline,omitzero"`
	OnDeadline DecisionKind `json:"onDeadline,omitempty"`
}

// Decide answers a question, once. It is answered with an *Error if the decision has no effect; a second decision gets
// ErrAlreadyResolved.
type Decide struct {
	Question QuestionID `json:"question"`
	Decision Decision   `json:"decision"`
}

// Questions are the questions of a session that wait for an answer: the first is being asked, the others wait behind it.
type Questions []Question

// GrantID names a grant.
type GrantID string

// HostGrant is a connection that a person has allowed: to this host, port and protocol, and to no other.
type HostGrant struct {
	Host     string       `json:"host"`
	Port     uint16       `json:"port"`
	Protocol HostProtocol `json:"protocol"`
	// Session says that every command of the session may. Otherwise what shows the credential of Process may, until that has
	// ended; zero means what shows none, until no command runs.
	Session bool      `json:"session"`
	Process ProcessID `json:"process,omitempty"`
}

// String is "example.com:443 (https)".
func (g HostGrant) String() string { return hostAccess(g.Host, g.Port, g.Protocol) }

// Grant is a command or an execution that was approved for a session: equal ones are not asked about. Or it is a host that was approved.
type Grant struct {
	ID GrantID `json:"id"`
	// Host is set if the grant is about a host.
	Host    *HostGrant `json:"host,omitempty"`
	Display string     `json:"display"` // the command, escaped: the first 4 KiB
	Dir     string     `json:"dir"`
	Granted time.Time  `json:"granted"`
	Expires time.Time  `json:"expires,omitzero"` // the zero time means with the session
	// Remembers is Choice.Remembers as the person saw it.
	Remembers string `json:"remembers"`
}

// Grants are the grants of a session, the oldest first.
type Grants []Grant

// RevokeGrant forgets a grant: the next such command is asked about again, and connections to a host that nothing else allows
// are closed within a second. It is answered with an *Error if there is no such grant.
type RevokeGrant struct {
	Grant GrantID `json:"grant"`
}

// DecisionSource names the source of a decision about a command.
type DecisionSource string

// The sources.
const (
	DecidedByRule     DecisionSource = "rule"     // a rule file
	DecidedByCache    DecisionSource = "cache"    // an answer of a person for the session
	DecidedByPolicy   DecisionSource = "policy"   // the session's policies and the known facts about the command
	DecidedByPerson   DecisionSource = "user"     // a person or an Approver
	DecidedByDeadline DecisionSource = "deadline" // nobody answered in time
	DecidedByAbsence  DecisionSource = "absence"  // nobody is there to answer
)

// ApprovalRequested is published when a question is put to the user.
type ApprovalRequested struct {
	Origin
	Question
}

// ApprovalResolved is published once for every ApprovalRequested: the question was answered or withdrawn.
type ApprovalResolved struct {
	Origin
	Question QuestionID `json:"question"`
	// Host is what a question about a host was about, as HostQuestion.String has it.
	Host string `json:"host,omitempty"`
	// Execution is what a question about an execution was about, as Question.Display.
	Execution string `json:"execution,omitempty"`
	// Decision is empty if the question was withdrawn.
	Decision DecisionKind   `json:"decision,omitempty"`
	Source   DecisionSource `json:"source,omitempty"`
}

// ToolDecision is published for every decision about a command: before its first attempt, and before each further one.
type ToolDecision struct {
	Origin
	Attempt int `json:"attempt"` // the attempt that was decided about, from 1
	// Argv is the command as it would run, and Dir where. Those of a patch are apply_patch with its files, and the patch's directory.
	Argv    []string       `json:"argv,omitempty"`
	Dir     string         `json:"dir,omitempty"`
	Allowed bool           `json:"allowed"`
	Source  DecisionSource `json:"source"`
	// Decision is the answer, if a question was put.
	Decision    DecisionKind `json:"decision,omitempty"`
	Unsandboxed bool         `json:"unsandboxed"`
	Reason      string       `json:"reason,omitempty"`
	// Rule is the rule that has decided, or that has led to the question: the words with which a command begins, and file and line if a
	// file has it. If several rules allow the commands of a script, it is the first one's. Empty if no rule did.
	Rule string `json:"rule,omitempty"`
	// Unread says why rules that forbid or ask could not be applied to all that the command runs; empty if they could.
	Unread string `json:"unread,omitempty"`
}

// Kind implements Event.
func (ApprovalRequested) Kind() EventKind { return KindApprovalRequested }

// Kind implements Event.
func (ApprovalResolved) Kind() EventKind { return KindApprovalResolved }

// Kind implements Event.
func (ToolDecision) Kind() EventKind { return KindToolDecision }

// Check finds errors of a decision that do not depend on the question.
func (d Decision) Check() error {
	switch d.Kind {
	case DecisionApproved, DecisionApprovedForSession, DecisionApprovedWithRule, DecisionDenied, DecisionAborted:
	default:
		return &Error{Code: ErrInvalidRequest, Op: "decide", Subject: "kind", Detail: fmt.Sprintf("%q is not an answer; use one of the choices of the question", d.Kind)}
	}
	if d.Expires < 0 {
		return &Error{Code: ErrInvalidRequest, Op: "decide", Subject: "expires", Detail: "it is negative; use zero for the whole session"}
	}
	if d.HostRule != nil {
		return d.HostRule.Check()
	}
	return nil
}
