package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/execbus/execbus/messages"
)

// describe returns an event in one line.
func describe(event messages.Event) string {
	from := event.From()
	text := fmt.Sprintf("event %s %s", from.At.Format("15:04:05.000"), event.Kind())
	if from.Process != 0 {
		text += fmt.Sprintf(" [%d]", from.Process)
	}
	return text + details(event)
}

func details(event messages.Event) string {
	switch e := event.(type) {
	case messages.ExecStarted:
		return fmt.Sprintf(" pid %d: %q in %s", e.PID, e.Argv, e.Dir)
	case messages.OutputDelta:
		return fmt.Sprintf(" number %d, %s: %d bytes at %d", e.Seq, e.Stream, len(e.Bytes), e.Offset)
	case messages.ExecExited:
		return " " + e.Status.String()
	case messages.OutputClosed:
		return fmt.Sprintf(" after %d bytes", e.Total)
	case messages.ExecEnded:
		return fmt.Sprintf(" %s; %d bytes of output; %d descendants ended", &e.EndRecord, e.Total, e.Tree.Ended)
	case messages.AttemptEnded:
		return fmt.Sprintf(" attempt %d: %v", e.Attempt, e.Denial)
	case messages.TerminalInteraction:
		return fmt.Sprintf(" %q", e.Input)
	case messages.ProcessWarning:
		return fmt.Sprintf(" %d of %d processes", e.Processes, e.Max)
	case messages.ExecNotice:
		return " " + e.Text
	case messages.ApprovalRequested:
		return fmt.Sprintf(" %s: %s", e.ID, e.Display)
	case messages.ApprovalResolved:
		return fmt.Sprintf(" %s: %s by %s", e.Question, cmp.Or(e.Decision, "withdrawn"), cmp.Or(e.Source, "the caller"))
	case messages.ToolDecision:
		return " " + decision(e)
	case messages.Gap:
		return " " + e.String()
	default:
		return ""
	}
}

func decision(e messages.ToolDecision) string {
	text := fmt.Sprintf("attempt %d: ", e.Attempt)
	if e.Allowed {
		text += "allowed by "
	} else {
		text += "refused by "
	}
	text += string(e.Source)
	if e.Decision != "" {
		text += ", " + string(e.Decision)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
