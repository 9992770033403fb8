package messages

import "strings"

// Code classifies an Error; the set is closed and crosses every wire verbatim.
type Code string

// The codes.
const (
	CodeInvalidRequest   Code = "invalid_request"   // a field is missing, malformed or out of range
	CodeUnknownProcess   Code = "unknown_process"   // no such id in this session, now or in its records
	CodeProcessEnded     Code = "process_ended"     // the id names a process that is over; Ended holds its record
	CodeNoSuchProgram    Code = "no_such_program"   // the program does not exist; also matches ErrSpawnFailed
	CodeSpawnFailed      Code = "spawn_failed"      // the program could not be started
	CodeStdinClosed      Code = "stdin_closed"      // the process takes no input, or takes none any more
	CodeLineTooLong      Code = "line_too_long"     // a terminal in line mode cannot hold the line
	CodeInputFull        Code = "input_full"        // too many bytes wait to be taken by the process
	CodeInputNotTaken    Code = "input_not_taken"   // the process did not take all bytes before the deadline
	CodeNotATerminal     Code = "not_a_terminal"    // the operation needs a PTY and the process is on pipes
	CodeWrongState       Code = "wrong_state"       // the process is not in a state in which this can be done
	CodeUnsupported      Code = "unsupported"       // this platform, spawner or terminal mode cannot do it
	CodeLimitReached     Code = "limit_reached"     // no slot is free and nothing may be pruned; Busy names the ids
	CodeSlowSubscriber   Code = "slow_subscriber"   // a subscription fell too far behind and was ended
	CodeCancelled        Code = "cancelled"         // the caller gave up waiting; nothing was taken
	CodeClosed           Code = "closed"            // the session, runtime, bus or child is closed
	CodeWardenLost       Code = "warden_lost"       // the warden process died
	CodeRuntimeFailure   Code = "runtime_failure"   // a defect or failure inside execbus itself
	CodeOutputUnretained Code = "output_unretained" // a read outside of what is retained
	CodeRejected         Code = "rejected"          // a policy, a rule or a person did not allow the command
	CodeAborted          Code = "aborted"           // a person did not allow it and wants the turn to stop
	CodeAlreadyResolved  Code = "already_resolved"  // the question has been answered or withdrawn
	CodeUnknownQuestion  Code = "unknown_question"  // no such question in this session
	CodeUnknownGrant     Code = "unknown_grant"     // no such grant in this session, or it has been revoked or has expired
)

// Error is the one error type of execbus. It says what happened, to what, and what anyone can do about it: a person, a model
// or a program. It crosses JSON unchanged.
type Error struct {
	Code    Code   `json:"code"`
	Op      string `json:"op,omitempty"`      // what was being done: "exec", "write", "resize"
	Subject string `json:"subject,omitempty"` // what it was done to: a process id, a path, a field
	Detail  string `json:"detail,omitempty"`  // what happened; what anyone can do about it
	Hint    string `json:"hint,omitempty"`    // the Go way to do it, for the embedder; not part of Error()

	Ended *EndRecord  `json:"ended,omitempty"` // with CodeProcessEnded: how the process ended
	Busy  []ProcessID `json:"busy,omitempty"`  // with CodeLimitReached: the ids that hold the slots

	Denial *Denial `json:"denial,omitempty"` // what the sandbox had stopped, where a retry was refused
}

// Sentinels for errors.Is, one per code.
var (
	ErrInvalidRequest   = &Error{Code: CodeInvalidRequest}
	ErrUnknownProcess   = &Error{Code: CodeUnknownProcess}
	ErrProcessEnded     = &Error{Code: CodeProcessEnded}
	ErrNoSuchProgram    = &Error{Code: CodeNoSuchProgram}
	ErrSpawnFailed      = &Error{Code: CodeSpawnFailed}
	ErrStdinClosed      = &Error{Code: CodeStdinClosed}
	ErrLineTooLong      = &Error{Code: CodeLineTooLong}
	ErrInputFull        = &Error{Code: CodeInputFull}
	ErrInputNotTaken    = &Error{Code: CodeInputNotTaken}
	ErrNotATerminal     = &Error{Code: CodeNotATerminal}
	ErrWrongState       = &Error{Code: CodeWrongState}
	ErrUnsupported      = &Error{Code: CodeUnsupported}
	ErrLimitReached     = &Error{Code: CodeLimitReached}
	ErrSlowSubscriber   = &Error{Code: CodeSlowSubscriber}
	ErrCancelled        = &Error{Code: CodeCancelled}
	ErrClosed           = &Error{Code: CodeClosed}
	ErrWardenLost       = &Error{Code: CodeWardenLost}
	ErrRuntimeFailure   = &Error{Code: CodeRuntimeFailure}
	ErrOutputUnretained = &Error{Code: CodeOutputUnretained}
	ErrRejected         = &Error{Code: CodeRejected}
	ErrAborted          = &Error{Code: CodeAborted}
	ErrAlreadyResolved  = &Error{Code: CodeAlreadyResolved}
	ErrUnknownQuestion  = &Error{Code: CodeUnknownQuestion}
	ErrUnknownGrant     = &Error{Code: CodeUnknownGrant}
)

// Error is one sentence: operation and subject, and Detail.
func (e *Error) Error() string {
	var b strings.Builder
	if head := strings.TrimSpace(e.Op + " " + e.Subject); head != "" {
		b.WriteString(head + ": ")
	}
	if e.Detail != "" {
		b.WriteString(e.Detail)
	} else {
		b.WriteString(strings.ReplaceAll(string(e.Code), "_", " "))
	}
	return b.String()
}

// general maps a code to the sentinel that it matches besides its own, for callers that need not tell the two apart.
var general = map[Code]Code{
	CodeProcessEnded:  CodeUnknownProcess,
	CodeNoSuchProgram: CodeSpawnFailed,
}

// Is matches a sentinel by its code and looks at nothing else. CodeProcessEnded also matches ErrUnknownProcess, and
// CodeNoSuchProgram ErrSpawnFailed.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	if !ok || t == nil || t.Code == "" {
		return false
	}
	return e.Code == t.Code || general[e.Code] == t.Code
}
