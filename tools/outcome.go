package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// Outcome is the structured answer of exec_command and write_stdin.
type Outcome struct {
	ChunkID         string  `json:"chunk_id,omitempty"`
	WallTimeSeconds float64 `json:"wall_time_seconds"`
	// State says in words that the process runs, or how and why it ended.
	State              string   `json:"state"`
	ExitCode           *int     `json:"exit_code,omitempty"`
	SessionID          *int     `json:"session_id,omitempty"`
	OriginalTokenCount *int64   `json:"original_token_count,omitempty"`
	Output             string   `json:"output"`
	Notes              []string `json:"notes,omitempty"` // the other lines of the text above the output
}

// outcome is the schema of an Outcome.
func outcome() map[string]any {
	number := func(about string) map[string]any { return map[string]any{"type": "number", "description": about} }
	return closed(map[string]any{
		"chunk_id":             map[string]any{"type": "string", "description": "Names this answer."},
		"wall_time_seconds":    number("How long the call took."),
		"state":                map[string]any{"type": "string", "description": "That the process runs, or how and why it ended."},
		"exit_code":            number("How the command ended; 128+n if signal n killed it. Missing while it runs."),
		"session_id":           number("The process, for further calls. Missing when it has ended."),
		"original_token_count": number("The tokens of output since the last answer, before anything was cut."),
		"output":               map[string]any{"type": "string", "description": "The output since the last answer."},
	}, "wall_time_seconds", "state", "output")
}

// outcome turns the result of a call into an answer.
func (s *Set) outcome(r *messages.Result, a arguments) Answer {
	o := Outcome{ChunkID: r.ChunkID, WallTimeSeconds: r.WallTime.Seconds(), State: standing(r), OriginalTokenCount: new(r.OriginalTokens()),
		Output: r.OutputText(), Notes: append(slices.Clip(a.notes), notes(r)...)}
	if r.Running {
		o.SessionID = new(int(r.Process))
	}
	if code, known := r.Status.Code(); known {
		o.ExitCode = &code
	}
	if s.options.WholeOutput && !a.has(argMaxTokens) {
		whole := *r
		whole.MaxOutputTokens, whole.MaxOutputBytes = unread, nil
		o.Output = whole.OutputText()
	}
	return Answer{Text: Text(r), Structured: o, Process: r.Process, Running: r.Running, MoreKept: r.OmittedKept}
}

// Text is a result as a model reads it: one line with the state of the process, further lines if there is more to
// report, and the output as UTF-8, cut in the middle to the result's bounds.
func Text(r *messages.Result) string {
	if r.Patch != nil {
		return patchText(r)
	}
	var b strings.Builder
	if r.ChunkID != "" {
		fmt.Fprintf(&b, "Chunk ID: %s\n", r.ChunkID)
	}
	fmt.Fprintf(&b, "Wall time: %.4f seconds\nProcess %s\n", r.WallTime.Seconds(), standing(r))
	for _, note := range notes(r) {
		b.WriteString(note + "\n")
	}
	fmt.Fprintf(&b, "Original token count: %d\nOutput:\n", r.OriginalTokens())
	b.WriteString(r.OutputText())
	return b.String()
}

// standing says that the process runs, or how it ended.
func standing(r *messages.Result) string {
	if r.Running {
		return fmt.Sprintf("running with session ID %d", r.Process)
	}
	end := messages.EndRecord{Cause: r.Cause, By: r.By, Limit: r.Limit, Status: r.Status, Detail: r.Lost}
	return end.Words()
}

// notes are what there is to report besides the state of the process, one line each.
func notes(r *messages.Result) (all []string) {
	add := func(format string, values ...any) { all = append(all, fmt.Sprintf(format, values...)) }
	if r.Waiting != "" {
		add("Not started yet, waiting %s", r.Waiting)
	}
	if _, left := r.Status.Code(); r.Running && (left || r.Lost != "") {
		leader := messages.EndRecord{Status: r.Status, Detail: r.Lost}
		add("Command: %s", leader.Words())
	}
	if r.Met != nil && r.Running {
		add("%s", metText(r.Met))
	}
	if r.Shown != nil && r.Shown.View == messages.ViewScreen {
		add("The output is the screen of the terminal")
	}
	if r.Background != nil {
		add("Background processes: %s", r.Background)
	}
	if r.Denial != nil {
		add("Note: %s", r.Denial)
	}
	for _, blocked := range r.BlockedHosts {
		add("Note: %s", messages.Visible(blocked.String()))
	}
	for _, refused := range r.RefusedExecutions {
		add("Note: %s", messages.Visible(refused.String()))
	}
	for _, earlier := range r.EarlierInput {
		add("Earlier input: %s", earlier)
	}
	if r.InputErr != nil {
		add("Input: %s", r.InputErr)
	}
	if r.Pending > 0 {
		add("Input: %d of %d bytes were taken, the rest is still offered", r.Taken, r.Taken+r.Pending)
	}
	return all
}
