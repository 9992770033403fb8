package messages

import (
	"fmt"
	"strings"
)

// OriginalTokens estimates the tokens of all output since the last answer, dropped output included.
func (r *Result) OriginalTokens() int64 { return Tokens(int64(len(r.Output)) + r.Omitted) }

// Text is the result as a model reads it: one line with the state of the process, further lines if there is more to
// report, and the output as UTF-8, cut in the middle to MaxOutputTokens or MaxOutputBytes.
func (r *Result) Text() string {
	var b strings.Builder
	if r.ChunkID != "" {
		fmt.Fprintf(&b, "Chunk ID: %s\n", r.ChunkID)
	}
	fmt.Fprintf(&b, "Wall time: %.4f seconds\nProcess %s\n", r.WallTime.Seconds(), r.standing())
	if r.Waiting != "" {
		fmt.Fprintf(&b, "Not started yet, waiting %s\n", r.Waiting)
	}
	if r.Running && r.left() {
		fmt.Fprintf(&b, "Command: %s\n", exitWords(r.Status, r.Lost))
	}
	if r.Background != nil {
		fmt.Fprintf(&b, "Background processes: %s\n", r.Background)
	}
	if r.Denial != nil {
		fmt.Fprintf(&b, "Note: %s\n", r.Denial)
	}
	r.writeInput(&b)
	fmt.Fprintf(&b, "Original token count: %d\nOutput:\n", r.OriginalTokens())
	b.WriteString(r.OutputText())
	return b.String()
}

// standing says that the process runs, or how it ended.
func (r *Result) standing() string {
	switch {
	case r.Running:
		return fmt.Sprintf("running with session ID %d", r.Process)
	case r.Cause != "" && r.Cause != CauseExited:
		return gone(r.Cause, onBehalf(r.By, r.Limit), r.Status, r.Lost)
	default:
		return exitWords(r.Status, r.Lost)
	}
}

// left reports whether the leader has exited.
func (r *Result) left() bool {
	_, known := r.Status.Code()
	return known || r.Lost != ""
}

// writeInput reports on the bytes that were written.
func (r *Result) writeInput(b *strings.Builder) {
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

// String is one phrase: "3 of 10 bytes were taken".
func (o InputOutcome) String() string {
	text := fmt.Sprintf("%d of %d bytes were taken", o.Taken, o.Bytes)
	if o.Err != nil {
		text += ": " + o.Err.Error()
	}
	return text
}

// String says how many children there are, and whether they are kept.
func (b *Background) String() string {
	if b.Kept {
		return fmt.Sprintf("%d kept running", b.Count)
	}
	return fmt.Sprintf("%d being ended", b.Count)
}
