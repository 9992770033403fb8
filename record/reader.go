package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/execbus/execbus/messages"
)

// MaxLine bounds a line of a recording that is read, in bytes.
const MaxLine = 16 << 20

// longest bounds the time of a recording.
const longest = 100 * 365 * 24 * time.Hour

// Reader reads a recording: asciicast of version 2 or 3. It is to be used by one goroutine at a time, and keeps one line in memory.
type Reader struct {
	Header Header
	// Cut says, after the last event, that the file ends within a line: its writer was killed.
	Cut bool

	in   *bufio.Reader
	line int
	at   time.Duration
}

// NewReader reads the header.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 64<<10)}
	text, ends, err := r.next()
	switch {
	case err == io.EOF:
		return nil, errors.New("the file is empty; it is no recording")
	case err != nil:
		return nil, err
	case !ends && !json.Valid(text):
		return nil, errors.New("the file ends within its first line; nothing was recorded")
	}
	var version struct{ Version *int }
	if json.Unmarshal(text, &version) != nil || version.Version == nil {
		return nil, errors.New("line 1 is no header of a recording; the file is no asciicast of version 2 or 3")
	}
	switch *version.Version {
	case 2:
		err = r.read2(text)
	case 3:
		err = r.read3(text)
	default:
		return nil, fmt.Errorf("it is an asciicast of version %d; only 2 and 3 can be read", *version.Version)
	}
	return r, err
}

func (r *Reader) read2(text []byte) error {
	var h header2
	if err := json.Unmarshal(text, &h); err != nil {
		return malformed(err)
	}
	r.Header = Header{Version: 2, Terminal: h.Env["TERM"], Command: h.Command, Title: h.Title}
	return r.header(h.Height, h.Width, h.Timestamp, h.IdleLimit)
}

func (r *Reader) read3(text []byte) error {
	var h header3
	if err := json.Unmarshal(text, &h); err != nil {
		return malformed(err)
	}
	r.Header = Header{Version: 3, Terminal: h.Term.Type, Command: h.Command, Title: h.Title}
	return r.header(h.Term.Rows, h.Term.Columns, h.Timestamp, h.IdleLimit)
}

// malformed explains a header with a field of a wrong type.
func malformed(err error) error {
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return fmt.Errorf("line 1: %q has a wrong type: %s", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("line 1 is no header: %w", err)
}

func (r *Reader) header(rows, columns int, at int64, idle float64) error {
	if !checkSize(rows, columns) {
		return fmt.Errorf("line 1: the terminal has %d columns and %d rows; it must have 1 to %d of each", columns, rows, maxSide)
	}
	r.Header.Size = messages.Size{Rows: uint16(rows), Cols: uint16(columns)}
	if at > 0 {
		r.Header.At = time.Unix(at, 0)
	}
	if idle > 0 {
		r.Header.IdleLimit = seconds(idle)
	}
	return nil
}

// seconds is a time in seconds, and at most longest.
func seconds(s float64) time.Duration {
	if s >= longest.Seconds() {
		return longest
	}
	return time.Duration(s * float64(time.Second))
}

// Next returns the next event. At the end the error is io.EOF; any other error names the line and what is wrong with it. Comments and empty
// lines are skipped. Events of unknown codes are returned, for the caller to ignore.
func (r *Reader) Next() (Event, error) {
	for {
		text, ends, err := r.next()
		if err != nil {
			return Event{}, err
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		e, err := r.event(text)
		if err != nil && !ends {
			r.Cut = true
			return Event{}, io.EOF
		}
		return e, err
	}
}

func (r *Reader) event(text []byte) (e Event, err error) {
	var fields []json.RawMessage
	var at float64
	if json.Unmarshal(text, &fields) != nil || len(fields) < 3 || json.Unmarshal(fields[1], &e.Code) != nil || json.Unmarshal(fields[2], &e.Data) != nil {
		return e, fmt.Errorf("line %d is no event: it must be [time, \"code\", \"data\"]", r.line)
	}
	if json.Unmarshal(fields[0], &at) != nil || at < 0 {
		return e, fmt.Errorf("line %d: the time is no number of seconds from 0 on", r.line)
	}
	if e.At = seconds(at); r.Header.Version == 3 {
		e.At += r.at
	}
	if e.At >= longest {
		return e, fmt.Errorf("line %d: the recording is longer than a hundred years", r.line)
	}
	e.At = max(e.At, r.at) // an event of version 2 may lie before the one before
	r.at = e.At
	return e, nil
}

// next returns a line without its end, and whether it has one.
func (r *Reader) next() (text []byte, ends bool, err error) {
	r.line++
	for {
		part, err := r.in.ReadSlice('\n')
		if len(text)+len(part) > MaxLine {
			return nil, false, fmt.Errorf("line %d is longer than %d bytes; the file is no recording", r.line, MaxLine)
		}
		text = append(text, part...)
		switch {
		case err == nil:
			return text[:len(text)-1], true, nil
		case err == io.EOF && len(text) > 0:
			return text, false, nil
		case err != bufio.ErrBufferFull:
			return nil, false, err
		}
	}
}

// WriteVersion2 writes a recording in version 2, which older programs read. Exits are left out, because it has none.
func WriteVersion2(out io.Writer, r *Reader) error {
	h := r.Header
	h.Version = 2
	w := bufio.NewWriterSize(out, 64<<10)
	_, err := w.Write(h.append(nil))
	for err == nil {
		e, wrong := r.Next()
		switch {
		case wrong == io.EOF:
			return w.Flush()
		case wrong != nil:
			return errors.Join(wrong, w.Flush())
		case e.Code != Exit:
			_, err = w.Write(appendEvent(nil, e.At, e.Code, e.Data))
		}
	}
	return err
}
