package tools

import (
	"context"
	"fmt"
	"math"

	"github.com/execbus/execbus/messages"
)

// The arguments of resize that no other tool has.
const (
	argRows = "rows"
	argCols = "cols"
)

func resize() tool {
	return tool{Tool: Tool{Name: "resize", Title: "Resize a terminal", Description: fmt.Sprintf(
		"Changes the size of the terminal of a process that was started with tty=true. It begins with %d rows and %d columns.",
		messages.Size{}.OrDefault().Rows, messages.Size{}.OrDefault().Cols)},
		parameters: []parameter{sessionID,
			{name: argRows, kind: whole, required: true, about: "The height, in character cells: 1 to 65535."},
			{name: argCols, kind: whole, required: true, about: "The width, in character cells: 1 to 65535."}},
		output: sent(), run: runResize}
}

func runResize(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	for _, side := range []string{argRows, argCols} {
		if n := a.number(side); n < 1 || n > math.MaxUint16 {
			return misread(wrong("resize", side, fmt.Sprintf("%d is out of range; use 1 to %d", n, math.MaxUint16)))
		}
	}
	size := messages.Size{Rows: uint16(a.number(argRows)), Cols: uint16(a.number(argCols))}
	if err := s.session.Resize(ctx, messages.Resize{Process: a.process(), Size: size}); err != nil {
		return failure("resize", err)
	}
	return a.done(fmt.Sprintf("The terminal of process %d has %d rows and %d columns", a.process(), size.Rows, size.Cols))
}
