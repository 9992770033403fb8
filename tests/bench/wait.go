package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

func waitRows() []row {
	late := []metric{{name: "p99", at: 0.99, unit: milliseconds, judge: most, limit: 20}, {name: "median", unit: milliseconds},
		{name: "a second", of: "a second", unit: pieces}}
	return []row{
		{name: "ask", about: "Session.Read of one byte of a live process: supervisor, process and back", open: asks,
			metrics: []metric{{name: "median", judge: most, limit: 25}, tail}},
		{name: "hold-ups", about: "calls on one process beside 256 questions, 1,000 processes and a niced flood in its session", open: holdUps,
			metrics: []metric{{name: "echo p99", at: 0.99, unit: milliseconds, judge: most, limit: 20}, {name: "echo median", unit: milliseconds},
				{name: "read p99", of: "read", at: 0.99, unit: milliseconds, judge: most, limit: 20}, {name: "read median", of: "read", unit: milliseconds},
				{name: "floods", of: "floods", unit: megabytes}}},
		{name: "delivery", about: "output of 20 processes, a line each in 10 ms, to 1,000 subscribers of all of it", metrics: late, open: deliveries(false)},
		{name: "delivery-one", about: "the same to 1,000 subscribers of one of them each", metrics: late, open: deliveries(true)},
	}
}

// read reads what a process has said last.
func (c *cat) read(ctx context.Context) error {
	page, err := c.session.Read(ctx, messages.ReadOutput{Process: c.process, Tail: 1})
	if err == nil && len(page.Chunks) != 1 {
		err = fmt.Errorf("a read returned %d chunks", len(page.Chunks))
	}
	return err
}

func asks(ctx context.Context, s *scope) pair {
	return pair{ours: timed(s.cat(ctx, s.session()).read), turns: s.some(10_000, 2_000)}
}

// manyQuestions is how many questions of a session may wait.
const manyQuestions = 256

// holdUps makes everything that may wait in one session, and calls one process of it.
func holdUps(ctx context.Context, s *scope) pair {
	shells := s.some(manyShells, manyShells/10)
	_, session := s.open(execbus.Options{MaxProcesses: shells + manyQuestions + atOnce}, crowded(shells+manyQuestions))
	openShells(ctx, session, shells)
	c, load := s.cat(ctx, session), startFloods(ctx, session, 1, "nice", "-n", "19")
	s.askMany(ctx, session)
	return pair{turns: s.some(20, 4), ours: func(ctx context.Context, took series) {
		for range echoTrips {
			for name, call := range map[string]trip{"": c.trip, "read": c.read} {
				began := time.Now()
				must(call(ctx))
				took.add(name, millis(time.Since(began)))
			}
		}
		took.add("floods", load.speed(ctx))
	}}
}

// askMany starts commands that wait for an answer which never comes.
func (s *scope) askMany(ctx context.Context, session *execbus.Session) {
	must(session.UpdateEnvironment(ctx, messages.UpdateEnvironment{Approval: &messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}))
	s.after(get(session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindApprovalRequested}})).Close)
	asking, stop := context.WithCancel(ctx)
	s.after(stop)
	for i := range manyQuestions {
		go session.Exec(asking, messages.ExecCommand{Argv: []string{"touch", fmt.Sprintf("/tmp/question-%d", i)}})
	}
	for began := time.Now(); len(get(session.Questions(ctx))) < manyQuestions; time.Sleep(talkEvery) {
		if time.Since(began) > patience {
			must(fmt.Errorf("only %d questions wait", len(get(session.Questions(ctx)))))
		}
	}
}

const (
	listeners = 1000
	talkers   = 20
	// talkEvery is how often each of the talkers prints a line, and talkSettle how long they print before a sample begins.
	talkEvery  = 10 * time.Millisecond
	talkSettle = 200 * time.Millisecond
)

// writeLines prints lines until its output is closed.
func writeLines(out io.Writer) {
	for now := range time.Tick(talkEvery) {
		if _, err := fmt.Fprintln(out, now.UnixNano()); err != nil {
			return
		}
	}
}

// deliveries measures how late output comes to many subscribers, who follow everything or one process each. They read every
// event that is published within a stretch of time, however late it comes.
func deliveries(one bool) opener {
	return func(ctx context.Context, s *scope) pair {
		session := s.session()
		var ids []messages.ProcessID
		for range talkers {
			ids = append(ids, get(session.Start(ctx, messages.ExecCommand{Argv: writer("lines")})).ID())
		}
		lasts := time.Duration(s.some(1500, 500)) * time.Millisecond
		return pair{ours: func(ctx context.Context, took series) {
			ctx, cancel := context.WithTimeout(ctx, talkSettle+lasts+patience)
			defer cancel()
			from := time.Now().Add(talkSettle)
			var all [listeners][]float64
			must(together(listeners, func(i int) error {
				watch := execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}}
				if one {
					watch.Processes = ids[i%len(ids):][:1]
				}
				sub, err := session.Events(watch)
				if err != nil {
					return err
				}
				defer sub.Close()
				all[i], err = lateness(ctx, sub, from, from.Add(lasts))
				return err
			}))
			took[""] = slices.Concat(all[:]...)
			took.add("a second", float64(len(took[""]))/lasts.Seconds())
		}}
	}
}

// lateness reads until an event comes that was published at the end of the stretch or later; then all earlier ones have come.
// It returns how many milliseconds after their publication the events came. Those that a gap reports as lost count as if they
// had come with the gap.
func lateness(ctx context.Context, sub *bus.Subscription, from, until time.Time) (late []float64, err error) {
	for {
		event, err := sub.Next(ctx)
		if err != nil {
			return late, err
		}
		at, count := event.From().At, 1
		if gap, is := event.(messages.Gap); is {
			count = gap.Deltas
		} else if !at.Before(until) {
			return late, nil
		} else if at.Before(from) {
			continue
		}
		for range count {
			late = append(late, millis(time.Since(at)))
		}
	}
}
