package tools

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// The arguments of send_signal that no other tool has.
const (
	argSignal = "signal"
	argTree   = "tree"
)

// Sent is the structured answer of the tools that only confirm an action.
type Sent struct {
	SessionID int      `json:"session_id"`
	Result    string   `json:"result"` // what was done, in words
	Notes     []string `json:"notes,omitempty"`
}

func sent() map[string]any {
	return closed(map[string]any{"session_id": map[string]any{"type": "number"}, "result": map[string]any{"type": "string"}}, "session_id", "result")
}

// done is the answer of a call that only confirms an action.
func (a arguments) done(result string) Answer {
	return Answer{Text: result, Structured: Sent{int(a.process()), result, a.notes}}
}

func sendSignal() tool {
	return tool{Tool: Tool{Name: "send_signal", Title: "Signal a process", Destructive: true,
		Description: "Sends a signal to the process group in the foreground of a process, or to everything it started. It does not wait for the effect."},
		parameters: []parameter{sessionID,
			{name: argSignal, kind: text, required: true, about: "The signal's name, such as INT, TERM, HUP, USR1, STOP or CONT."},
			{name: argTree, kind: flag, about: "Whether everything it started gets the signal. Default: false."}},
		output: sent(), run: runSignal}
}

func runSignal(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(a.text(argSignal)), "SIG")
	number := unix.SignalNum(name)
	if number == 0 {
		return misread(wrong("send_signal", argSignal, fmt.Sprintf("there is no signal %.20q; use a name such as INT, TERM or USR1", a.text(argSignal))))
	}
	if err := s.session.Signal(ctx, messages.Signal{Process: a.process(), Signal: number, Tree: a.flag(argTree)}); err != nil {
		return failure("send_signal", err)
	}
	return a.done(fmt.Sprintf("%s was sent to process %d", name, a.process()))
}
