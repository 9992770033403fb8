package messages

import "strings"

// ErrorCode classifies an Error; the set is closed and crosses every wire verbatim. It is an error itself, so that errors.Is
// finds it: errors.Is(err, messages.ErrProcessEnded).
type ErrorCode string

// Error is the code in plain words.
func (c ErrorCode) Error() string { return strings.ReplaceAll(string(c), "_", " ") }

// The codes.
const (
	ErrInvalidRequest   ErrorCode = "invalid_request"   // a field is missing, malformed or out of range
	ErrUnknownProcess   ErrorCode = "unknown_process"   // the session and its records have no such id
	ErrProcessEnded     ErrorCode = "process_ended"     // the process has ended; Ended holds its record
	ErrNoSuchProgram    ErrorCode = "no_such_program"   // the program does not exist; also matches ErrSpawnFailed
	ErrSpawnFailed      ErrorCode = "spawn_failed"      // the program could not be started
	ErrStdinClosed      ErrorCode = "stdin_closed"      // the process was started without input, or its input is closed
	ErrLineTooLong      ErrorCode = "line_too_long"     // a terminal in line mode cannot hold the line
	ErrInputFull        ErrorCode = "input_full"        // too many bytes wait for the process
	ErrInputNotTaken    ErrorCode = "input_not_taken"   // the process did not take all bytes before the deadline
	ErrNotATerminal     ErrorCode = "not_a_terminal"    // the operation needs a PTY and the process is on pipes
	ErrWrongState       ErrorCode = "wrong_state"       // the process is not in a state in which this can be done
	ErrUnsupported      ErrorCode = "unsupported"       // this platform, spawner or terminal mode cannot do it
	ErrLimitReached     ErrorCode = "limit_reached"     // no slot is free and no process can be pruned; Busy names the ids
	ErrSlowSubscriber   ErrorCode = "slow_subscriber"   // a subscription fell too far behind and was ended
	ErrCancelled        ErrorCode = "cancelled"         // the caller's context ended; no output was taken
	ErrClosed           ErrorCode = "closed"            // the session, runtime, bus or child is closed
	ErrWardenLost       ErrorCode = "warden_lost"       // the warden process died
	ErrRuntimeFailure   ErrorCode = "runtime_failure"   // a defect or failure inside execbus itself
	ErrOutputUnretained ErrorCode = "output_unretained" // this part of the output is not kept
	ErrRejected         ErrorCode = "rejected"          // a policy, a rule or a person did not allow the command
	ErrAborted          ErrorCode = "aborted"           // a person did not allow it and wants the turn to stop
	ErrAlreadyResolved  ErrorCode = "already_resolved"  // the question has been answered or withdrawn
	ErrUnknownQuestion  ErrorCode = "unknown_question"  // no such question in this session
	ErrAuditFailed      ErrorCode = "audit_failed"      // the audit log cannot be written, and nothing may begin without it
	ErrKeyboardTaken    ErrorCode = "keyboard_taken"    // a person has the keyboard of the process
	ErrUnknownGrant     ErrorCode = "unknown_grant"     // no such grant in this session, or it has been revoked or has expired
	ErrUnreachable      ErrorCode = "unreachable"       // the machine that holds the session does not answer now; it may come back
	ErrNodeLost         ErrorCode = "node_lost"         // the machine that held the session is lost, and the session with it
)

// Error is the one error type of execbus. It says what happened, to what, and what a person, a model or a program can do about
// it. It crosses JSON unchanged.
type Error struct {
	Code    ErrorCode `json:"code"`
	Op      string    `json:"op,omitempty"`      // what was being done: "exec", "write", "resize"
	Subject string    `json:"subject,omitempty"` // what it was done to: a process id, a path, a field
	Detail  string    `json:"detail,omitempty"`  // what happened; what to do about it
	Hint    string    `json:"hint,omitempty"`    // the Go way to do it, for the embedder; not part of Error()

	Like StandardError `json:"like,omitempty"` // the error of the standard library that it matches, too

	Ended *EndRecord  `json:"ended,omitempty"` // with ErrProcessEnded: how the process ended
	Busy  []ProcessID `json:"busy,omitempty"`  // with ErrLimitReached: the ids that hold the slots

	Denial *Denial `json:"denial,omitempty"` // what the sandbox had stopped, if a retry was refused

	// Enforceable is the level to which this machine can enforce a sandbox policy, if that is less than the least accepted level.
	Enforceable Assurance `json:"enforceable,omitempty"`
}

// Error is one sentence: operation and subject, and Detail.
func (e *Error) Error() string {
	var b strings.Builder
	if head := strings.TrimSpace(e.Op + " " + e.Subject); head != "" {
		b.WriteString(head + ": ")
	}
	if e.Detail != "" {
		b.WriteString(e.Detail)
	} else {
		b.WriteString(e.Code.Error())
	}
	return b.String()
}

// general has the more general code that a code also matches, for callers that need not tell the two apart.
var general = map[ErrorCode]ErrorCode{
	ErrProcessEnded:  ErrUnknownProcess,
	ErrNoSuchProgram: ErrSpawnFailed,
}

// Is matches an error's code. ErrProcessEnded also matches ErrUnknownProcess, and ErrNoSuchProgram ErrSpawnFailed. Errors match
// errors of the standard library with the same meaning, too: exec.ErrNotFound and fs.ErrNotExist (ErrNoSuchProgram; a directory
// that does not exist is only the latter), fs.ErrPermission (a program or directory without the permission), context.Canceled and
// context.DeadlineExceeded (ErrCancelled and ErrUnreachable, as the call's context ended), os.ErrDeadlineExceeded (ErrInputNotTaken in time).
func (e *Error) Is(target error) bool {
	if code, ok := target.(ErrorCode); ok {
		return code != "" && (e.Code == code || general[e.Code] == code)
	}
	return e.standard(target)
}
