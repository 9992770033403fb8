package messages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ExecutionMode says what a session does about the programs that its commands execute, in all their processes: a shell, make, a package
// manager or an interpreter executes what no command line says.
type ExecutionMode string

// The modes. The zero value means ExecutionsEnforce for commands in a sandbox where a rule forbids or asks and the machine can tell each
// execution before it happens, and otherwise ExecutionsOff.
const (
	// ExecutionsOff sees no execution.
	ExecutionsOff ExecutionMode = "off"
	// ExecutionsReport counts executions and publishes them, with the rule that each would meet, and prevents none.
	ExecutionsReport ExecutionMode = "report"
	// ExecutionsEnforce holds each execution to the rules as well: what a rule forbids fails with "Permission denied", and what a rule asks
	// about waits for the answer.
	ExecutionsEnforce ExecutionMode = "enforce"
)

// MissingExecutions is Missing.What of an Enforcement where executions cannot be seen.
const MissingExecutions = "sight of what programs execute"

// Check returns an error for an unknown mode.
func (m ExecutionMode) Check() error {
	switch m {
	case "", ExecutionsOff, ExecutionsReport, ExecutionsEnforce:
		return nil
	}
	return &Error{Code: ErrInvalidRequest, Op: "configure", Subject: "executions", Detail: fmt.Sprintf("there is no mode %q; use off, report or enforce", string(m))}
}

// Execution is one program that a process of a command executed, or tried to.
type Execution struct {
	PID    int `json:"pid"` // the kernel's, of the process that executes it
	Parent int `json:"parent,omitempty"`
	// Program is the path as that process gave it, empty for an open file, and Resolved the file that it leads to; empty if that could not be found out.
	Program  string `json:"program"`
	Resolved string `json:"resolved,omitempty"`
	// Argv are the arguments, its own name first. Cut says that some at the end are left out, as of executions that nobody judges.
	Argv []string `json:"argv,omitempty"`
	Cut  bool     `json:"cut,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	// Unread says why program or arguments could not be read; empty if they could.
	Unread string `json:"unread,omitempty"`
	// Rule is the rule that forbids it or asks about it, with its place: "forbidden git push (default.rules:3)"; empty if none does.
	Rule string `json:"rule,omitempty"`
	// Refused says that it failed with "Permission denied", for Reason. Source says who decided, if anybody had to, and Decision how a
	// question was answered.
	Refused  bool           `json:"refused,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Source   DecisionSource `json:"source,omitempty"`
	Decision DecisionKind   `json:"decision,omitempty"`
}

// Command is the command line that it amounts to: the program as it was named, or where it leads, and its arguments.
func (e *Execution) Command() []string {
	return append([]string{cmp.Or(e.Program, e.Resolved, "?")}, e.Argv[min(1, len(e.Argv)):]...)
}

// maxShownExecution bounds the command line in a text, in characters.
const maxShownExecution = 300

// String says of an execution that was refused why.
func (e *Execution) String() string {
	shown := CutMiddle(Display(e.Command()), maxShownExecution)
	if !e.Refused {
		return "execution of " + shown
	}
	return "the execution of " + shown + " was refused: " + e.Reason
}

// Same reports whether two executions are the same file with the same arguments in the same directory.
func (e *Execution) Same(other *Execution) bool {
	return cmp.Or(e.Resolved, e.Program) == cmp.Or(other.Resolved, other.Program) && e.Dir == other.Dir && e.Unread == other.Unread && e.Cut == other.Cut &&
		slices.Equal(e.Argv, other.Argv)
}

// Bounds of what is remembered about the executions of one process.
const (
	MaxExecutedPrograms  = 64  // distinct programs
	MaxRefusedExecutions = 16  // distinct executions that were refused
	maxProgramBytes      = 512 // of a program's path
)

// Executions is what the tree of one process has executed.
type Executions struct {
	// Mode is that of the process: ExecutionsOff if its executions are not seen.
	Mode ExecutionMode `json:"mode"`
	// Total counts the executions, but for the command's own start. Refused are those of them that were refused.
	Total   int64 `json:"total"`
	Refused int64 `json:"refused,omitempty"`
	// Unreported are those of Total about which nothing else is known, because there were too many at once.
	Unreported int64 `json:"unreported,omitempty"`
	// Programs are the first distinct programs, at most MaxExecutedPrograms, in the order of their first execution. Others counts the
	// executions of further ones.
	Programs []ExecutedProgram `json:"programs,omitempty"`
	Others   int64             `json:"others,omitempty"`
	// Refusals are the first that were refused, of equal ones one: at most MaxRefusedExecutions.
	Refusals []Execution `json:"refusals,omitempty"`
}

// ExecutedProgram is a program with the number of its executions.
type ExecutedProgram struct {
	// Program is the file that was executed, or the path as it was given if that is not known; at most 512 bytes.
	Program string `json:"program"`
	Count   int64  `json:"count"`
	Refused int64  `json:"refused,omitempty"` // of Count
}

// Add counts one execution. It reports whether the execution is one of the refusals that are remembered, for the first time.
func (e *Executions) Add(one *Execution) (news bool) {
	e.Total++
	refused := int64(0)
	if one.Refused {
		refused = 1
	}
	e.Refused += refused
	program := cmp.Or(one.Resolved, one.Program, "?")
	if len(program) > maxProgramBytes {
		program = strings.ToValidUTF8(program[:maxProgramBytes], "") + "…"
	}
	at := slices.IndexFunc(e.Programs, func(p ExecutedProgram) bool { return p.Program == program })
	switch {
	case at >= 0:
		e.Programs[at].Count++
		e.Programs[at].Refused += refused
	case len(e.Programs) < MaxExecutedPrograms:
		e.Programs = append(e.Programs, ExecutedProgram{program, 1, refused})
	default:
		e.Others++
	}
	if !one.Refused || len(e.Refusals) >= MaxRefusedExecutions || slices.ContainsFunc(e.Refusals, one.same) {
		return false
	}
	e.Refusals = append(e.Refusals, *one)
	return true
}

func (e *Execution) same(other Execution) bool { return e.Same(&other) }

// ProgramExecuted is published for each execution of a program by a process of a command, before it happens, or when it is refused. Only
// subscriptions that name its kind get it. In the modes in which nothing is seen there is none.
type ProgramExecuted struct {
	Origin
	Execution
}

// Kind implements Event.
func (ProgramExecuted) Kind() EventKind { return KindProgramExecuted }

// ExecutionQuestion says which execution a question is about: who executes what, inside of which command.
type ExecutionQuestion struct {
	// Process is the command inside of which it happens, and Command that command, escaped like Question.Display.
	Process ProcessID `json:"process"`
	Command string    `json:"command"`
	Execution
}

// write says which program it is about.
func (q *ExecutionQuestion) write(line func(string, ...any)) {
	line("Let a running command execute this program?\n\n%s", Display(q.Execution.Command()))
}

// facts say who executes it, and which rule asks.
func (q *ExecutionQuestion) facts(line func(string, ...any)) {
	line("Command: %s (process %d)", q.Command, q.Process)
	line("Executed by: %s", q.by())
	if len(q.Argv) > 0 && q.Argv[0] != q.Execution.Program {
		line("It calls itself: %s", Visible(q.Argv[0]))
	}
	if q.Resolved != "" && q.Resolved != q.Execution.Program {
		line("File: %s", Visible(q.Resolved))
	}
}

// by names the process that executes the program.
func (q *ExecutionQuestion) by() string {
	if q.Parent == 0 {
		return fmt.Sprintf("pid %d", q.PID)
	}
	return fmt.Sprintf("pid %d, a child of pid %d", q.PID, q.Parent)
}
