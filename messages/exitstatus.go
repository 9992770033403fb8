package messages

import (
	"encoding/json"
	"fmt"
	"syscall"
)

// ExitKind says what an ExitStatus holds.
type ExitKind string

// The kinds of ExitStatus.
const (
	ExitNone   ExitKind = "none"   // no leader ever ran, or the kernel's report was lost with the warden
	ExitCode   ExitKind = "code"   // the leader called exit; Number is 0 to 255
	ExitSignal ExitKind = "signal" // a signal killed the leader; Number is the signal
)

// ExitStatus is how the kernel reported the end of the leader, unchanged. In JSON it is {"kind":"code","code":1},
// {"kind":"signal","signal":"SIGTERM"} or {"kind":"none"}.
type ExitStatus struct {
	Kind   ExitKind
	Number int
}

// StatusExited is the status of a leader that returned code.
func StatusExited(code int) ExitStatus { return ExitStatus{Kind: ExitCode, Number: code} }

// StatusSignaled is the status of a leader that was killed by a signal.
func StatusSignaled(sig syscall.Signal) ExitStatus {
	return ExitStatus{Kind: ExitSignal, Number: int(sig)}
}

// StatusNone is the status where the kernel reported none.
func StatusNone() ExitStatus { return ExitStatus{Kind: ExitNone} }

// Code is the exit code for models and scripts: the leader's own, or 128+n for signal n; false if there is
// no status.
func (s ExitStatus) Code() (code int, known bool) {
	switch s.Kind {
	case ExitCode:
		return s.Number, true
	case ExitSignal:
		return 128 + s.Number, true
	default:
		return 0, false
	}
}

// Signal is the signal that killed the leader; false if none did.
func (s ExitStatus) Signal() (sig syscall.Signal, killed bool) {
	if s.Kind != ExitSignal {
		return 0, false
	}
	return syscall.Signal(s.Number), true
}

// String is "code(n)", "signal(n)" or "none".
func (s ExitStatus) String() string {
	if s.Kind == ExitCode || s.Kind == ExitSignal {
		return fmt.Sprintf("%s(%d)", s.Kind, s.Number)
	}
	return string(ExitNone)
}

// statusJSON is an ExitStatus as it crosses JSON.
type statusJSON struct {
	Kind   ExitKind `json:"kind"`
	Code   *int     `json:"code,omitempty"`
	Signal string   `json:"signal,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s ExitStatus) MarshalJSON() ([]byte, error) {
	switch s.Kind {
	case ExitCode:
		return json.Marshal(statusJSON{Kind: s.Kind, Code: &s.Number})
	case ExitSignal:
		return json.Marshal(statusJSON{Kind: s.Kind, Signal: signalName(syscall.Signal(s.Number))})
	default:
		return json.Marshal(statusJSON{Kind: s.Kind})
	}
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *ExitStatus) UnmarshalJSON(text []byte) error {
	var read statusJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	status := ExitStatus{Kind: read.Kind}
	switch read.Kind {
	case ExitCode:
		if read.Code == nil {
			return fmt.Errorf("an exit status of the kind %q has no code", read.Kind)
		}
		status.Number = *read.Code
	case ExitSignal:
		sig, err := signalNumber(read.Signal)
		if err != nil {
			return err
		}
		status.Number = int(sig)
	case ExitNone, "":
	default:
		return fmt.Errorf("an exit status is of the kind code, signal or none, not %q", read.Kind)
	}
	*s = status
	return nil
}
