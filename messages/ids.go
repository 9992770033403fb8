package messages

import "strconv"

// SessionID names one conversation of a host. It is chosen by the runtime and unique within it.
type SessionID string

// ProcessID is the number a model sees for one command we started: 1000 to 99999, never the kernel's pid.
// Zero means "no process".
type ProcessID int

// String is the decimal form used in events and on the wire.
func (id ProcessID) String() string { return strconv.Itoa(int(id)) }

// CallID is the caller's own name for one call; it is known before the process id is.
type CallID string

// Size is a terminal's size in character cells. The zero value means the default of 24 rows and 80 columns.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// DefaultSize is the size of a terminal nobody chose a size for.
var DefaultSize = Size{Rows: 24, Cols: 80}

// OrDefault replaces a zero dimension by the default one.
func (s Size) OrDefault() Size {
	if s.Rows == 0 {
		s.Rows = DefaultSize.Rows
	}
	if s.Cols == 0 {
		s.Cols = DefaultSize.Cols
	}
	return s
}
