package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// The arguments of wait_processes that no other tool has.
const (
	argProcesses = "processes"
	argAll       = "all"
)

// Wakeups is the structured answer of wait_processes.
type Wakeups struct {
	Wakeups []Wakeup `json:"wakeups"`
	Notes   []string `json:"notes,omitempty"`
}

// Wakeup is one reason for the answer.
type Wakeup struct {
	SessionID int    `json:"session_id"`
	Reason    string `json:"reason"` // a messages.MetReason
	Text      string `json:"text"`   // the same in words
	ExitCode  *int   `json:"exit_code,omitempty"`
}

func waitProcesses() tool {
	word, number := map[string]any{"type": "string"}, map[string]any{"type": "number"}
	return tool{Tool: Tool{Name: "wait_processes", Title: "Wait for several processes", ReadOnly: true,
		Description: "Waits for several processes at once, and answers at the first reason: an end, or what until says. It returns no output: write_stdin with empty chars does. " +
			"What is met already counts, until its output is returned."},
		parameters: []parameter{
			{name: argProcesses, kind: waits, required: true, about: fmt.Sprintf("The processes, at most %d, each with what to wait for at it besides its end.", messages.MaxWaitItems)},
			{name: argAll, kind: flag, about: "Whether to wait for a reason at each of them, not only for the first. Default: false."},
			{name: argYield, kind: milliseconds, about: fmt.Sprintf("How long to wait at most. Default: %d.", ms(messages.MinPoll))},
		},
		output: closed(map[string]any{"wakeups": map[string]any{"type": "array", "items": closed(map[string]any{
			"session_id": number, "reason": word, "text": word, "exit_code": number}, "session_id", "reason", "text")}}, "wakeups"),
		run: runWait}
}

// waitSchema is the schema of the processes of a wait.
func waitSchema() map[string]any {
	return closed(map[string]any{sessionID.name: map[string]any{"type": "number", "description": sessionID.about},
		until.name: map[string]any{"anyOf": untilSchemas(), "description": "What to wait for besides the end, as in exec_command."}}, sessionID.name)
}

// readWaits reads the processes of a wait.
func readWaits(raw json.RawMessage) (any, string) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var said []struct {
		SessionID messages.ProcessID `json:"session_id"`
		Until     json.RawMessage    `json:"until"`
	}
	if err := decoder.Decode(&said); err != nil {
		return nil, strings.TrimPrefix(err.Error(), "json: ")
	}
	items := make([]messages.WaitFor, len(said))
	for i, one := range said {
		if one.SessionID <= 0 {
			return nil, "one of them has no session_id; provide the number that exec_command gave"
		}
		items[i].Process = one.SessionID
		if len(one.Until) == 0 || string(one.Until) == "null" {
			continue
		}
		value, why := readUntil(one.Until)
		if why != "" {
			return nil, why
		}
		items[i].Until = value.(*messages.Until)
	}
	return items, ""
}

func runWait(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	items, _ := a.values[argProcesses].([]messages.WaitFor)
	found, err := s.session.Wait(ctx, messages.Wait{For: items, Any: !a.flag(argAll), Yield: optional[time.Duration](a, argYield)})
	if err != nil {
		return failure("wait_processes", err)
	}
	answer := Wakeups{Wakeups: []Wakeup{}, Notes: a.notes}
	var b strings.Builder
	fmt.Fprintf(&b, "Reasons: %d", len(found))
	for _, w := range found {
		one := Wakeup{SessionID: int(w.Process), Reason: string(w.Met.Reason), Text: w.Met.String()}
		if w.Met.Reason == messages.MetExit {
			if code, known := w.Status.Code(); known {
				one.ExitCode, one.Text = &code, fmt.Sprintf("%s with code %d", one.Text, code)
			} else if w.Lost != "" {
				one.Text += ": " + w.Lost
			}
		}
		answer.Wakeups = append(answer.Wakeups, one)
		fmt.Fprintf(&b, "\n%d: %s", one.SessionID, one.Text)
	}
	return Answer{Text: b.String(), Structured: answer}
}
