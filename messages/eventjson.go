package messages

import (
	"encoding/json"
	"fmt"
)

// In JSON an event has its kind in front of its own fields: {"kind":"output_delta","session":…}.

// withKind is the JSON of an event whose fields are given as a type that has no MarshalJSON.
func withKind(kind EventKind, fields any) ([]byte, error) {
	encoded, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, `{"kind":%q,`, kind), encoded[1:]...), nil // every event has a field, so the comma is right
}

// UnmarshalEvent reads an event of any kind from its JSON. An unknown kind is an error.
func UnmarshalEvent(text []byte) (Event, error) {
	var head struct {
		Kind EventKind `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	read, ok := readers[head.Kind]
	if !ok {
		return nil, fmt.Errorf("there is no event of the kind %q", head.Kind)
	}
	return read(text)
}

var readers = map[EventKind]func([]byte) (Event, error){
	KindExecStarted:         read[ExecStarted],
	KindOutputDelta:         read[OutputDelta],
	KindExecExited:          read[ExecExited],
	KindOutputClosed:        read[OutputClosed],
	KindExecEnded:           read[ExecEnded],
	KindAttemptEnded:        read[AttemptEnded],
	KindTerminalInteraction: read[TerminalInteraction],
	KindTerminalResized:     read[TerminalResized],
	KindProcessSignaled:     read[ProcessSignaled],
	KindAuditAnchored:       read[AuditAnchored],
	KindProcessWarning:      read[ProcessWarning],
	KindExecNotice:          read[ExecNotice],
	KindGap:                 read[Gap],
	KindCaughtUp:            read[CaughtUp],
	KindApprovalRequested:   read[ApprovalRequested],
	KindApprovalResolved:    read[ApprovalResolved],
	KindToolDecision:        read[ToolDecision],
	KindNetworkConnection:   read[NetworkConnection],
	KindProgramExecuted:     read[ProgramExecuted],
	KindPatchStarted:        read[PatchStarted],
	KindPatchApplied:        read[PatchApplied],
	KindPatchFailed:         read[PatchFailed],
	KindKeyboardTaken:       read[KeyboardTaken],
	KindKeyboardReturned:    read[KeyboardReturned],
}

func read[T Event](text []byte) (Event, error) {
	var event T
	if err := json.Unmarshal(text, &event); err != nil {
		return nil, err
	}
	return event, nil
}

// MarshalJSON implements json.Marshaler.
func (e ExecStarted) MarshalJSON() ([]byte, error) {
	type fields ExecStarted
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e OutputDelta) MarshalJSON() ([]byte, error) {
	type fields OutputDelta
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ExecExited) MarshalJSON() ([]byte, error) {
	type fields ExecExited
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e OutputClosed) MarshalJSON() ([]byte, error) {
	type fields OutputClosed
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ExecEnded) MarshalJSON() ([]byte, error) {
	type fields ExecEnded
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e AttemptEnded) MarshalJSON() ([]byte, error) {
	type fields AttemptEnded
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e TerminalInteraction) MarshalJSON() ([]byte, error) {
	type fields TerminalInteraction
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e TerminalResized) MarshalJSON() ([]byte, error) {
	type fields TerminalResized
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ProcessSignaled) MarshalJSON() ([]byte, error) {
	type fields ProcessSignaled
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e AuditAnchored) MarshalJSON() ([]byte, error) {
	type fields AuditAnchored
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ProcessWarning) MarshalJSON() ([]byte, error) {
	type fields ProcessWarning
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ExecNotice) MarshalJSON() ([]byte, error) {
	type fields ExecNotice
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e CaughtUp) MarshalJSON() ([]byte, error) {
	type fields CaughtUp
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e Gap) MarshalJSON() ([]byte, error) {
	type fields Gap
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ApprovalRequested) MarshalJSON() ([]byte, error) {
	type fields ApprovalRequested
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ApprovalResolved) MarshalJSON() ([]byte, error) {
	type fields ApprovalResolved
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ToolDecision) MarshalJSON() ([]byte, error) {
	type fields ToolDecision
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e PatchStarted) MarshalJSON() ([]byte, error) {
	type fields PatchStarted
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e PatchApplied) MarshalJSON() ([]byte, error) {
	type fields PatchApplied
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e PatchFailed) MarshalJSON() ([]byte, error) {
	type fields PatchFailed
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e ProgramExecuted) MarshalJSON() ([]byte, error) {
	type fields ProgramExecuted
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e NetworkConnection) MarshalJSON() ([]byte, error) {
	type fields NetworkConnection
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e KeyboardTaken) MarshalJSON() ([]byte, error) {
	type fields KeyboardTaken
	return withKind(e.Kind(), fields(e))
}

// MarshalJSON implements json.Marshaler.
func (e KeyboardReturned) MarshalJSON() ([]byte, error) {
	type fields KeyboardReturned
	return withKind(e.Kind(), fields(e))
}
