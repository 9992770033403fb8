package record

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// Options say what is recorded, and where.
type Options struct {
	// Dir is the directory for the recordings, one file a process; a missing one is made, for its user alone. No confined command may change
	// what is in it.
	Dir string
	// File is the file for one recording, that of the first process that starts, instead of a directory. It must not exist.
	File string
	// Input records also what processes were given, as far as events have it: see messages.TerminalInteraction.
	Input bool
	// PerProcess and Total bound the bytes of one recording and of all that a Recorder makes. A recording that reaches a bound says so and
	// ends. Zero means DefaultPerProcess and DefaultTotal.
	PerProcess, Total int64
	// Notice is told what was not recorded, and why: once for each reason. It is called in the goroutine of Follow, and must not block. Nil
	// means that nobody is told.
	Notice func(text string)
}

// The bounds of recordings, in bytes.
const (
	DefaultPerProcess = 256 << 20
	DefaultTotal      = 2 << 30
	least             = 4 << 10 // of both bounds
	reserve           = 1 << 10 // of a recording, for its last lines
)

// Check finds errors in the options.
func (o Options) Check() error {
	for name, value := range map[string]int64{"PerProcess": o.PerProcess, "Total": o.Total} {
		if value != 0 && value < least {
			return badOption(name, fmt.Sprintf("%d bytes are too few; use %d or more, or 0 for the default", value, least))
		}
	}
	if o.Dir != "" && o.File != "" {
		return badOption("File", "there is a directory, too; use one of them")
	}
	return nil
}

func badOption(field, detail string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "record", Subject: "Record." + field, Detail: detail}
}

// Recorder writes recordings of the processes of one subscription. Follow runs it.
type Recorder struct {
	options Options
	create  func(name string) (storage, error) // tests set it
	file    storage                            // of Options.File, until it is used
	open    map[messages.ProcessID]*recording
	writers []*writer // those that may not have written everything
	written int64
	told    map[string]bool // the reasons that Notice was told
}

// maxOpen bounds the processes of which something is kept, and maxMarks the marks from before the start of each.
const (
	maxOpen  = 4096
	maxMarks = 32
)

// New checks the options, and makes the file or the directory.
func New(o Options) (*Recorder, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	o.PerProcess, o.Total = cmp.Or(o.PerProcess, DefaultPerProcess), cmp.Or(o.Total, DefaultTotal)
	r := &Recorder{options: o, open: map[messages.ProcessID]*recording{}, told: map[string]bool{}, create: create}
	var err error
	switch {
	case o.File != "":
		r.file, err = create(o.File)
	case o.Dir != "":
		err = os.MkdirAll(o.Dir, 0o700)
		if info, wrong := os.Stat(o.Dir); err == nil && wrong == nil && (!info.IsDir() || info.Mode().Perm()&0o022 != 0) {
			err = fmt.Errorf("others may change what is in %s; use a directory of your own with mode 0700", o.Dir)
		}
	default:
		return nil, badOption("Dir", "there is no place for recordings; name a directory, or a file")
	}
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "record", Subject: cmp.Or(o.File, o.Dir), Detail: reason(err)}
	}
	return r, nil
}

// storage is an *os.File.
type storage interface {
	io.WriteCloser
	Truncate(size int64) error
}

func create(name string) (storage, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// reason is an error without the path, which the caller names.
func reason(err error) string {
	if path, is := errors.AsType[*os.PathError](err); is {
		err = path.Err
	}
	if errors.Is(err, os.ErrExist) {
		return "the file exists already; name another one, or remove it"
	}
	return err.Error()
}

// Follow records what a subscription has until it ends, and then waits, for at most MaxStall, until everything is written. The subscription
// should be lossless: what it has lost is only marked in the recordings.
func (r *Recorder) Follow(ctx context.Context, events *bus.Subscription) {
	defer r.close()
	for {
		e, ok, err := events.TryNext()
		if err == nil && !ok {
			r.flush()
			e, err = events.Next(ctx)
		}
		if err != nil {
			return
		}
		r.record(e)
	}
}

// record notes one event.
func (r *Recorder) record(e messages.Event) {
	from := e.From()
	if from.Process == 0 {
		return
	}
	one := r.open[from.Process]
	if one == nil {
		if len(r.open) >= maxOpen {
			maps.DeleteFunc(r.open, func(_ messages.ProcessID, other *recording) bool { return other.writer == nil })
		}
		one = &recording{}
		r.open[from.Process] = one
	}
	before := len(one.buffer)
	one.limit = min(r.options.PerProcess, one.size+int64(before)+r.options.Total-r.written) - reserve
	defer func() {
		r.written += int64(len(one.buffer) - before)
		if _, lives := r.open[from.Process]; !lives {
			r.finish(one)
		} else if len(one.buffer) >= batch {
			r.give(one)
		}
	}()
	switch e := e.(type) {
	case messages.ExecStarted:
		r.begin(one, e)
	case messages.OutputDelta:
		one.output(e)
	case messages.TerminalInteraction:
		one.input(e, r.options.Input)
	case messages.TerminalResized:
		one.add(from.At, Resize, fmt.Sprintf("%dx%d", e.Size.Cols, e.Size.Rows))
	case messages.ExecEnded:
		one.end(e)
		delete(r.open, from.Process)
	case messages.ToolDecision:
		one.add(from.At, Mark, decided(e))
		if !e.Allowed && one.writer == nil {
			delete(r.open, from.Process)
			return
		}
	default:
		if text := marked(e); text != "" {
			one.add(from.At, Mark, text)
		}
	}
	if one.full && !one.told {
		one.told = true
		r.notice("a recording ends before its process, because it, or all recordings together, have reached their bound in bytes")
	}
}

// marked says what an event is, for those that are a mark.
func marked(e messages.Event) string {
	switch e := e.(type) {
	case messages.ApprovalRequested:
		return "asked: " + e.Display
	case messages.ApprovalResolved:
		return "answer: " + cmp.Or(string(e.Decision), "withdrawn")
	case messages.AttemptEnded:
		return fmt.Sprintf("attempt %d was stopped: %v", e.Attempt, e.Denial)
	case messages.ProcessSignaled:
		return "signal: " + e.Signal
	case messages.ExecNotice:
		return e.Text
	case messages.Gap:
		return e.String()
	}
	return ""
}

func decided(e messages.ToolDecision) string {
	what := "refused"
	if e.Allowed {
		what = "allowed"
	}
	if e.Reason != "" {
		what += ": " + e.Reason
	}
	return fmt.Sprintf("attempt %d %s", e.Attempt, what)
}

// Find is the path of the latest recording of a process in a directory; empty if there is none. A process that still runs has one that goes on.
func Find(dir string, session messages.SessionID, process messages.ProcessID) (path string) {
	names, _ := os.ReadDir(dir) // sorted, and the times in them are in order
	for _, entry := range names {
		if strings.HasSuffix(entry.Name(), suffix(session, process)) {
			path = filepath.Join(dir, entry.Name())
		}
	}
	return path
}

func suffix(session messages.SessionID, process messages.ProcessID) string {
	return fmt.Sprintf("-%.8s-%d.cast", session, process)
}

// begin opens the file of a process that has started.
func (r *Recorder) begin(one *recording, e messages.ExecStarted) {
	file, err := r.file, error(nil)
	switch {
	case r.options.Dir != "":
		file, err = r.create(filepath.Join(r.options.Dir, e.At.UTC().Format("20060102T150405.000")+suffix(e.Session, e.Process)))
	case file == nil: // it has another process
		one.over = true
		return
	}
	r.file = nil
	if err != nil {
		r.notice("a process is not recorded: " + reason(err))
		one.over = true
		return
	}
	one.writer, one.tty, one.last = newWriter(file), e.TTY, e.At
	r.writers = append(r.writers, one.writer)
	one.buffer = Header{Version: 3, Size: e.Size, Terminal: terminalOf(e.TTY), At: e.At, Command: shortened(messages.Display(e.Argv), maxText)}.append(one.buffer)
	marks := one.before
	one.before = nil
	for _, m := range marks {
		one.add(e.At, Mark, m)
	}
	if e.Call != "" {
		one.add(e.At, Mark, "call "+string(e.Call))
	}
}

func terminalOf(tty bool) string {
	if tty {
		return "xterm-256color"
	}
	return ""
}

// give hands the lines of a recording to its writer.
func (r *Recorder) give(one *recording) {
	if one.writer == nil || one.over || len(one.buffer) == 0 {
		one.buffer = nil
		return
	}
	one.size += int64(len(one.buffer))
	if err := one.writer.give(one.buffer); err != nil {
		one.over = true
		r.incomplete(err)
	}
	one.buffer = nil
}

func (r *Recorder) flush() {
	for _, one := range r.open {
		r.give(one)
	}
}

// finish hands over the rest of a recording.
func (r *Recorder) finish(one *recording) {
	r.give(one)
	if one.writer == nil {
		return
	}
	close(one.writer.jobs)
	rest := r.writers[:0]
	for _, w := range r.writers {
		if !w.isDone() {
			rest = append(rest, w)
		} else if w.err != nil {
			r.incomplete(w.err)
		}
	}
	r.writers = rest
}

// close ends the recordings of processes that have not ended, and waits for the writers.
func (r *Recorder) close() {
	for _, one := range r.open {
		r.finish(one)
	}
	if r.file != nil { // nothing was started
		_ = r.file.Close()
		_ = os.Remove(r.options.File)
	}
	late := time.NewTimer(MaxStall)
	defer late.Stop()
	for _, w := range r.writers {
		select {
		case <-w.done:
			if w.err != nil {
				r.incomplete(w.err)
			}
		case <-late.C:
			r.incomplete(errStalled)
			return
		}
	}
}

// incomplete tells that a recording lacks its end. One cause is told once, however many recordings it ends, and whenever that is noticed.
func (r *Recorder) incomplete(err error) { r.notice("a recording is not complete: " + reason(err)) }

// notice tells a reason once.
func (r *Recorder) notice(text string) {
	if r.options.Notice != nil && !r.told[text] && len(r.told) < 64 {
		r.told[text] = true
		r.options.Notice(text)
	}
}

// recording is that of one process.
type recording struct {
	writer *writer  // nil before the start
	before []string // marks from before the start
	buffer []byte   // lines that were not handed to the writer
	size   int64    // bytes that were
	limit  int64
	tty    bool
	full   bool // it has reached a bound
	told   bool // that it has
	over   bool // nothing can be written any more
	last   time.Time
	rest   map[messages.Stream]string // the beginning of a character
	typed  messages.TerminalInteraction
}

// add appends an event. The time is rounded so that the sum of the intervals stays exact.
func (o *recording) add(at time.Time, code, data string) {
	switch {
	case o.over || o.full:
		return
	case o.writer == nil:
		if code == Mark && len(o.before) < maxMarks {
			o.before = append(o.before, data)
		}
		return
	}
	if code == Mark {
		data = shortened(data, maxText)
	}
	interval, n := max(0, at.Sub(o.last)).Truncate(time.Microsecond), len(o.buffer)
	o.buffer = appendEvent(o.buffer, interval, code, data)
	if o.size+int64(len(o.buffer)) > o.limit {
		o.full = true
		o.buffer = appendEvent(o.buffer[:n], interval, Mark, "the recording ends here: it has reached its bound in bytes")
	}
	o.last = o.last.Add(interval)
}

// output adds output. What comes from a pipe is written as a terminal would show it: a line begins at the left.
func (o *recording) output(e messages.OutputDelta) {
	text := o.rest[e.Stream] + string(e.Bytes)
	n := unfinished([]byte(text))
	if o.rest == nil {
		o.rest = map[messages.Stream]string{}
	}
	o.rest[e.Stream], text = text[len(text)-n:], text[:len(text)-n]
	if text != "" {
		if !o.tty {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		o.add(e.At, Output, text)
	}
}

// input adds input, or a mark that says how much there was. Keys that come one by one get one mark a second.
func (o *recording) input(e messages.TerminalInteraction, wanted bool) {
	switch before := o.typed; {
	case e.Length == 0:
		o.add(e.At, Mark, "poll")
		return
	case wanted && e.Input != nil:
		o.add(e.At, Input, string(e.Input))
		return
	case before.Mode == e.Mode && e.Mode == messages.InputKeys && e.At.Sub(before.At) < time.Second:
		return
	}
	o.typed = messages.TerminalInteraction{Origin: messages.Origin{At: e.At}, Mode: e.Mode}
	o.add(e.At, Mark, fmt.Sprintf("input (%s): %d bytes", e.Mode, e.Length))
}

// end adds the end of the process.
func (o *recording) end(e messages.ExecEnded) {
	for _, rest := range o.rest {
		if rest != "" {
			o.add(e.At, Output, rest)
		}
	}
	o.full, o.limit = false, math.MaxInt64 // the end has its place also in a recording that was cut
	if e.Cause != messages.CauseExited {
		o.add(e.At, Mark, shortened(e.EndRecord.String(), reserve/8))
	}
	if code, known := e.Status.Code(); known {
		o.add(e.At, Exit, strconv.Itoa(code))
	}
}

// maxText bounds a mark and the command in a header.
const maxText = 1 << 10

func shortened(text string, n int) string {
	if len(text) > n {
		return text[:n] + "…"
	}
	return text
}

// batch is how many bytes of a recording are handed to its writer at the latest. Whenever no event waits, all are.
const batch = 32 << 10

// MaxStall is how long a write may take. After that the recording ends, so that a disk that hangs does not stop the process.
const MaxStall = 2 * time.Second

var errStalled = fmt.Errorf("the disk has not taken a write within %v", MaxStall)

// writer writes one file in a goroutine of its own, which ends when jobs is closed and the disk has answered. It holds at most three batches.
type writer struct {
	jobs chan []byte
	done chan struct{}
	err  error // why the file has less than it was given; valid once done is closed
}

func newWriter(file storage) *writer {
	w := &writer{jobs: make(chan []byte, 1), done: make(chan struct{})}
	go w.run(file)
	return w
}

// run writes whole lines: if one cannot be written, the file is cut behind the last that was.
func (w *writer) run(file storage) {
	defer close(w.done)
	size := int64(0)
	for lines := range w.jobs {
		n, err := file.Write(lines)
		if size += int64(n); err != nil {
			w.err = err
			_ = file.Truncate(size - int64(n) + int64(bytes.LastIndexByte(lines[:n], '\n')+1))
			break
		}
	}
	if err := file.Close(); w.err == nil {
		w.err = err
	}
}

// give hands lines to the goroutine.
func (w *writer) give(lines []byte) error {
	late := time.NewTimer(MaxStall)
	defer late.Stop()
	select {
	case w.jobs <- lines:
		return nil
	case <-w.done:
		return cmp.Or(w.err, io.ErrClosedPipe)
	case <-late.C:
		return errStalled
	}
}

func (w *writer) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
