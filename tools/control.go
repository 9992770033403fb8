package tools

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

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

// The arguments of resize that no other tool has.
const (
	argRows = "rows"
	argCols = "cols"
)

func resize() tool {
	return tool{Tool: Tool{Name: "resize", Title: "Resize a terminal", Description: fmt.Sprintf(
		"Changes the size of the terminal of a process that was started with tty=true. It begins with %d rows and %d columns.",
		messages.Size{}.OrDefault().Rows, messages.Size{}.OrDefault().Cols)},
		parameters: []parameter{sessionID,
			{name: argRows, kind: whole, required: true, about: "The height, in character cells: 1 to 65535."},
			{name: argCols, kind: whole, required: true, about: "The width, in character cells: 1 to 65535."}},
		output: sent(), run: runResize}
}

func runResize(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	for _, side := range []string{argRows, argCols} {
		if n := a.number(side); n < 1 || n > math.MaxUint16 {
			return misread(wrong("resize", side, fmt.Sprintf("%d is out of range; use 1 to %d", n, math.MaxUint16)))
		}
	}
	size := messages.Size{Rows: uint16(a.number(argRows)), Cols: uint16(a.number(argCols))}
	if err := s.session.Resize(ctx, messages.Resize{Process: a.process(), Size: size}); err != nil {
		return failure("resize", err)
	}
	return a.done(fmt.Sprintf("The terminal of process %d has %d rows and %d columns", a.process(), size.Rows, size.Cols))
}

const argGrace = "grace_ms"

// Termination is the structured answer of terminate_process.
type Termination struct {
	SessionID int    `json:"session_id"`
	End       string `json:"end"`
	ExitCode  *int   `json:"exit_code,omitempty"`
	// Background counts the other processes of its tree that were ended; Survivors names those that could not be ended.
	Background int      `json:"background"`
	Survivors  []string `json:"survivors,omitempty"`
	Notes      []string `json:"notes,omitempty"`
}

func terminateProcess() tool {
	number := map[string]any{"type": "number"}
	return tool{Tool: Tool{Name: "terminate_process", Title: "End a process", Destructive: true,
		Description: "Ends a process with everything it started, and answers when they have ended: SIGTERM, a grace period, then SIGKILL."},
		parameters: []parameter{sessionID,
			{name: argGrace, kind: milliseconds, about: "How long to wait before SIGKILL; 0 sends it at once. Default: 500."}},
		output: closed(map[string]any{"session_id": number, "end": map[string]any{"type": "string"}, "exit_code": number, "background": number,
			"survivors": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}, "session_id", "end", "background"),
		run: runTerminate}
}

func runTerminate(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	record, err := s.session.Terminate(ctx, messages.Terminate{Process: a.process(), By: messages.TerminatedByUser, Grace: optional[time.Duration](a, argGrace)})
	if err != nil {
		return failure("terminate_process", err)
	}
	t := Termination{SessionID: int(a.process()), End: record.Words(), Background: record.Tree.Ended, Notes: a.notes}
	if code, known := record.Status.Code(); known {
		t.ExitCode = &code
	}
	said := fmt.Sprintf("Process %d %s", t.SessionID, t.End)
	if t.Background > 0 {
		said += fmt.Sprintf("\nBackground processes ended with it: %d", t.Background)
	}
	for _, survivor := range record.Tree.Survivors {
		t.Survivors = append(t.Survivors, fmt.Sprintf("%d (%s): %s", survivor.PID, survivor.Name, survivor.Why))
		said += "\nStill alive: " + t.Survivors[len(t.Survivors)-1]
	}
	return Answer{Text: said, Structured: t}
}
