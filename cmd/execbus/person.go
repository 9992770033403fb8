package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// person asks a person at the terminal whether a command may run.
type person struct {
	tty      *os.File
	terminal *terminal // if the command's input is the same terminal
	// passed has the last question for which the output before it was passed on. Room for one.
	passed chan messages.QuestionID
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
	return &person{tty, t, make(chan messages.QuestionID, 1)}
}

// leave lets go of the terminal. Its modes are not touched.
func (p *person) leave() {
	_ = p.tty.Close()
	if p.terminal != nil {
		_ = p.terminal.in.Close()
	}
}

// answers are the answers that a person can type.
var answers = []struct {
	key  string
	kind messages.DecisionKind
}{{"y", messages.DecisionApproved}, {"p", messages.DecisionApprovedWithRule}, {"n", messages.DecisionDenied}}

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

// Approve implements execbus.Approver. Ctrl-C and Ctrl-D mean no.
func (p *person) Approve(ctx context.Context, q messages.Question) (messages.Decision, error) {
	p.awaitOutput(ctx, q.ID)
	defer p.terminal.pause()()
	interrupted, stop := signal.NotifyContext(ctx, syscall.SIGINT)
	defer stop()
	defer context.AfterFunc(interrupted, func() { _ = p.tty.SetReadDeadline(time.Unix(1, 0)) })()
	discardTyped(p.tty) // text that was typed before the question does not answer it
	offered := map[string]messages.DecisionKind{}
	fmt.Fprintf(p.tty, "execbus: %s\n", q.Text())
	for _, a := range answers {
		for _, choice := range q.Choices {
			if choice.Kind == a.kind {
				offered[a.key] = a.kind
				fmt.Fprintf(p.tty, "  %s  %s\n", a.key, choice)
			}
		}
	}
	lines := bufio.NewScanner(p.tty)
	for fmt.Fprint(p.tty, "> "); lines.Scan(); fmt.Fprint(p.tty, "type one of the letters, and Enter> ") {
		if kind, known := offered[strings.ToLower(strings.TrimSpace(lines.Text()))]; known {
			return messages.Decision{Kind: kind}, nil
		}
	}
	fmt.Fprintln(p.tty)
	if ctx.Err() != nil {
		return messages.Decision{}, ctx.Err()
	}
	_ = p.tty.SetReadDeadline(time.Time{})
	return messages.Decision{Kind: messages.DecisionDenied}, nil
}
