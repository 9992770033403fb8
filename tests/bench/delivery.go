package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

const (
	listeners = 1000
	talkers   = 20
	// talkEvery is how often each of the talkers prints a line, and talkSettle how long they print before the measurement
	// begins.
	talkEvery  = 10 * time.Millisecond
	talkSettle = 500 * time.Millisecond
)

func deliveryCases() []benchCase {
	delivery := func(name, about string, follows follow) benchCase {
		return benchCase{name: name, about: "output of 20 processes, a line each in 10 ms, to 1,000 subscribers " + about,
			metrics: []metric{
				{name: "p99", unit: milliseconds, judge: valueMost, limit: 20},
				{name: "median", unit: milliseconds},
				{name: "p99 from the print on", unit: milliseconds},
				{name: "a second", unit: pieces},
			}, run: func(ctx context.Context, h *harness) ([]value, error) { return measureDelivery(ctx, h, follows) }}
	}
	return []benchCase{
		delivery("delivery", "of all of it", func(int, []messages.ProcessID) []messages.ProcessID { return nil }),
		delivery("delivery-one", "of one of them each", func(i int, talkers []messages.ProcessID) []messages.ProcessID {
			return talkers[i%len(talkers):][:1]
		}),
	}
}

// follow says which processes a listener follows; none means all.
type follow func(listener int, talkers []messages.ProcessID) []messages.ProcessID

func measureDelivery(ctx context.Context, h *harness, follows follow) ([]value, error) {
	runtime, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	defer shutDown(runtime)
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := []string{self, workerFlag, "lines", strconv.Itoa(int(talkEvery / time.Millisecond)), ""}
	var ids []messages.ProcessID
	for range talkers {
		p, err := session.Start(ctx, messages.ExecCommand{Argv: argv})
		if err != nil {
			return nil, err
		}
		ids = append(ids, p.ID())
	}
	lasts := time.Duration(h.some(3, 1)) * time.Second
	var tails, medians, prints, rates []float64
	for pair := range h.pairs {
		cpu := cpuTime()
		heard, err := listen(ctx, session, lasts, func(i int) []messages.ProcessID { return follows(i, ids) })
		if err != nil {
			return nil, err
		}
		cpu = cpuTime() - cpu
		all, printed := heard.all, heard.printed
		if len(all) < listeners || len(printed) == 0 {
			return nil, fmt.Errorf("only %d events were delivered", len(all))
		}
		tails, medians = append(tails, quantile(all, 0.99)), append(medians, median(all))
		prints = append(prints, quantile(printed, 0.99))
		rates = append(rates, float64(len(all))/lasts.Seconds())
		h.say("  sample %d/%d: median %.2f ms, p99 %.2f ms, from the print %.2f ms; %.0f a second, %d lost, cpu %.1f s", pair+1,
			h.pairs, medians[pair], tails[pair], prints[pair], rates[pair], heard.lost, cpu.Seconds())
	}
	return []value{single(tails), single(medians), single(prints), single(rates)}, nil
}

// hearing is how long events took to reach subscribers, in milliseconds after the publication and after the print.
type hearing struct {
	all, printed []float64
	lost         int
	parses       bool // whether it looks at the printed times
}

// listen lets all subscribers read every event that is published within a stretch of time, however late it arrives.
func listen(ctx context.Context, session *execbus.Session, lasts time.Duration, processes func(i int) []messages.ProcessID) (*hearing, error) {
	ctx, cancel := context.WithTimeout(ctx, talkSettle+lasts+eventPatience)
	defer cancel()
	from := time.Now().Add(talkSettle)
	until := from.Add(lasts)
	heard, failed := make([]hearing, listeners), make([]error, listeners)
	var all sync.WaitGroup
	for i := range listeners {
		sub, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}, Processes: processes(i)})
		if err != nil {
			failed[i] = err
			cancel()
			break
		}
		heard[i].parses = i%50 < 2 // not all of them: parsing costs time
		all.Go(func() {
			defer sub.Close()
			failed[i] = heard[i].listen(ctx, sub, from, until)
		})
	}
	all.Wait()
	var sum hearing
	for i := range heard {
		sum.all = append(sum.all, heard[i].all...)
		sum.printed = append(sum.printed, heard[i].printed...)
		sum.lost += heard[i].lost
	}
	return &sum, errors.Join(failed...)
}

// listen reads until an event comes that was published at the end of the stretch or later; then all earlier ones have come.
// Events that a gap reports as lost count as if they had come with the gap.
func (l *hearing) listen(ctx context.Context, sub *bus.Subscription, from, until time.Time) error {
	for {
		event, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		now, at, count := time.Now(), event.From().At, 1
		switch e := event.(type) {
		case messages.Gap:
			count = e.Deltas
			l.lost += count
		case messages.OutputDelta:
			if !at.Before(until) {
				return nil
			}
			if at.Before(from) {
				continue
			}
			if l.parses {
				l.print(now, e.Bytes)
			}
		}
		for range count {
			l.all = append(l.all, float64(now.Sub(at).Nanoseconds())/1e6)
		}
	}
}

// print notes how old the first printed line is.
func (l *hearing) print(now time.Time, output []byte) {
	line, _, found := bytes.Cut(output, []byte("\n"))
	at, err := strconv.ParseInt(string(line), 10, 64)
	if found && err == nil {
		l.printed = append(l.printed, float64(now.UnixNano()-at)/1e6)
	}
}

// printLines is the helper that prints the time until its output is closed.
func printLines(every time.Duration, out io.Writer) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		<-ticker.C
		if _, err := fmt.Fprintln(out, time.Now().UnixNano()); err != nil {
			return err
		}
	}
}
