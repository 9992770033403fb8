package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/fleet"
	"github.com/execbus/execbus/messages"
)

// attended reports whether a person is at a file: whether it is the terminal of this program, and this program is in its foreground. To read from
// a terminal in the background would stop the program.
func attended(file *os.File) bool {
	group, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// linesOf gives the lines of an input. The goroutine that reads ends with the input, or with the program.
func linesOf(ctx context.Context, in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			select {
			case lines <- strings.TrimSpace(scanner.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

const (
	// lookTime is between two looks at the books, of a console that shows sessions.
	lookTime = time.Second
	// atOnce bounds the commands of a console that run at once.
	atOnce = 16
)

// typed are the commands of this program that a console takes.
var typed = []string{"run", "ps", "attach", "answer", "drain", "give-up"}

const consoleHelp = `Type yes, session, no or abort to answer a question, and nothing to leave it to others. These are commands, with the flags
that they have elsewhere: run -- COMMAND, ps, attach SESSION [PROCESS], answer, drain NODE, give-up NODE; and help, quit.
`

// console puts questions to the person at this terminal, one after the other, and says which are withdrawn meanwhile.
type console struct {
	*job
	nc *nats.Conn
	to io.Writer
	// only, if not empty, is the session whose questions are put.
	only messages.SessionID
	// commands makes it show sessions and take commands, which connect with job.dial.
	commands bool

	open   []fleet.Asked                      // the first one is put
	states map[messages.SessionID]fleet.State // as they were shown
	busy   chan struct{}                      // a slot for each command
	runs   sync.WaitGroup
}

// run returns when its input or ctx has ended, or with quit. What it runs is ended then.
func (c *console) run(ctx context.Context) (quit bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	c.states, c.busy = map[messages.SessionID]fleet.State{}, make(chan struct{}, atOnce)
	questions, failures := make(chan fleet.Asked), make(chan error, 1)
	c.runs.Go(func() {
		for asked, err := range fleet.Questions(ctx, c.nc) {
			if err != nil {
				failures <- err
				return
			}
			select {
			case questions <- asked:
			case <-ctx.Done():
				return
			}
		}
	})
	defer func() { stop(); c.runs.Wait() }()
	var ticks <-chan time.Time
	if c.commands {
		fmt.Fprint(c.to, consoleHelp)
		ticker := time.NewTicker(lookTime)
		defer ticker.Stop()
		ticks = ticker.C
	}
	lines := linesOf(ctx, c.in)
	for {
		select {
		case asked := <-questions:
			c.asked(asked)
		case err := <-failures:
			if ctx.Err() != nil {
				return false, nil
			}
			return false, err
		case <-ticks:
			c.look(ctx)
		case line, more := <-lines:
			if !more {
				return false, nil
			}
			if line == "quit" && c.commands {
				return true, nil
			}
			c.line(ctx, line)
		case <-ctx.Done():
			return false, nil
		}
	}
}

// asked takes a question, or the news that it is resolved.
func (c *console) asked(asked fleet.Asked) {
	if c.only != "" && asked.Session != c.only {
		return
	}
	if !asked.Resolved {
		if c.open = append(c.open, asked); len(c.open) == 1 {
			c.put()
		}
		return
	}
	at := slices.IndexFunc(c.open, func(o fleet.Asked) bool { return o.Session == asked.Session && o.Question.ID == asked.Question.ID })
	if at < 0 {
		return
	}
	if at == 0 {
		fmt.Fprintln(c.to, "\nthis question has been answered elsewhere, or withdrawn")
	}
	if c.open = slices.Delete(c.open, at, at+1); at == 0 {
		c.put()
	}
}

// put puts the first question.
func (c *console) put() {
	if len(c.open) > 0 {
		fmt.Fprintf(c.to, "%s on %s:\n%s\nyes, session, no, abort, or nothing to leave it to others: ", c.open[0].Session, c.open[0].Node, c.open[0].Question.Text())
	}
}

// line takes what the person has typed.
func (c *console) line(ctx context.Context, line string) {
	words := strings.Fields(line)
	switch {
	case len(c.open) > 0 && (line == "" || decisions[line] != ""):
		asked := c.open[0]
		c.open = c.open[1:]
		if line != "" {
			if err := answer(ctx, c.nc, asked.Session, asked.Question.ID, line); err != nil {
				fmt.Fprintf(c.err, "execbus-fleet answer: %v\n", err)
			}
		}
		c.put()
	case len(c.open) > 0 && !c.commands:
		fmt.Fprint(c.to, "yes, session, no or abort: ")
	case len(words) == 0 || !c.commands:
	case !slices.Contains(typed, words[0]):
		fmt.Fprint(c.to, consoleHelp)
	default:
		select {
		case c.busy <- struct{}{}:
		default:
			fmt.Fprintf(c.err, "execbus-fleet: %d commands run; wait until one has ended\n", atOnce)
			return
		}
		c.runs.Go(func() {
			defer func() { <-c.busy }()
			std := streams{in: strings.NewReader(""), out: c.out, err: c.err}
			if code := c.command(ctx, words, std, c.dial); code != 0 && ctx.Err() == nil {
				fmt.Fprintf(c.err, "execbus-fleet: %s ended with exit code %d\n", words[0], code)
			}
		})
	}
}

// look shows sessions that are new, and those that are in another state.
func (c *console) look(ctx context.Context) {
	books, err := fleet.Look(ctx, c.nc)
	if err != nil { // the next look may succeed
		return
	}
	for _, p := range books.Sessions {
		if c.states[p.Session] != p.State {
			c.states[p.Session] = p.State
			fmt.Fprintln(c.to, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", p.Session, p.State, p.Node, p.Why)))
		}
	}
}
