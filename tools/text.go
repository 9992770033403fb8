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
	if r.Waiting != "" {
		fmt.Fprintf(&b, "Not started yet, waiting %s\n", r.Waiting)
	}
	if _, left := r.Status.Code(); r.Running && (left || r.Lost != "") {
		leader := messages.EndRecord{Status: r.Status, Detail: r.Lost}
		fmt.Fprintf(&b, "Command: %s\n", leader.Words())
	}
	if r.Background != nil {
		fmt.Fprintf(&b, "Background processes: %s\n", r.Background)
	}
	if r.Denial != nil {
		fmt.Fprintf(&b, "Note: %s\n", r.Denial)
	}
	writeInput(&b, r)
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

// writeInput reports on the bytes that were written.
func writeInput(b *strings.Builder, r *messages.Result) {
	for _, earlier := range r.EarlierInput {
		fmt.Fprintf(b, "Earlier input: %s\n", earlier)
	}
	if r.InputErr != nil {
		fmt.Fprintf(b, "Input: %s\n", r.InputErr)
	}
	if r.Pending > 0 {
		fmt.Fprintf(b, "Input: %d of %d bytes were taken, the rest is still offered\n", r.Taken, r.Taken+r.Pending)
	}
}
