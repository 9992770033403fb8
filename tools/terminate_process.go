package tools

import (
	"context"
	"fmt"
	"time"

	"github.com/execbus/execbus/messages"
)

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
