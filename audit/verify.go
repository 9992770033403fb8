package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// State says what is to be thought of a log.
type State string

// The states.
const (
	Complete  State = "complete"   // every run was closed, and no line has changed
	NotClosed State = "not closed" // no line has changed, but a run has no end: its host writes on, was killed, or the end was cut off
	Broken    State = "broken"     // somebody has changed it
)

// maxRead is the longest line that is read.
const maxRead = MaxLine + 512

// Line is a line of a log.
type Line struct {
	N    int64
	Kind messages.EventKind
	messages.Origin
	Event json.RawMessage // until the function that gets it returns
	Raw   []byte          // the line as it is, without its newline, for as long
}

// Break is where a log is broken. Nothing is to be thought of the lines behind it.
type Break struct {
	Line   int64  `json:"line"`
	Offset int64  `json:"offset"` // of the line, in bytes
	Why    string `json:"why"`
}

// String is "line 12: …".
func (b *Break) String() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// Report is what Verify has found.
type Report struct {
	State State              `json:"state"`
	Head  messages.AuditHead `json:"head"` // of the lines that were read and are not broken
	Runs  int64              `json:"runs"`
	// Unclosed are runs without an end, the first MaxUnclosed of them; the log goes on behind all but the last one.
	Unclosed     []int64 `json:"unclosed,omitempty"`
	UnclosedRuns int64   `json:"unclosedRuns"`
	// Dropped counts events without a line, for which there was no room, here or on their way. Unknown says that there were more, nobody knows how many.
	Dropped int64 `json:"dropped"`
	Unknown bool  `json:"unknown,omitempty"`
	// Torn is how many bytes of an unfinished line the log ends with.
	Torn int64 `json:"torn,omitempty"`
	// Unanchored counts lines at the end that the head does not count yet. Nobody could tell if they were cut off.
	Unanchored int64  `json:"unanchored"`
	Broken     *Break `json:"broken,omitempty"`
}

// MaxUnclosed bounds Report.Unclosed.
const MaxUnclosed = 16

// String is one sentence or more.
func (r Report) String() string {
	text := fmt.Sprintf("%s: %d %s of %d %s", r.State, r.Head.Lines, plural("line", r.Head.Lines), r.Runs, plural("run", r.Runs))
	switch {
	case r.State == Broken:
		text = fmt.Sprintf("%s at %v", r.State, r.Broken)
	case r.Torn > 0:
		text += fmt.Sprintf("; it ends with %d bytes of an unfinished line", r.Torn)
	}
	if r.State == NotClosed && r.UnclosedRuns > 0 {
		text += "; without an end: run " + strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Unclosed), " ", ", "), "[]")
		if more := r.UnclosedRuns - int64(len(r.Unclosed)); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	if r.State != Broken && r.Unanchored > 0 {
		text += fmt.Sprintf("; the head does not count the last %d %s", r.Unanchored, plural("line", r.Unanchored))
	}
	if r.Dropped > 0 || r.Unknown {
		text += fmt.Sprintf("; dropped: %d %s", r.Dropped, plural("event", r.Dropped))
		if r.Unknown {
			text += ", and others that nobody has counted"
		}
	}
	return text
}

func plural(noun string, n int64) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// VerifyFile is Verify for a file and the head beside it. A missing or unreadable head breaks a log. The file may be that of a host that
// writes it.
func VerifyFile(path string, each func(Line) error, anchors ...messages.AuditHead) (Report, error) {
	text, err := os.ReadFile(path + HeadSuffix) // before the log: it never counts more than that has
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Report{}, err
	}
	if len(text) > headSize {
		text = text[:headSize]
	}
	h, wrong := readHead(text)
	file, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer file.Close()
	c := &checker{log: h.Log, anchors: append([]messages.AuditHead{h.AuditHead}, anchors...)}
	r, err := c.verify(file, each)
	switch {
	case err != nil || r.State == Broken:
	case wrong != nil:
		r.State, r.Broken = Broken, &Break{Line: r.Head.Lines, Why: path + HeadSuffix + ": " + wrong.Error()}
	case h.Log == "" && (r.Head.Lines > 0 || r.Torn > 0):
		r.State, r.Broken = Broken, &Break{Line: r.Head.Lines + 1, Why: "whether lines are missing at the end cannot be told, because there is no head of the log in " + path + HeadSuffix}
	}
	return r, err
}

// Verify reads a log to its end, or to where it is broken, and gives each line before that to each, which may be nil. It takes no more memory
// than two lines. The error is that of the reader, or of each.
//
// An anchor is what somebody knows of the log: its head, as a messages.AuditAnchored event had it, or the file with the head. A log that has
// fewer lines, or others, is broken. Without an anchor nothing says whether lines are missing at the end, or whether all of the log was
// written anew.
func Verify(log io.Reader, each func(Line) error, anchors ...messages.AuditHead) (Report, error) {
	c := &checker{anchors: anchors}
	return c.verify(log, each)
}

// checker reads lines, and knows those before.
type checker struct {
	anchors []messages.AuditHead
	log     string // its id; empty: not known
	lines   int64
	offset  int64 // of the next line
	digest  string
	kind    messages.EventKind // of the line before
	run     int64
	torn    int64
	report  Report
	broken  *Break
}

func (c *checker) verify(log io.Reader, each func(Line) error) (Report, error) {
	var most int64
	for _, a := range c.anchors {
		most = max(most, a.Lines)
	}
	if _, err := c.read(log, each); err != nil {
		return Report{}, err
	}
	if c.broken == nil && c.lines < most {
		c.wrong("the log ends before it, and had %d lines: %d are missing", most, most-c.lines)
	}
	r := c.report
	r.Head, r.Runs, r.Torn, r.Unanchored, r.Broken = messages.AuditHead{Lines: c.lines, Digest: c.digest}, c.run, c.torn, max(0, c.lines-most), c.broken
	if len(c.anchors) == 0 {
		r.Unanchored = 0
	}
	if c.kind != KindClosed && c.run > 0 {
		c.unclosed(&r)
	}
	switch {
	case c.broken != nil:
		r.State = Broken
	case r.UnclosedRuns > 0 || c.lines == 0 || c.torn > 0 || r.Unanchored > 0:
		r.State = NotClosed
	default:
		r.State = Complete
	}
	return r, nil
}

// unclosed notes that the newest run has no end.
func (c *checker) unclosed(r *Report) {
	if r.UnclosedRuns++; len(r.Unclosed) < MaxUnclosed {
		r.Unclosed = append(r.Unclosed, c.run)
	}
}

// wrong says that the next line breaks the log.
func (c *checker) wrong(format string, values ...any) {
	c.broken = &Break{Line: c.lines + 1, Offset: c.offset, Why: fmt.Sprintf(format, values...)}
}

// read reads lines until the end, or until the log is broken.
func (c *checker) read(log io.Reader, each func(Line) error) (lines int64, err error) {
	in := bufio.NewReaderSize(log, maxRead)
	for c.broken == nil {
		raw, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF:
			c.torn = int64(len(raw))
			return lines, nil
		case errors.Is(err, bufio.ErrBufferFull):
			c.wrong("it is longer than %d bytes", maxRead)
		case err != nil:
			return lines, err
		default:
			if err := c.line(raw[:len(raw)-1], each); err != nil {
				return lines, err
			}
			lines++
		}
	}
	return lines, nil
}

// parsed is what a line has.
type parsed struct {
	n     int64
	prev  string
	event common
	own   own // of a line of the log itself, or of a gap
	raw   json.RawMessage
}

// common is what all events have.
type common struct {
	Kind messages.EventKind `json:"kind"`
	messages.Origin
}

// own is what a checker needs of the log's own lines, and of gaps.
type own struct {
	Log     string `json:"log"`
	Run     int64  `json:"run"`
	Events  int64  `json:"events"`
	Unknown bool   `json:"unknown"`
	// Of a messages.Gap.
	Inputs      int64 `json:"inputs"`
	Connections int64 `json:"connections"`
	Executions  int64 `json:"executions"`
}

// parse reads a line, which has one form only.
func parse(line []byte) (parsed, error) {
	var p struct {
		N     int64           `json:"n"`
		Prev  string          `json:"prev"`
		Event json.RawMessage `json:"event"`
	}
	if err := json.Unmarshal(line, &p); err != nil {
		return parsed{}, fmt.Errorf("it cannot be read: %w", err)
	}
	if !bytes.Equal(line, lineOf(nil, p.N, p.Prev, p.Event)) {
		return parsed{}, errors.New("it is not a line of an audit log")
	}
	result := parsed{n: p.N, prev: p.Prev, raw: p.Event}
	err := json.Unmarshal(p.Event, &result.event)
	if err == nil && slices.Contains([]messages.EventKind{KindOpened, KindDropped, KindClosed, messages.KindGap}, result.event.Kind) {
		err = json.Unmarshal(p.Event, &result.own)
	}
	if err != nil {
		return parsed{}, fmt.Errorf("its event cannot be read: %w", err)
	}
	return result, nil
}

// line takes the next line.
func (c *checker) line(line []byte, each func(Line) error) error {
	p, err := parse(line)
	e, kind := p.own, p.event.Kind
	switch begins := kind == KindOpened; {
	case err != nil:
		c.wrong("%v", err)
	case p.n != c.lines+1:
		c.wrong("its number is %d: lines are missing, were added, or have changed places", p.n)
	case p.prev != c.digest:
		c.wrong("it does not follow the line before, which was changed")
	case begins && c.log != "" && e.Log != c.log:
		c.wrong("it begins a run of another log, %q", e.Log)
	case begins && e.Run != c.run+1:
		c.wrong("it begins run %d behind run %d", e.Run, c.run)
	case !begins && (c.lines == 0 || c.kind == KindClosed):
		c.wrong("it belongs to no run")
	}
	if c.broken != nil {
		return nil
	}
	digest := digestOf(line)
	for _, a := range c.anchors {
		if a.Lines == p.n && a.Digest != digest {
			c.wrong("it is not the line that was written: the head of the log has another digest")
			return nil
		}
	}
	switch kind {
	case KindOpened:
		if c.run > 0 && c.kind != KindClosed {
			c.unclosed(&c.report)
		}
		c.log, c.run = e.Log, e.Run
	case messages.KindGap:
		c.report.Dropped += e.Inputs + e.Connections + e.Executions
	case KindDropped:
		c.report.Dropped, c.report.Unknown = c.report.Dropped+e.Events, c.report.Unknown || e.Unknown
	}
	c.lines, c.offset, c.digest, c.kind = p.n, c.offset+int64(len(line))+1, digest, kind
	if each == nil {
		return nil
	}
	return each(Line{N: p.n, Kind: kind, Origin: p.event.Origin, Event: p.raw, Raw: line})
}
