package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus/fleet"
	"github.com/execbus/execbus/messages"
)

// command has the settings of a command on a node.
type command struct {
	labels       labels
	sandbox, dir string
	wait         time.Duration
	memory       int64
	tty          bool
	approval     string
}

func (c *command) flags(flags *flag.FlagSet) {
	c.labels = labels{}
	flags.Var(c.labels, "on", "label that the node must have, as `NAME=VALUE`; may be given several times")
	flags.StringVar(&c.sandbox, "confine", "", "sandbox policy of the command: read-only, workspace-write or others; empty: none")
	flags.StringVar(&c.dir, "cd", "", "directory of the command, on its node; empty: that of the node")
	flags.DurationVar(&c.wait, "wait", 0, "how long to wait for a node with room")
	flags.Int64Var(&c.memory, "reserve", 0, "bytes of memory that it reserves on a node that counts them")
	flags.BoolVar(&c.tty, "tty", false, "run it on a terminal of 24 rows and 80 columns")
	flags.StringVar(&c.approval, "approval", "", "when a person is asked: untrusted, on-request or never; see execbus-fleet answer")
}

func (c *command) placement() (p fleet.Placement, err error) {
	p = fleet.Placement{Labels: c.labels, Memory: c.memory, Wait: c.wait}
	p.Session.Dir = c.dir
	if p.Session.Sandbox, err = policy(c.sandbox); err != nil {
		return p, err
	}
	if c.approval != "" {
		if p.Session.Approval, err = messages.ParseApprovalPolicy(c.approval); err != nil {
			return p, errMisused(err.Error())
		}
	}
	return p, nil
}

func run(flags *flag.FlagSet) func(context.Context, *job) error {
	var s server
	var c command
	s.flags(flags)
	c.flags(flags)
	return func(ctx context.Context, j *job) error {
		if len(j.args) == 0 {
			return errMisused("name a command behind --")
		}
		if s.url == "" && j.dial == nil {
			alone := flag.NewFlagSet("", flag.ContinueOnError)
			do := up(alone)
			var given []string
			flags.Visit(func(f *flag.Flag) {
				if alone.Lookup(f.Name) != nil && f.Name != "on" {
					given = append(given, "--"+f.Name+"="+f.Value.String())
				}
			})
			for name, value := range c.labels {
				given = append(given, "--on="+name+"="+value)
			}
			if err := alone.Parse(given); err != nil {
				return err
			}
			return do(ctx, j)
		}
		nc, err := s.connect(j)
		if err != nil {
			return err
		}
		defer nc.Close()
		return c.run(ctx, j, nc)
	}
}

// run runs the command in a session of its own and shows its output. If ctx ends the command is ended.
func (c *command) run(ctx context.Context, j *job, nc *nats.Conn) (err error) {
	p, err := c.placement()
	if err != nil {
		return err
	}
	s, err := fleet.Open(ctx, nc, p)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err = errors.Join(err, s.Close(ending))
	}()
	asking, quiet := context.WithCancel(ctx)
	defer quiet()
	switch {
	case j.dial != nil: // the console that runs it asks
	case j.attended:
		go func() { _, _ = (&console{job: j, nc: nc, to: j.err, only: s.ID()}).run(asking) }()
	default:
		go tell(asking, j.err, nc, s.ID())
	}
	process, err := s.Start(ctx, messages.ExecCommand{Argv: j.args, TTY: c.tty})
	if errors.Is(err, messages.ErrCancelled) && ctx.Err() != nil {
		j.code = 128 + 2
		return nil
	}
	if err != nil {
		return err
	}
	if err := show(ctx, j.streams, nc, s.ID(), process, 0); err != nil && ctx.Err() == nil {
		return err
	}
	if ctx.Err() != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		_, err := s.Terminate(ending, messages.Terminate{Process: process})
		j.code = 128 + 2
		if errors.Is(err, messages.ErrProcessEnded) {
			return nil
		}
		return err
	}
	exits, err := s.Wait(ctx, messages.Wait{For: []messages.WaitFor{{Process: process}}, NoTimeout: true})
	switch {
	case errors.Is(err, messages.ErrUnknownProcess): // it was refused: its record says why
		_, err = s.Poll(ctx, messages.Poll{Process: process})
		return err
	case err != nil:
		return err
	}
	code, known := exits[0].Status.Code()
	if !known {
		return fmt.Errorf("the exit code is not known: %s", exits[0].Lost)
	}
	j.code = code
	return nil
}

// tell says on standard error what the session's questions are, until ctx ends.
func tell(ctx context.Context, to io.Writer, nc *nats.Conn, session messages.SessionID) {
	for asked, err := range fleet.Questions(ctx, nc) {
		if err != nil {
			return
		}
		if asked.Session == session && !asked.Resolved {
			fmt.Fprintf(to, "execbus-fleet: a question waits; answer it with: execbus-fleet answer %s %s yes\n%s\n", asked.Session, asked.Question.ID, asked.Question.Text())
		}
	}
}

// show writes the output of a process. A gap is named on standard error.
func show(ctx context.Context, std streams, nc *nats.Conn, session messages.SessionID, process messages.ProcessID, from int64) error {
	for event, err := range fleet.Follow(ctx, nc, session, process, from) {
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			to := std.out
			if e.Stream == messages.StreamStderr {
				to = std.err
			}
			if _, err := to.Write(e.Bytes); err != nil {
				return err
			}
		case messages.Gap:
			fmt.Fprintf(std.err, "execbus-fleet: %v\n", e)
		}
	}
	return nil
}

// with is a command of a client: it connects and does something.
func with(flags *flag.FlagSet, do func(context.Context, *job, *nats.Conn) error) func(context.Context, *job) error {
	var s server
	s.flags(flags)
	return func(ctx context.Context, j *job) error {
		nc, err := s.connect(j)
		if err != nil {
			return err
		}
		defer nc.Close()
		return do(ctx, j, nc)
	}
}

func ps(flags *flag.FlagSet) func(context.Context, *job) error {
	all := flags.Bool("all", false, "list sessions that have ended, too")
	asJSON := flags.Bool("json", false, "print JSON")
	return with(flags, func(ctx context.Context, j *job, nc *nats.Conn) error {
		books, err := fleet.Look(ctx, nc)
		if err != nil {
			return err
		}
		if *asJSON {
			return json.NewEncoder(j.out).Encode(books)
		}
		table := tabwriter.NewWriter(j.out, 0, 4, 2, ' ', 0)
		for _, n := range books.Nodes {
			state := ""
			if n.Draining {
				state = "draining"
			}
			fmt.Fprintf(table, "%s\t%d of %d\t%v\t%v\t%s\n", n.ID, n.Sessions, n.Slots, n.Levels, n.Labels, state)
		}
		for _, p := range books.Sessions {
			if over := p.State == fleet.StateEnded || p.State == fleet.StateLost; !over || *all {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", p.Session, p.State, p.Node, p.At.Local().Format(time.DateTime), p.Why)
			}
		}
		return table.Flush()
	})
}

func attach(flags *flag.FlagSet) func(context.Context, *job) error {
	from := flags.Int64("from", 0, "offset of the first byte")
	return with(flags, func(ctx context.Context, j *job, nc *nats.Conn) error {
		if len(j.args) != 1 && len(j.args) != 2 {
			return errMisused("name a session")
		}
		if *from < 0 {
			return errMisused("an offset is not negative")
		}
		session, process := messages.SessionID(j.args[0]), messages.ProcessID(0)
		var err error
		if len(j.args) == 1 {
			process, err = only(ctx, nc, session)
		} else {
			var number int
			if number, err = strconv.Atoi(j.args[1]); err != nil {
				err = errMisused("a process is a number")
			}
			process = messages.ProcessID(number)
		}
		if err != nil {
			return err
		}
		return show(ctx, j.streams, nc, session, process, *from)
	})
}

// only is the one process that a session has or has had.
func only(ctx context.Context, nc *nats.Conn, session messages.SessionID) (messages.ProcessID, error) {
	s, err := fleet.Attach(ctx, nc, session)
	if err != nil {
		return 0, err
	}
	records, err := s.Records(ctx)
	if err != nil {
		return 0, err
	}
	var numbers []string
	for _, p := range records {
		numbers = append(numbers, p.Process.String())
	}
	if len(records) != 1 {
		return 0, errMisused(fmt.Sprintf("name a process of the session, which has these: %s", strings.Join(numbers, ", ")))
	}
	return records[0].Process, nil
}

// decisions are the answers that a person can type.
var decisions = map[string]messages.DecisionKind{"yes": messages.DecisionApproved, "session": messages.DecisionApprovedForSession,
	"no": messages.DecisionDenied, "abort": messages.DecisionAborted}

func decide(flags *flag.FlagSet) func(context.Context, *job) error {
	watch := flags.Bool("watch", false, "go on asking as questions come, and read the answers from standard input")
	return with(flags, func(ctx context.Context, j *job, nc *nats.Conn) error {
		if *watch {
			_, err := (&console{job: j, nc: nc, to: j.out}).run(ctx)
			return err
		}
		if len(j.args) == 0 {
			open, err := fleet.OpenQuestions(ctx, nc)
			for _, asked := range open {
				fmt.Fprintf(j.out, "%s %s on %s\n%s\n", asked.Session, asked.Question.ID, asked.Node, asked.Question.Text())
			}
			return err
		}
		if len(j.args) != 3 || decisions[j.args[2]] == "" {
			return errMisused("name a session, a question, and yes, session, no or abort")
		}
		return answer(ctx, nc, messages.SessionID(j.args[0]), messages.QuestionID(j.args[1]), j.args[2])
	})
}

func answer(ctx context.Context, nc *nats.Conn, session messages.SessionID, question messages.QuestionID, word string) error {
	s, err := fleet.Attach(ctx, nc, session)
	if err == nil {
		err = s.Decide(ctx, messages.Decide{Question: question, Decision: messages.Decision{Kind: decisions[word]}})
	}
	if errors.Is(err, messages.ErrClosed) {
		return fmt.Errorf("the session %s has ended, and nothing waits for the answer any more", session)
	}
	return err
}

func drain(flags *flag.FlagSet) func(context.Context, *job) error {
	return with(flags, func(ctx context.Context, j *job, nc *nats.Conn) error {
		if len(j.args) != 1 {
			return errMisused("name a node")
		}
		return fleet.Drain(ctx, nc, j.args[0])
	})
}

func giveUp(flags *flag.FlagSet) func(context.Context, *job) error {
	return with(flags, func(ctx context.Context, j *job, nc *nats.Conn) error {
		if len(j.args) != 1 {
			return errMisused("name a node")
		}
		return fleet.GiveUp(ctx, nc, j.args[0])
	})
}
