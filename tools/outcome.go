package tools

import (
	"github.com/execbus/execbus/messages"
)

// Outcome is the structured answer of exec_command and write_stdin.
type Outcome struct {
	ChunkID            string  `json:"chunk_id,omitempty"`
	WallTimeSeconds    float64 `json:"wall_time_seconds"`
	ExitCode           *int    `json:"exit_code,omitempty"`
	SessionID          *int    `json:"session_id,omitempty"`
	OriginalTokenCount *int64  `json:"original_token_count,omitempty"`
	Output             string  `json:"output"`
}

// outcome is the schema of an Outcome.
func outcome() map[string]any {
	number := func(about string) map[string]any { return map[string]any{"type": "number", "description": about} }
	return closed(map[string]any{
		"chunk_id":             map[string]any{"type": "string", "description": "Names this answer."},
		"wall_time_seconds":    number("How long the call took."),
		"exit_code":            number("How the command ended; 128+n if signal n killed it. Missing while it runs."),
		"session_id":           number("The process, for further calls. Missing when it has ended."),
		"original_token_count": number("The tokens of output since the last answer, before anything was cut."),
		"output":               map[string]any{"type": "string", "description": "The output since the last answer."},
	}, "wall_time_seconds", "output")
}

// outcome turns a result into an answer. bounded says that the call itself bounded the output.
func (s *Set) outcome(r *messages.Result, bounded bool) Answer {
	o := Outcome{ChunkID: r.ChunkID, WallTimeSeconds: r.WallTime.Seconds(), OriginalTokenCount: new(r.OriginalTokens()), Output: r.OutputText()}
	if r.Running {
		o.SessionID = new(int(r.Process))
	}
	if code, known := r.Status.Code(); known {
		o.ExitCode = &code
	}
	if s.options.WholeOutput && !bounded {
		whole := *r
		whole.MaxOutputTokens, whole.MaxOutputBytes = unread, nil
		o.Output = whole.OutputText()
	}
	return Answer{Text: Text(r), Structured: o, Process: r.Process, Running: r.Running}
}
