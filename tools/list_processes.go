package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

const argEnded = "include_ended"

// Listing is the structured answer of list_processes.
type Listing struct {
	Processes []Listed `json:"processes"`
	Notes     []string `json:"notes,omitempty"`
}

// Listed is one process in a Listing.
type Listed struct {
	SessionID int       `json:"session_id"`
	Command   string    `json:"command"`
	Workdir   string    `json:"workdir"`
	TTY       bool      `json:"tty"`
	State     string    `json:"state"`
	Began     time.Time `json:"began"`
	PID       int       `json:"pid,omitempty"`
	ExitCode  *int      `json:"exit_code,omitempty"`
	End       string    `json:"end,omitempty"` // how it ended, in words
}

func listProcesses() tool {
	word, number := map[string]any{"type": "string"}, map[string]any{"type": "number"}
	return tool{Tool: Tool{Name: "list_processes", Title: "List processes", ReadOnly: true,
		Description: "Lists the processes that run, and with include_ended those that have ended and are remembered: at most 64, for 10 minutes."},
		parameters: []parameter{{name: argEnded, kind: flag, about: "Whether to list ended ones, too. Default: false."}},
		output: closed(map[string]any{"processes": map[string]any{"type": "array", "items": closed(map[string]any{
			"session_id": number, "command": word, "workdir": word, "tty": map[string]any{"type": "boolean"}, "state": word, "began": word,
			"pid": number, "exit_code": number, "end": word}, "session_id", "command", "workdir", "tty", "state", "began")}}, "processes"),
		run: runList}
}

func runList(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	ask := s.session.List
	if a.flag(argEnded) {
		ask = s.session.Records
	}
	processes, err := ask(ctx)
	if err != nil {
		return failure("list_processes", err)
	}
	listing := Listing{Processes: []Listed{}, Notes: a.notes}
	var b strings.Builder
	fmt.Fprintf(&b, "Processes: %d", len(processes))
	for _, p := range processes {
		l := listed(p)
		listing.Processes = append(listing.Processes, l)
		fmt.Fprintf(&b, "\n%d %s: %s (in %s)", l.SessionID, describe(p), shortened(l.Command), l.Workdir)
	}
	return Answer{Text: b.String(), Structured: listing}
}

func listed(p messages.ProcessInfo) Listed {
	l := Listed{SessionID: int(p.Process), Command: p.Label, Workdir: p.Dir, TTY: p.TTY, State: string(p.State), Began: p.Began, PID: p.PID}
	if p.End != nil {
		l.End = p.End.Words()
		if code, known := p.End.Status.Code(); known {
			l.ExitCode = &code
		}
	}
	return l
}

// describe is the state of a process, in words.
func describe(p messages.ProcessInfo) string {
	if p.End != nil {
		return p.End.Words()
	}
	return strings.ReplaceAll(string(p.State), "_", " ")
}
