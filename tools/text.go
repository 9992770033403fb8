package tools

import (
	"fmt"
	"strings"

	"github.com/execbus/execbus/messages"
)

// Text is a result as a model reads it: one line with the state of the process, further lines if there is more to
// report, and the output as UTF-8, cut in the middle to the result's bounds.
func Text(r *messages.Result) string {
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
	if r.Background != nil {
		add("Background processes: %s", r.Background)
	}
	if r.Denial != nil {
		add("Note: %s", r.Denial)
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
