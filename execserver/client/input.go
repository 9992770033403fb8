package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// input counts what is on its way to one process. The order is that of the calls on the connection: the server begins writes in
// the order in which they arrive, and a write that is sent again after a cut keeps its place and its id.
type input struct {
	// mu is held for instants, so that the bounds hold for writes of several goroutines.
	mu      sync.Mutex
	pending int // bytes
	writes  map[*write]struct{}
	last    uint64 // number of the newest write
	closed  bool   // the end of the input was asked for
	over    bool   // the process has ended
}

// write is one write on its way.
type write struct {
	call   *call
	size   int
	expiry *time.Timer // nil without a deadline
	done   func(taken int, err error)
}

// slack is how much longer than the server the client waits for the result of a write with a deadline.
const slack = time.Second

// Write sends the bytes at once; done is called when the server has answered, or a second behind the deadline if it has not.
func (c *child) Write(p []byte, deadline time.Time, done func(int, error)) func() int {
	w := &write{size: len(p), done: done}
	id, err := c.input.admit(w, c.launch)
	if err != nil {
		done(0, err)
		return nil
	}
	params := wire.WriteParams{ProcessID: c.id, Chunk: p, WriteID: new(strconv.FormatUint(id, 10))}
	if c.spawner.link.flow() {
		params.UntilTaken = true
	}
	w.call = &call{again: true, done: func(result []byte, err error) { c.wrote(w, result, err) }}
	if !deadline.IsZero() {
		left := max(0, time.Until(deadline))
		if params.UntilTaken {
			params.PatienceMs = new(uint64(milliseconds(left)))
		}
		w.expiry = time.AfterFunc(left+slack, func() { c.expire(w) })
	}
	if err := c.spawner.link.start(w.call, wire.ProcessWrite, params); err != nil {
		c.input.finish(w, 0, err)
	}
	return nil
}

// admit takes a write into the books, and numbers it.
func (in *input) admit(w *write, launch ptyio.Launch) (id uint64, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.over:
		return 0, closedError("write")
	case !launch.TTY && (!launch.OpenStdin || in.closed):
		return 0, stdinClosed("write")
	case in.pending+w.size > ptyio.MaxPendingInput || len(in.writes) >= ptyio.MaxPendingWrites:
		return 0, &messages.Error{Code: messages.ErrInputFull, Op: "write", Detail: fmt.Sprintf(
			"%d bytes in %d writes wait already, and %d more are too many; wait until the process reads", in.pending, len(in.writes), w.size)}
	}
	if in.writes == nil {
		in.writes = map[*write]struct{}{}
	}
	in.writes[w] = struct{}{}
	in.pending += w.size
	in.last++
	return in.last, nil
}

// finish tells what a write has come to, once.
func (in *input) finish(w *write, taken int, err error) {
	in.mu.Lock()
	_, waits := in.writes[w]
	if waits {
		delete(in.writes, w)
		in.pending -= w.size
	}
	in.mu.Unlock()
	if !waits {
		return
	}
	if w.expiry != nil {
		w.expiry.Stop()
	}
	w.done(taken, err)
}

// close fails what waits when the process has ended.
func (in *input) close() {
	in.mu.Lock()
	in.over = true
	waiting := make([]*write, 0, len(in.writes))
	for w := range in.writes {
		waiting = append(waiting, w)
	}
	in.mu.Unlock()
	for _, w := range waiting {
		in.finish(w, 0, closedError("write"))
	}
}

// expire gives up a write. The server may have taken some of it.
func (c *child) expire(w *write) {
	if c.spawner.link.giveUp(w.call) {
		c.input.finish(w, 0, &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Like: messages.LikeDeadlineExceeded,
			Detail: "the server has not answered in time, and it is not known how much the process took; look at its output before you write again"})
	}
}

// wrote takes the server's answer.
func (c *child) wrote(w *write, text []byte, err error) {
	taken, err := written(w.size, text, refusal("write", "", err))
	c.input.finish(w, taken, err)
}

// written is how much of a write was taken.
func written(size int, text []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	var result wire.WriteResult
	if err := json.Unmarshal(text, &result); err != nil {
		return 0, failed("write", "the server's answer is malformed")
	}
	switch result.Status {
	case wire.WriteAccepted:
	case wire.WriteUnknownProcess:
		return 0, closedError("write")
	case wire.WriteStdinClosed:
		return 0, stdinClosed("write")
	case wire.WriteStarting:
		return 0, &messages.Error{Code: messages.ErrWrongState, Op: "write", Detail: "the process is being started; try again when it runs"}
	default:
		return 0, failed("write", "the server's answer is malformed")
	}
	taken := size
	if result.Taken != nil {
		taken = min(max(0, *result.Taken), size)
	}
	if result.Error != nil {
		return taken, result.Error
	}
	if taken < size {
		return taken, &messages.Error{Code: messages.ErrInputNotTaken, Op: "write",
			Detail: fmt.Sprintf("the process took %d of %d bytes, and the rest was discarded; write the rest again", taken, size)}
	}
	return taken, nil
}

func stdinClosed(op string) error {
	return &messages.Error{Code: messages.ErrStdinClosed, Op: op,
		Detail: "the process has no input, or it was closed; start it with open input or on a terminal"}
}

// CloseStdin is carried in the order of the writes.
func (c *child) CloseStdin(done func(error)) {
	w := &write{done: func(_ int, err error) { done(err) }}
	if !c.spawner.link.flow() {
		done(unsupported("close stdin", "the server cannot end a process's input; tell the program to end, or use a server of execbus"))
		return
	}
	if _, err := c.input.admit(w, c.launch); err != nil {
		done(err)
		return
	}
	if !c.launch.TTY {
		c.input.shut()
	}
	// A second end would be another end-of-file character for a terminal; a pipe is closed only once.
	w.call = &call{again: !c.launch.TTY, done: func(result []byte, err error) {
		taken, err := written(0, result, refusal("close stdin", "", err))
		if w.call.resent && errors.Is(err, messages.ErrStdinClosed) {
			err = nil
		}
		c.input.finish(w, taken, err)
	}}
	if err := c.spawner.link.start(w.call, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: c.id}); err != nil {
		c.input.finish(w, 0, err)
	}
}

// shut refuses later writes to a pipe.
func (in *input) shut() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
}
