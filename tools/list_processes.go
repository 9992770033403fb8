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
	// What it waits for: a messages.InputKind, which may be a guess; where it listens; and why some of this is not known, in words.
	WaitingFor string   `json:"waiting_for,omitempty"`
	Guess      bool     `json:"guess,omitempty"`
	Listening  []string `json:"listening,omitempty"`
	Unknown    string   `json:"unknown,omitempty"`
}

func listProcesses() tool {
	word, number := map[string]any{"type": "string"}, map[string]any{"type": "number"}
	return tool{Tool: Tool{Name: "list_processes", Title: "List processes", ReadOnly: true,
		Description: "Lists the processes that run, with the input that each waits for and where it listens on TCP, and with include_ended those that have ended and are remembered: at most 64, for 10 minutes."},
		parameters: []parameter{{name: argEnded, kind: flag, about: "Whether to list ended ones, too. Default: false."}},
		output: closed(map[string]any{"processes": map[string]any{"type": "array", "items": closed(map[string]any{
			"session_id": number, "command": word, "workdir": word, "tty": map[string]any{"type": "boolean"}, "state": word, "began": word,
			"pid": number, "exit_code": number, "end": word, "waiting_for": word, "guess": map[string]any{"type": "boolean"},
			"listening": map[string]any{"type": "array", "items": word}, "unknown": word}, "session_id", "command", "workdir", "tty", "state", "began")}}, "processes"),
		run: runList}
}

func runList(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	processes, err := s.session.List(ctx)
	if err == nil && a.flag(argEnded) {
		processes, err = withEnded(ctx, s, processes)
	}
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

// withEnded is what is remembered, with what those that run wait for.
func withEnded(ctx context.Context, s *Set, running messages.Processes) (messages.Processes, error) {
	awaits := map[messages.ProcessID]*messages.Awaits{}
	for _, p := range running {
		awaits[p.Process] = p.Awaits
	}
	all, err := s.session.Records(ctx)
	for i := range all {
		if all[i].End == nil {
			all[i].Awaits = awaits[all[i].Process]
		}
	}
	return all, err
}

func listed(p messages.ProcessInfo) Listed {
	l := Listed{SessionID: int(p.Process), Command: p.Label, Workdir: p.Dir, TTY: p.TTY, State: string(p.State), Began: p.Began, PID: p.PID}
	if p.End != nil {
		l.End = p.End.Words()
		if code, known := p.End.Status.Code(); known {
			l.ExitCode = &code
		}
	}
	if a := p.Awaits; a != nil {
		l.Listening, l.Unknown = a.Listening, a.Unknown
		if a.Input != nil {
			l.WaitingFor, l.Guess = string(a.Input.Kind), a.Input.Guess
		}
	}
	return l
}

// describe is the state of a process, in words.
func describe(p messages.ProcessInfo) string {
	if p.End != nil {
		return p.End.Words()
	}
	state := strings.ReplaceAll(string(p.State), "_", " ")
	if waits := p.Awaits.String(); waits != "" {
		state += "; " + waits
	}
	return state
}
