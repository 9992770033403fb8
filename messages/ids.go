package messages

import (
	"fmt"
	"strconv"
	"strings"
)

// SessionID names one conversation of a host. It is chosen by the runtime and unique within it.
type SessionID string

// ProcessID is the number that a model sees for one command: 1000 to 99999, never the kernel's pid.
// Zero means "no process".
type ProcessID int

// String is the decimal form used in events and on the wire.
func (id ProcessID) String() string { return strconv.Itoa(int(id)) }

// maxNamed bounds the ids that one sentence names.
const maxNamed = 64

// ProcessIDs lists ids in a sentence: "1000, 2345 and 5 more".
func ProcessIDs(ids []ProcessID) string {
	var names []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		names = append(names, id.String())
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// CallID is the caller's own name for one call; it is known before the process id is.
type CallID string

// Size is a terminal's size in character cells. The zero value means the default of 24 rows and 80 columns.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// The default size of a terminal.
const (
	DefaultSizeRows = 24
	DefaultSizeCols = 80
)

// OrDefault replaces a zero dimension by the default one.
func (s Size) OrDefault() Size {
	if s.Rows == 0 {
		s.Rows = DefaultSizeRows
	}
	if s.Cols == 0 {
		s.Cols = DefaultSizeCols
	}
	return s
}
