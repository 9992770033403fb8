package messages

import (
	"fmt"
	"strings"
	"time"
)

// EventKind names a type of event on the bus.
type EventKind string

// The kinds, one per event type.
const (
	KindExecStarted         EventKind = "exec_started"
	KindOutputDelta         EventKind = "output_delta"
	KindExecExited          EventKind = "exec_exited"
	KindOutputClosed        EventKind = "output_closed"
	KindExecEnded           EventKind = "exec_ended"
	KindAttemptEnded        EventKind = "attempt_ended"
	KindTerminalInteraction EventKind = "terminal_interaction"
	KindProcessWarning      EventKind = "process_warning"
	KindExecNotice          EventKind = "exec_notice"
	KindTerminalResized     EventKind = "terminal_resized"
	KindProcessSignaled     EventKind = "process_signaled"
	KindGap                 EventKind = "gap"
	KindCaughtUp            EventKind = "caught_up"

	KindApprovalRequested EventKind = "approval_requested"
	KindApprovalResolved  EventKind = "approval_resolved"
	KindToolDecision      EventKind = "tool_decision"

	KindNetworkConnection EventKind = "network_connection"
	KindProgramExecuted   EventKind = "program_executed"

	KindPatchStarted EventKind = "patch_started"
	KindPatchApplied EventKind = "patch_applied"
	KindPatchFailed  EventKind = "patch_failed"

	KindAuditAnchored    EventKind = "audit_anchored"
	KindKeyboardTaken    EventKind = "keyboard_taken"
	KindKeyboardReturned EventKind = "keyboard_returned"
)

// Event is anything published on the bus. Implementations are plain values; type-switch on them.
type Event interface {
	Kind() EventKind
	From() Origin
}

// Origin says where an event comes from. Every event embeds it.
type Origin struct {
	Session SessionID `json:"session"`
	Process ProcessID `json:"process,omitempty"`
	Call    CallID    `json:"call,omitempty"` // the call that started the process
	At      time.Time `json:"at"`
}

// From returns the origin itself; events inherit it by embedding.
func (o Origin) From() Origin { return o }

// Stream names where bytes came from.
type Stream string

// The streams. A PTY has one stream for everything the terminal shows.
const (
	StreamStdout Stream = "stdout"
	StreamStderr Stream = "stderr"
	StreamPTY    Stream = "pty"
)

// ExecStarted is published once per process, after its child exists and before any of its output.
type ExecStarted struct {
	Origin
	Argv []string `json:"argv"`
	Dir  string   `json:"dir"`
	TTY  bool     `json:"tty"`
	Size Size     `json:"size,omitzero"` // of its terminal; zero on pipes
	PID  int      `json:"pid"`           // the kernel's pid of the leader, for display and diagnosis
	// Enforced is what is enforced for the first attempt; nil if nothing was demanded.
	Enforced *Enforcement `json:"enforced,omitempty"`
}

// OutputDelta carries at most MaxOutputDelta bytes of output, cut on a UTF-8 boundary if the bytes are UTF-8.
type OutputDelta struct {
	Origin
	Stream Stream `json:"stream"`
	// Seq counts the process's deltas from 1. Offset is the position of the first byte in the process's output, all
	// streams counted together in the order in which they were read.
	Seq    uint64 `json:"seq"`
	Offset int64  `json:"offset"`
	Bytes  []byte `json:"bytes"`
}

// MaxOutputDelta bounds OutputDelta.Bytes.
const MaxOutputDelta = 8192

// ExecExited is published when the kernel reports the leader's exit. Output may still follow.
type ExecExited struct {
	Origin
	Status ExitStatus `json:"status"`
}

// OutputClosed is published when no more output can come: every writer has closed the terminal or the pipes.
type OutputClosed struct {
	Origin
	Total int64 `json:"total"` // bytes of output in all
}

// ExecEnded is the last event of a process; exactly one is published for each process that began.
type ExecEnded struct {
	Origin
	EndRecord
	Total int64 `json:"total"` // bytes of output in all
	// Transcript is the output: all of it up to 1 MiB, otherwise its first and last half MiB with a marker between.
	Transcript []byte `json:"transcript"`
}

// AttemptEnded is published when the sandbox has stopped an attempt to run a command and another may follow.
type AttemptEnded struct {
	Origin
	Attempt int     `json:"attempt"` // from 1
	Denial  *Denial `json:"denial"`
	// Enforced is what was enforced for it; nil if nothing was demanded.
	Enforced *Enforcement `json:"enforced,omitempty"`
}

// TerminalInteraction is published for input when a process's terminal or pipe has taken it, and for every poll of a process that was still
// alive after it. It comes before the answer to the write. A write has several if the program changed the mode of its terminal meanwhile,
// and none if nothing was taken.
//
// The event never has what was typed while the terminal collected a line without showing it, because that is a password in most cases. Mode
// is judged when the terminal takes the bytes and not when the write is asked for, and again right after. What is typed before
// a program turns echo off is a line that the terminal shows.
type TerminalInteraction struct {
	Origin
	// Length is the number of bytes; 0 for a poll.
	Length int `json:"length"`
	// Mode is what the terminal did with them: InputLine, InputSecret or InputKeys; InputPipe if the process is on pipes, and InputUnknown if
	// a host's own spawner does not say it. It is empty for a poll.
	Mode InputKind `json:"mode,omitempty"`
	// Input has the bytes if they may be kept, and is nil otherwise: those of InputLine, and in a session with RecordRaw also those of
	// InputKeys and InputPipe. See InputKind.Recordable.
	Input []byte `json:"input,omitempty"`
}

// TerminalResized is published when the size of a terminal has changed.
type TerminalResized struct {
	Origin
	Size Size `json:"size"`
}

// ProcessSignaled is published when a signal that was asked for has been sent to a process. A key that a terminal turns into a signal is an
// input, and the signals that end a process are in its EndRecord.
type ProcessSignaled struct {
	Origin
	Signal string `json:"signal"` // its name, such as "SIGTERM", or "SIG35" if it has none
	Tree   bool   `json:"tree,omitempty"`
}

// AuditAnchored is published when an audit log has been written to its disk. A host that keeps it elsewhere can tell later whether the log still
// has these lines, unchanged. It belongs to no session.
type AuditAnchored struct {
	Origin
	File string `json:"file"`
	AuditHead
}

// AuditHead is how far an audit log goes.
type AuditHead struct {
	Lines  int64  `json:"lines"`
	Digest string `json:"digest"` // SHA-256 of the last of them, without its newline, in hexadecimal digits
}

// String is "12:3a7b…", as "execbus audit verify --anchor" takes it.
func (h AuditHead) String() string { return fmt.Sprintf("%d:%s", h.Lines, h.Digest) }

// ProcessWarning is published when a session has nearly as many processes as it may have.
type ProcessWarning struct {
	Origin
	Processes int    `json:"processes"`
	Max       int    `json:"max"`
	Text      string `json:"text"`
}

// ExecNotice carries a message for the person who runs the host.
type ExecNotice struct {
	Origin
	Text string `json:"text"`
}

// CaughtUp says that output which follows is new: everything before Offset was there already when the reader began. It is never
// on the bus; a process's Follow tells it.
type CaughtUp struct {
	Origin
	Offset int64 `json:"offset"`
}

// Lossy reports whether events of the kind can be lost to a Gap.
func (k EventKind) Lossy() bool {
	return k == KindOutputDelta || k == KindTerminalInteraction || k == KindNetworkConnection || k == KindProgramExecuted
}

// ByName reports whether events of the kind come only to subscriptions that name it. There can be very many of them.
func (k EventKind) ByName() bool { return k == KindProgramExecuted }

// Gap stands where a slow subscriber lost output, inputs or executions of one process, or connections of the commands of a session.
type Gap struct {
	Origin
	// First is the offset of the first lost byte of output, End is the offset after the last one, and Deltas is the number of lost
	// OutputDelta events. If Deltas is 0 no output was lost, and First and End have no meaning. End is UnknownEnd if a machine was lost
	// with the rest of the output: then nobody knows how much there was, and Deltas is 1.
	First  int64 `json:"first"`
	End    int64 `json:"end"`
	Deltas int   `json:"deltas"`
	// Inputs is the number of lost TerminalInteraction events, and InputBytes is the sum of their lengths.
	Inputs     int   `json:"inputs,omitempty"`
	InputBytes int64 `json:"inputBytes,omitempty"`
	// Connections is the number of lost NetworkConnection events.
	Connections int `json:"connections,omitempty"`
	// Executions is the number of lost ProgramExecuted events.
	Executions int `json:"executions,omitempty"`
}

// UnknownEnd is the Gap.End of output whose length is not known.
const UnknownEnd = -1

// String is one phrase: "lost bytes 10 to 20 of output in 2 events and 3 inputs of 5 bytes".
func (g Gap) String() string {
	var parts []string
	switch {
	case g.Deltas > 0 && g.End == UnknownEnd:
		parts = append(parts, fmt.Sprintf("all output from byte %d on", g.First))
	case g.Deltas > 0 || g.Inputs == 0 && g.Connections == 0 && g.Executions == 0:
		parts = append(parts, fmt.Sprintf("bytes %d to %d of output in %d events", g.First, g.End, g.Deltas))
	}
	if g.Inputs > 0 {
		parts = append(parts, fmt.Sprintf("%d inputs of %d bytes", g.Inputs, g.InputBytes))
	}
	if g.Connections > 0 {
		parts = append(parts, fmt.Sprintf("%d connections", g.Connections))
	}
	if g.Executions > 0 {
		parts = append(parts, fmt.Sprintf("%d executions", g.Executions))
	}
	return "lost " + strings.Join(parts, " and ")
}

// Kind implements Event.
func (ExecStarted) Kind() EventKind { return KindExecStarted }

// Kind implements Event.
func (OutputDelta) Kind() EventKind { return KindOutputDelta }

// Kind implements Event.
func (ExecExited) Kind() EventKind { return KindExecExited }

// Kind implements Event.
func (OutputClosed) Kind() EventKind { return KindOutputClosed }

// Kind implements Event.
func (ExecEnded) Kind() EventKind { return KindExecEnded }

// Kind implements Event.
func (AttemptEnded) Kind() EventKind { return KindAttemptEnded }

// Kind implements Event.
func (TerminalInteraction) Kind() EventKind { return KindTerminalInteraction }

// Kind implements Event.
func (TerminalResized) Kind() EventKind { return KindTerminalResized }

// Kind implements Event.
func (ProcessSignaled) Kind() EventKind { return KindProcessSignaled }

// Kind implements Event.
func (AuditAnchored) Kind() EventKind { return KindAuditAnchored }

// Kind implements Event.
func (ProcessWarning) Kind() EventKind { return KindProcessWarning }

// Kind implements Event.
func (ExecNotice) Kind() EventKind { return KindExecNotice }

// Kind implements Event.
func (CaughtUp) Kind() EventKind { return KindCaughtUp }

// Kind implements Event.
func (Gap) Kind() EventKind { return KindGap }
