package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// maxUnanswered bounds the unanswered writes to one process on the server, so that writes to processes that do not read leave room for
// other requests. Further writes wait in the client.
const maxUnanswered = 64

// input counts the writes on their way to one process. Their order is that of the calls on the connection. The server begins writes in
// the order in which they arrive, and a write that is sent again after a cut keeps its place and its id.
type input struct {
	// mu is held only for moments. It makes the bounds and the order hold for writes of several goroutines.
	mu         sync.Mutex
	pending    int // bytes of all
	writes     map[*write]struct{}
	waiting    []*write // those that are not sent
	unanswered int
	last       uint64 // number of the newest write
	closed     bool   // the end of the input was asked for
	over       bool   // the process has ended
}

// write is one write on its way, or the end of the input.
type write struct {
	id       string
	bytes    []byte
	deadline time.Time // zero: none
	finish   bool      // it is the end of the input
	call     *call     // nil while it waits
	expiry   *time.Timer
	done     func(taken ptyio.Taken, err error)
}

// Write sends the bytes at once, unless many writes wait. done is called when the server has answered, or five seconds after the
// deadline if it has not.
func (c *child) Write(p []byte, deadline time.Time, done func(ptyio.Taken, error)) func() int {
	c.submit(&write{bytes: p, deadline: deadline, done: done})
	return nil
}

// CloseStdin closes the input after all earlier writes.
func (c *child) CloseStdin(done func(error)) {
	if !c.spawner.link.flow() {
		done(unsupported("close stdin", "the server cannot end a process's input; tell the program to end, or use a server of execbus"))
		return
	}
	c.submit(&write{finish: true, done: func(_ ptyio.Taken, err error) { done(err) }})
}

// idle reports whether the server has answered all writes, and how many there were until now.
func (in *input) idle() (writes uint64, idle bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.last, len(in.writes) == 0
}

func (c *child) submit(w *write) {
	overtaken, err := c.admit(w)
	for _, other := range overtaken {
		c.input.finish(other, ptyio.Taken{}, errOvertaken)
	}
	if err != nil {
		w.done(ptyio.Taken{}, err)
		return
	}
	c.flush()
}

// admit counts a write. A key that a terminal usually turns into a signal does not wait: the waiting writes are given up for it, as
// the terminal would discard them.
func (c *child) admit(w *write) (overtaken []*write, err error) {
	in, launch := &c.input, c.launch
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.over:
		return nil, closedError("write")
	case !launch.TTY && (!launch.OpenStdin || in.closed):
		return nil, stdinClosed("write")
	case in.pending+len(w.bytes) > ptyio.MaxPendingInput || len(in.writes) >= ptyio.MaxPendingWrites:
		return nil, inputFull(fmt.Sprintf("%d bytes in %d writes wait already, and %d more are too many; wait until the process reads",
			in.pending, len(in.writes), len(w.bytes)))
	}
	if launch.TTY && len(w.bytes) == 1 && bytes.IndexByte(signalKeys, w.bytes[0]) >= 0 {
		overtaken, in.waiting = in.waiting, nil
	}
	if in.writes == nil {
		in.writes = map[*write]struct{}{}
	}
	in.last++
	w.id = strconv.FormatUint(in.last, 10)
	in.writes[w] = struct{}{}
	in.waiting = append(in.waiting, w)
	in.pending += len(w.bytes)
	in.closed = in.closed || w.finish
	if !w.deadline.IsZero() {
		w.expiry = time.AfterFunc(max(0, time.Until(w.deadline))+c.spawner.limits.write, func() { c.expire(w) })
	}
	return overtaken, nil
}

// signalKeys are Ctrl-C, Ctrl-\ and Ctrl-Z.
var signalKeys = []byte{0x03, 0x1c, 0x1a}

// flush sends the writes that may be sent. It begins the calls under the lock, so that they keep their order.
func (c *child) flush() {
	in := &c.input
	in.mu.Lock()
	var failed []*write
	var why error
	for len(in.waiting) > 0 && (in.unanswered < maxUnanswered || in.isKey(c.launch)) {
		w := in.waiting[0]
		in.waiting = in.waiting[1:]
		if err := c.send(w); err != nil {
			failed, why = append(failed, w), err
			in.closed = in.closed && !w.finish // the caller may try again
			continue
		}
		in.unanswered++
	}
	in.mu.Unlock()
	if errors.Is(why, errCrowded) {
		why = inputFull("too many requests wait for answers from the server; wait until processes read")
	}
	for _, w := range failed {
		in.finish(w, ptyio.Taken{}, why)
	}
}

// isKey reports whether the next write is a key that waits for no others. The lock is held.
func (in *input) isKey(launch ptyio.Launch) bool {
	next := in.waiting[0].bytes
	return launch.TTY && len(next) == 1 && bytes.IndexByte(signalKeys, next[0]) >= 0 && in.unanswered < 2*maxUnanswered
}

// send begins the call of a write.
func (c *child) send(w *write) error {
	link := c.spawner.link
	if w.finish { // a second one would be another end-of-file character for a terminal; a pipe is closed only once
		w.call = &call{again: !c.launch.TTY}
		w.call.done = func(result []byte, err error) { c.finished(w, result, err) }
		return link.start(w.call, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: c.id})
	}
	params := wire.WriteParams{ProcessID: c.id, Chunk: w.bytes, WriteID: &w.id}
	if link.flow() {
		left := maxWritePatience
		if !w.deadline.IsZero() {
			left = max(0, time.Until(w.deadline))
		}
		params.UntilTaken, params.PatienceMs = true, new(uint64(milliseconds(left)))
	}
	w.call = &call{again: true, done: func(result []byte, err error) { c.wrote(w, result, err) }}
	return link.start(w.call, wire.ProcessWrite, params)
}

// maxWritePatience is the patience of a write without a deadline.
const maxWritePatience = 20 * 24 * time.Hour

// finish reports the outcome of a write, once.
func (in *input) finish(w *write, taken ptyio.Taken, err error) {
	in.mu.Lock()
	_, waits := in.writes[w]
	if waits {
		delete(in.writes, w)
		in.pending -= len(w.bytes)
		in.waiting = slices.DeleteFunc(in.waiting, func(other *write) bool { return other == w })
	}
	expiry := w.expiry
	in.mu.Unlock()
	if !waits {
		return
	}
	if expiry != nil {
		expiry.Stop()
	}
	w.done(taken, err)
}

// answered makes room for the writes that wait.
func (c *child) answered() {
	c.input.mu.Lock()
	c.input.unanswered--
	c.input.mu.Unlock()
	c.flush()
}

// close is called when the process has ended. Writes that were not sent fail at once. The server has a moment to answer those that it
// has received; then they fail, too.
func (in *input) close(moment time.Duration) {
	in.mu.Lock()
	unsent := in.waiting
	in.over, in.waiting = true, nil
	owed := make([]*write, 0, len(in.writes))
	for w := range in.writes {
		owed = append(owed, w)
	}
	in.mu.Unlock()
	for _, w := range unsent {
		in.finish(w, ptyio.Taken{}, closedError("write"))
	}
	if len(owed) == 0 {
		return
	}
	time.AfterFunc(moment, func() {
		for _, w := range owed {
			in.finish(w, ptyio.Taken{}, closedError("write"))
		}
	})
}

// expire withdraws a write. The server may have taken some of it.
func (c *child) expire(w *write) {
	c.input.mu.Lock()
	sent := w.call
	c.input.mu.Unlock()
	switch {
	case sent == nil:
		c.input.finish(w, ptyio.Taken{}, errNotTaken)
	case c.spawner.link.giveUp(sent):
		c.input.finish(w, ptyio.Taken{}, errNotAnswered)
		c.answered()
	}
}

// wrote takes the server's answer.
func (c *child) wrote(w *write, text []byte, err error) {
	taken, err := written(len(w.bytes), text, refusal("write", "", err))
	c.input.finish(w, taken, err)
	c.answered()
}

// finished takes the answer to the end of the input.
func (c *child) finished(w *write, text []byte, err error) {
	_, err = written(0, text, refusal("close stdin", "", err))
	if w.call.resent && errors.Is(err, messages.ErrStdinClosed) {
		err = nil // the first has closed it
	}
	c.input.finish(w, ptyio.Taken{}, err)
	c.answered()
}

// written returns how much of a write the process took.
func written(size int, text []byte, err error) (none ptyio.Taken, _ error) {
	if err != nil {
		return none, err
	}
	var result wire.WriteResult
	if err := json.Unmarshal(text, &result); err != nil {
		return none, failed("write", "the server's answer is malformed")
	}
	taken := ptyio.Taken{Bytes: size, Runs: runs(result.Runs)}
	if result.Taken != nil {
		taken.Bytes = min(max(0, *result.Taken), size)
	}
	switch {
	case result.Error != nil:
		return taken, result.Error
	case result.Status == wire.WriteAccepted:
	case result.Status == wire.WriteUnknownProcess:
		return none, closedError("write")
	case result.Status == wire.WriteStdinClosed:
		return none, stdinClosed("write")
	case result.Status == wire.WriteStarting:
		return none, &messages.Error{Code: messages.ErrWrongState, Op: "write", Detail: "the process is being started; try again when it runs"}
	default:
		return none, failed("write", "the server's answer is malformed")
	}
	if taken.Bytes < size {
		return taken, &messages.Error{Code: messages.ErrInputNotTaken, Op: "write",
			Detail: fmt.Sprintf("the process took %d of %d bytes, and the rest was discarded; write the rest again", taken.Bytes, size)}
	}
	return taken, nil
}

// runs bounds what a server says about the modes of a terminal.
func runs(said []messages.InputRun) (known []messages.InputRun) {
	for _, run := range said {
		switch run.Kind {
		case messages.InputLine, messages.InputSecret, messages.InputKeys, messages.InputPipe:
		default:
			run.Kind = messages.InputUnknown
		}
		known = messages.AppendInputRun(known, run)
	}
	return known
}

func stdinClosed(op string) error {
	return &messages.Error{Code: messages.ErrStdinClosed, Op: op,
		Detail: "the process has no input, or it was closed; start it with open input or on a terminal"}
}

func inputFull(detail string) error {
	return &messages.Error{Code: messages.ErrInputFull, Op: "write", Detail: detail}
}

var (
	errOvertaken = &messages.Error{Code: messages.ErrInputNotTaken, Op: "write",
		Detail: "a key interrupted the process before this input was sent; write it again if you still want it"}

	errNotTaken = &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Like: messages.LikeDeadlineExceeded,
		Detail: "the process has not read earlier input in time, and none of this write was sent; wait until the process reads, and write again"}

	errNotAnswered = &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Like: messages.LikeDeadlineExceeded,
		Detail: "the server has not answered in time, and it is not known how much the process took; check its output before you write again"}
)
