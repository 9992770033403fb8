package main

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/execbus/execbus/messages"
)

// person is a person at a terminal. A session puts one question at a time.
type person struct {
	in  *bufio.Reader
	out io.Writer
}

// Approve implements execbus.Approver.
func (p *person) Approve(_ context.Context, q messages.Question) (messages.Decision, error) {
	fmt.Fprintf(p.out, "%s: may this run in %s? %s\n    %s\n[y]es, [n]o, [s]top: ", q.ID, q.Dir, q.Reason, q.Display)
	switch line, _ := p.in.ReadString('\n'); line {
	case "y\n":
		return messages.Decision{Kind: messages.DecisionApproved}, nil
	case "s\n", "": // nobody is at the terminal
		return messages.Decision{Kind: messages.DecisionAborted}, nil
	default:
		return messages.Decision{Kind: messages.DecisionDenied, Rejection: "a person said no"}, nil
	}
}
