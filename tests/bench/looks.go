package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/proc"
)

const (
	// manyWaits is how many calls wait for as many commands.
	manyWaits = 1000
	// waitsFirst is for how long the first measurement lasts, and waitsAfter the second.
	waitsFirst = 10 * time.Second
	waitsAfter = 5 * time.Second
)

func lookRows() []row {
	share := func(name, of string, limit float64) metric {
		return metric{name: name, of: of, unit: percent, judge: most, limit: limit}
	}
	return []row{
		{name: "waits", about: "1,000 calls that wait for the input of 1,000 commands on terminals that sleep", fresh: true, open: waits(&messages.Until{AwaitingInput: true}),
			metrics: []metric{share("first 10 s", "first", 8), share("after", "after", 4), {name: "descriptors for each", of: "descriptors", judge: most, unit: pieces, limit: 3}}},
	}
}

// waits measures the processor time of this process while calls wait for silent commands.
func waits(until *messages.Until) opener {
	return func(ctx context.Context, s *scope) pair {
		count := s.some(manyWaits, manyWaits/10)
		_, session := s.open(execbus.Options{}, crowded(count))
		get(session.Exec(ctx, messages.ExecCommand{Argv: []string{program}}))
		return pair{ours: func(ctx context.Context, took series) {
			descriptors := len(proc.Descriptors(os.Getpid()))
			waiting, stop := context.WithCancel(ctx)
			defer stop()
			answered := make(chan string, count)
			for range count {
				p := get(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}, TTY: true}))
				go func() {
					result, err := session.Poll(waiting, messages.Poll{Process: p.ID(), Until: until, Yield: new(messages.DefaultMaxPoll)})
					answered <- fmt.Sprint(result, err)
				}()
			}
			for _, part := range []struct {
				name  string
				lasts time.Duration
			}{{"first", waitsFirst}, {"after", waitsAfter}} {
				before := cpuTime()
				select {
				case answer := <-answered:
					must(fmt.Errorf("a call was answered: %s", answer))
				case <-time.After(part.lasts):
				}
				took.add(part.name, 100*(cpuTime()-before).Seconds()/part.lasts.Seconds())
			}
			took.add("descriptors", float64(len(proc.Descriptors(os.Getpid()))-descriptors)/float64(count))
		}}
	}
}
