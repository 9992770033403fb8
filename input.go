package execbus

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/execbus/execbus/messages"
)

const (
	// writePiece is how much of a Write is offered to a process at a time, in bytes: a sixteenth of the queue.
	writePiece = 64 << 10
	// writeWait is how long a Write waits before it tries again when the writes of other callers have filled the queue.
	writeWait = 5 * time.Millisecond
	// writePatience stands for no bound.
	writePatience = 100 * 365 * 24 * time.Hour
)

var _ io.Writer = (*Process)(nil)

// Send queues input and returns at once, whether the process reads or not: for keyboards. At most 1 MiB waits to be taken; input for
// which there is no room is refused as a whole with messages.ErrInputFull. A key that the terminal turns into a signal, sent alone,
// acts at once, however much waits before it. Bytes never overtake other bytes. The EarlierInput of a later result says if some were
// not taken.
func (p *Process) Send(b []byte) error {
	_, err := p.on().Write(context.Background(), messages.WriteStdin{Process: p.ID(), Bytes: b, NoWait: true,
		Patience: new(time.Duration(writePatience))})
	return err
}

// Write sends input, of any length, and returns when the process's terminal or pipe has taken it. It implements io.Writer,
// for io.Copy. It blocks as long as the process does not read, and returns when the process ends. If not all bytes were
// taken, n is the number of bytes that were, and the error says why. [Session.Write] has a context, a bound for the wait,
// and an answer with output.
//
// A Write of at most 64 KiB stays in one piece; longer ones of several callers may be interleaved. A terminal in line mode
// takes no line of more than 4,095 bytes: the error is messages.ErrLineTooLong.
func (p *Process) Write(b []byte) (n int, err error) { return p.give(b, false) }

// Repeatable is Write for input that answers nothing the process has said, such as that of a file: if its sandbox stops the process,
// another attempt gets the same input. See messages.WriteStdin.
func (p *Process) Repeatable() io.Writer { return repeatable{p} }

type repeatable struct{ *Process }

func (r repeatable) Write(b []byte) (int, error) { return r.give(b, true) }

// give is Write. Repeatable bytes are given again to another attempt.
func (p *Process) give(b []byte, repeatable bool) (n int, err error) {
	for n < len(b) {
		piece := b[n:min(n+writePiece, len(b))]
		result, err := p.on().Write(context.Background(), messages.WriteStdin{Process: p.ID(), Bytes: piece,
			UntilTaken: true, Repeatable: repeatable, Patience: new(time.Duration(writePatience))})
		if errors.Is(err, messages.ErrInputFull) {
			// Nothing reports that there is room. The end of the process ends the wait, and the next attempt reports it.
			_, _ = p.on().Wait(context.Background(), messages.AwaitExit{Processes: []messages.ProcessID{p.ID()}, For: new(time.Duration(writeWait))})
			continue
		}
		if result != nil {
			n += result.Taken
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
