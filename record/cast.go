package record

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// Header is the first line of a recording: what was recorded, when, and on a terminal of which size.
type Header struct {
	Version   int // of asciicast: 2 or 3
	Size      messages.Size
	Terminal  string    // TERM; empty if it is not known
	At        time.Time // the beginning; zero if it is not known
	Command   string    // as a person reads it
	Title     string
	IdleLimit time.Duration // the longest pause that a player should make; zero means none
}

// The codes of events.
const (
	Output = "o"
	Input  = "i"
	Resize = "r" // Data is COLUMNSxROWS
	Mark   = "m" // Data says what happened
	Exit   = "x" // Data is the exit code; only in version 3
)

// Event is one event of a recording.
type Event struct {
	At   time.Duration // since the beginning
	Code string
	Data string
}

// Size is the new size of the terminal of a Resize.
func (e Event) Size() (size messages.Size, ok bool) {
	for i, c := range e.Data {
		if c != 'x' {
			continue
		}
		columns, bad := strconv.ParseUint(e.Data[:i], 10, 16)
		rows, worse := strconv.ParseUint(e.Data[i+1:], 10, 16)
		size = messages.Size{Rows: uint16(rows), Cols: uint16(columns)}
		return size, bad == nil && worse == nil && checkSize(int(rows), int(columns))
	}
	return size, false
}

// maxSide bounds the rows and columns of a recording's terminal.
const maxSide = 5000

func checkSize(rows, columns int) bool {
	return rows > 0 && columns > 0 && rows <= maxSide && columns <= maxSide
}

// The headers as they are written.
type (
	header3 struct {
		Version   int     `json:"version"`
		Term      term3   `json:"term"`
		Timestamp int64   `json:"timestamp,omitempty"`
		IdleLimit float64 `json:"idle_time_limit,omitempty"`
		Command   string  `json:"command,omitempty"`
		Title     string  `json:"title,omitempty"`
	}
	term3 struct {
		Columns int    `json:"cols"`
		Rows    int    `json:"rows"`
		Type    string `json:"type,omitempty"`
	}
	header2 struct {
		Version   int               `json:"version"`
		Width     int               `json:"width"`
		Height    int               `json:"height"`
		Timestamp int64             `json:"timestamp,omitempty"`
		IdleLimit float64           `json:"idle_time_limit,omitempty"`
		Command   string            `json:"command,omitempty"`
		Title     string            `json:"title,omitempty"`
		Env       map[string]string `json:"env,omitempty"`
	}
)

// append writes the header as a line.
func (h Header) append(b []byte) []byte {
	var at int64
	if !h.At.IsZero() {
		at = h.At.Unix()
	}
	size := h.Size.OrDefault()
	var header any = header3{3, term3{int(size.Cols), int(size.Rows), h.Terminal}, at, h.IdleLimit.Seconds(), h.Command, h.Title}
	if h.Version == 2 {
		old := header2{2, int(size.Cols), int(size.Rows), at, h.IdleLimit.Seconds(), h.Command, h.Title, nil}
		if h.Terminal != "" {
			old.Env = map[string]string{"TERM": h.Terminal}
		}
		header = old
	}
	text, _ := json.Marshal(header) // it has nothing that cannot be written
	return append(append(b, text...), '\n')
}

// appendEvent writes an event as a line. at is what its version counts: the time since the event before, or since the beginning. What is no
// UTF-8 becomes U+FFFD, because the format has text.
func appendEvent(b []byte, at time.Duration, code, data string) []byte {
	text, _ := json.Marshal(data)
	b = strconv.AppendFloat(append(b, '['), at.Seconds(), 'f', 6, 64)
	b = append(append(append(b, `, "`...), code...), `", `...)
	return append(append(b, text...), "]\n"...)
}

// unfinished returns how many bytes at the end are the beginning of a character.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
