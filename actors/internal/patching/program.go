package patching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// program is a running program as a stream: what it prints is read, and what is written is its input. One goroutine at a time uses it.
type program struct {
	ctx      context.Context // of the actor: with it, waiting ends
	patience shared.Patience
	child    ptyio.Child
	events   chan ptyio.Event
	batch    ptyio.Output // whose rest has not been read; its Bytes are what is left
	held     bool         // the batch is not released
	over     bool         // no output comes any more
	failed   bool         // what it says makes no sense
	gone     bool
	exit     string // how it exited
	said     []byte // on its standard error, the first maxSaid bytes
}

const (
	// maxEvents is room for the output that there is credit for, and for one event of every other kind.
	maxEvents = ptyio.Credits + 8
	maxSaid   = 1 << 10
	// maxPiece bounds one write to the program's input.
	maxPiece = ptyio.MaxPendingInput / 4
)

// begin starts a program. It may block.
func begin(ctx context.Context, spawner ptyio.Spawner, launch ptyio.Launch, patience shared.Patience) (*program, error) {
	p := &program{ctx: ctx, patience: patience, events: make(chan ptyio.Event, maxEvents)}
	launch.OpenStdin = true
	launch.Events = func(e ptyio.Event) {
		select {
		case p.events <- e:
		default: // more than there is credit for
			if output, is := e.(ptyio.Output); is {
				output.Release()
			}
		}
	}
	var err error
	p.child, err = hostcode.Call[ptyio.Child]{Who: "the spawner", Patience: patience.Spawn, Do: func(ctx context.Context) (ptyio.Child, error) {
		child, err := spawner.Spawn(ctx, launch)
		if child == nil && err == nil {
			err = errors.New("the spawner returned neither a process nor an error")
		}
		return child, err
	}, Late: func(child ptyio.Child, err error) {
		if err == nil {
			shared.Abandon(child)
		}
	}}.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Read implements io.Reader.
func (p *program) Read(buffer []byte) (int, error) {
	for len(p.batch.Bytes) == 0 {
		p.release()
		if p.over {
			return 0, p.ended()
		}
		select {
		case e := <-p.events:
			p.take(e)
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		}
	}
	n := copy(buffer, p.batch.Bytes)
	p.batch.Bytes = p.batch.Bytes[n:]
	return n, nil
}

func (p *program) take(event ptyio.Event) {
	switch e := event.(type) {
	case ptyio.Output:
		if e.Stream == messages.StreamStdout {
			p.batch, p.held = e, true
			return
		}
		p.said = append(p.said, e.Bytes[:min(len(e.Bytes), maxSaid-len(p.said))]...)
		e.Release()
	case ptyio.Exited:
		p.exit = e.Status.String()
		if e.Denial != nil {
			p.exit += ", " + e.Denial.String()
		}
	case ptyio.Closed:
		p.over = true
	case ptyio.TreeEnded:
		p.gone = true
	}
}

// ended says why a program that should go on has ended. Its exit may be reported after its output.
func (p *program) ended() error {
	for wait, late := time.After(p.patience.End), false; !late && (p.exit == "" || !p.over); {
		select {
		case e := <-p.events:
			p.take(e)
			p.release()
		case <-wait:
			late = true
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	text := "the program that reads and writes the files has ended"
	if p.exit != "" {
		text += " (" + p.exit + ")"
	}
	if said := strings.TrimSpace(messages.Visible(string(p.said))); said != "" {
		text += ": " + said
	}
	return fmt.Errorf("%s: %w", text, io.ErrUnexpectedEOF)
}

// Write implements io.Writer.
func (p *program) Write(input []byte) (written int, err error) {
	type outcome struct {
		taken ptyio.Taken
		err   error
	}
	for len(input) > 0 {
		piece, done := input[:min(len(input), maxPiece)], make(chan outcome, 1)
		p.child.Write(piece, time.Time{}, func(taken ptyio.Taken, err error) { done <- outcome{taken, err} })
		select {
		case o := <-done:
			if written += o.taken.Bytes; o.err != nil {
				return written, p.ended()
			}
			input = input[len(piece):]
		case <-p.ctx.Done():
			return written, p.ctx.Err()
		}
	}
	return written, nil
}

// Close ends the input, and with that the program, and waits until it is gone. A program that does not end, or that has failed, is killed.
func (p *program) Close() error {
	p.release()
	if !p.failed {
		p.child.CloseStdin(func(error) {})
		if p.await(p.patience.Child) {
			return nil
		}
	}
	shared.Abandon(p.child)
	p.await(p.patience.End)
	return nil
}

func (p *program) release() {
	if p.held {
		p.held = false
		p.batch.Release()
	}
}

// await waits for the end of the program. It reports whether that has come.
func (p *program) await(patience time.Duration) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	stopped := p.ctx.Done()
	for !p.gone {
		select {
		case e := <-p.events:
			p.take(e)
			p.release()
		case <-stopped: // it gets no time to end by itself, but is waited for
			stopped = nil
			shared.Abandon(p.child)
		case <-late.C:
			return false
		}
	}
	return true
}
