package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/execbus/execbus/cmd/internal/ask"
	"github.com/execbus/execbus/messages"
)

// person asks a person at the terminal whether a command may run.
type person struct {
	tty      *os.File
	terminal *terminal // if the command's input is the same terminal
	// passed has the last question for which the output before it was passed on. Room for one.
	passed chan messages.QuestionID
	// screen is held by a write to the terminal, and by a question until it is answered. Room for one.
	screen chan struct{}
}

// outputPatience bounds how long a question waits for the output before it: nobody may be reading that.
const outputPatience = 5 * time.Second

// findPerson opens the terminal for questions. It returns nil if there is none, or if it could not tell answers from the command's
// keys.
func findPerson(t *terminal) *person {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	if t != nil {
		keys, err := os.OpenFile("/dev/tty", os.O_RDONLY, 0)
		if err == nil {
			err = keys.SetReadDeadline(time.Time{})
		}
		if err != nil {
			_ = errors.Join(tty.Close(), keys.Close())
			return nil
		}
		t.in = keys
	}
	return &person{tty, t, make(chan messages.QuestionID, 1), make(chan struct{}, 1)}
}

// leave lets go of the terminal. Its modes are not touched.
func (p *person) leave() {
	_ = p.tty.Close()
	if p.terminal != nil {
		_ = p.terminal.in.Close()
	}
}

// quiet is a writer whose output to a terminal waits while a question stands.
type quiet struct {
	io.Writer
	screen chan struct{}
}

func (q quiet) Write(p []byte) (int, error) {
	q.screen <- struct{}{}
	defer func() { <-q.screen }()
	return q.Writer.Write(p)
}

// behind returns w, or a writer to the same terminal that waits while a question stands.
func (p *person) behind(w io.Writer) io.Writer {
	if file, isFile := w.(*os.File); isFile && term.IsTerminal(int(file.Fd())) {
		return quiet{w, p.screen}
	}
	return w
}

// pass says that all output before a question was passed on. Only one goroutine may call it.
func (p *person) pass(q messages.QuestionID) {
	if p == nil {
		return
	}
	select {
	case <-p.passed:
	default:
	}
	p.passed <- q
}

// awaitOutput waits for the output before a question, so that it does not follow the question on the screen.
func (p *person) awaitOutput(ctx context.Context, q messages.QuestionID) {
	late := time.After(outputPatience)
	for {
		select {
		case passed := <-p.passed:
			if passed == q {
				return
			}
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Approve implements execbus.Approver. Signals that end a program mean no, and so do Ctrl-C and Ctrl-D.
func (p *person) Approve(ctx context.Context, q messages.Question) (messages.Decision, error) {
	p.awaitOutput(ctx, q.ID)
	select {
	case p.screen <- struct{}{}:
	case <-time.After(outputPatience):
		return messages.Decision{}, errors.New("the terminal takes no output, so that nobody can be asked")
	}
	defer func() { <-p.screen }()
	defer p.terminal.pause()()
	interrupted, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	restore, err := ask.Single(p.tty)
	if err != nil {
		return messages.Decision{}, err
	}
	defer restore()
	keys, stop := p.keys()
	defer stop()
	asking := ask.Terminal{Name: "execbus", Keys: keys, Out: p.tty, Size: func() messages.Size { return ask.Size(p.tty) }, Drop: func() { ask.Drop(p.tty) },
		Offer: []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedWithRule, messages.DecisionDenied}}
	if q.Host != nil || q.Execution != nil { // the command runs, and Ctrl-C ends it
		asking.Offer = append(asking.Offer, messages.DecisionAborted)
	}
	decision, err := asking.Ask(interrupted, q)
	if err != nil && ctx.Err() == nil {
		return messages.Decision{Kind: messages.DecisionDenied}, nil
	}
	return decision, err
}

// keys reads what is typed until stop is called.
func (p *person) keys() (keys <-chan []byte, stop func()) {
	chunks, over, done := make(chan []byte), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer close(chunks)
		for {
			buffer := make([]byte, 4<<10)
			n, err := p.tty.Read(buffer)
			if err != nil {
				return
			}
			select {
			case chunks <- buffer[:n]:
			case <-over:
				return
			}
		}
	}()
	return chunks, func() {
		close(over)
		if p.tty.SetReadDeadline(time.Unix(1, 0)) == nil { // elsewhere the goroutine ends with the program
			<-done
			_ = p.tty.SetReadDeadline(time.Time{})
		}
	}
}
