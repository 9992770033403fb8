package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
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
		{name: "wake", about: "from a program's read of its terminal to the answer of a call that waits for that, 8 at once", open: wakes, metrics: []metric{
			{name: "p99, output less than 200 ms before", of: "soon", at: 0.99, unit: milliseconds, judge: most, limit: 25},
			{name: "p99, output 1 s before", of: "later", at: 0.99, unit: milliseconds, judge: most, limit: millis(wakeLater)/10 + 5}}},
		{name: "pattern", about: "64 MiB of lines through a PTY with a call that waits for a hostile pattern, and without one", open: patternFloods, metrics: []metric{
			{name: "time", unit: milliseconds, judge: atMost, limit: 1.15}, {name: "heap in use", of: "heap", unit: mebibytes, judge: most, limit: 16}}},
		{name: "ports", about: "from listen to the answer of a call that waits for it: servers in Go, node and python", open: ports(false), metrics: portMetrics()},
		{name: "ports-isolated", about: "the same in a network of the command's own", open: ports(true), metrics: portMetrics()},
	}
}

// wakeLater is a long time without output.
const wakeLater = time.Second

// writeReads is a program that prints when it last began to read, and sleeps for as many milliseconds as it has read.
func writeReads(out io.Writer) {
	for lines := bufio.NewReader(os.Stdin); ; {
		began := time.Now().UnixNano()
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprintln(out, began)
		lasts, _ := strconv.Atoi(strings.TrimSpace(line))
		time.Sleep(time.Duration(lasts) * time.Millisecond)
	}
}

// wakes measures how late calls notice that programs read.
func wakes(ctx context.Context, s *scope) pair {
	const readers, soon = 8, 10
	session, until := s.session(), &messages.Until{AwaitingInput: true}
	var ids []messages.ProcessID
	for range readers {
		ids = append(ids, get(session.Exec(ctx, messages.ExecCommand{Argv: writer("reads"), TTY: true, Until: until})).Process)
	}
	return pair{ours: func(ctx context.Context, took series) {
		var late [readers]series
		must(together(readers, func(i int) error {
			late[i] = series{}
			var answered time.Time
			for n := range soon + 2 {
				lasts := time.Duration(rand.IntN(200)) * time.Millisecond
				if n == soon {
					lasts = wakeLater
				}
				result, err := session.Write(ctx, messages.WriteStdin{Process: ids[i], Bytes: fmt.Appendln(nil, lasts.Milliseconds()), Until: until})
				if err != nil {
					return err
				}
				lines := strings.Fields(string(result.Output)) // the echo, and when the read before began
				if len(lines) != 2 || result.Met.Reason != messages.MetAwaitingInput {
					return fmt.Errorf("a reader shows %q, and the answer is %v", result.Output, result.Met)
				}
				if n > 0 {
					before := map[bool]string{true: "later", false: "soon"}[n == soon+1]
					wait := answered.Sub(time.Unix(0, get(strconv.ParseInt(lines[1], 10, 64))))
					if wait < 0 {
						return fmt.Errorf("the answer came %s before the read", -wait)
					}
					late[i].add(before, millis(wait))
				}
				answered = time.Now()
			}
			return nil
		}))
		for _, l := range late {
			took["soon"], took["later"] = append(took["soon"], l["soon"]...), append(took["later"], l["later"]...)
		}
	}}
}

// hostile is a pattern that takes long to compare with lines of the flood, and is not in them.
const hostile = `(h|ha|hay|(a|y|ay)* )*(needle|x{1,200})$`

// writeHay writes floodSize bytes of lines.
func writeHay(out io.Writer) {
	lines := bytes.Repeat([]byte(strings.Repeat("hay ", 15)+"ha\n"), batch/63+1)[:batch]
	for at := 0; at < floodSize; at += batch {
		if _, err := out.Write(lines); err != nil {
			return
		}
	}
}

// patternFloods compares a flood that is compared with a pattern with one that is not.
func patternFloods(ctx context.Context, s *scope) pair {
	session := s.session()
	flood := func(until *messages.Until) loop {
		return func(ctx context.Context, took series) {
			began := time.Now()
			argv := append(slices.Clone(floodArgv()[:3]), writer("hay")...)
			result := get(session.Exec(ctx, messages.ExecCommand{Argv: argv, TTY: true, Until: until, Yield: new(messages.DefaultMaxPoll)}))
			must(ended(result))
			if came := result.Output; int64(len(came))+result.Omitted != floodSize || until.Pattern != "" && result.Met.Reason != messages.MetExit {
				must(fmt.Errorf("%d bytes came, %d were left out: %v", len(came), result.Omitted, result.Met))
			}
			took.add("", millis(time.Since(began)))
			if until.Pattern != "" {
				goruntime.GC()
				var stats goruntime.MemStats
				goruntime.ReadMemStats(&stats)
				took.add("heap", float64(stats.HeapAlloc)/(1<<20))
			}
		}
	}
	plain, compared := flood(&messages.Until{}), flood(&messages.Until{Pattern: hostile})
	compared(ctx, series{})
	return pair{bare: plain, ours: compared}
}

// servers are programs that listen on any port, print the time in nanoseconds, and go on.
func servers() map[string][]string {
	return map[string][]string{
		"go":     writer("server"),
		"python": {"python3", "-c", "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print('at', time.time_ns(), 'end', flush=True); time.sleep(1000)"},
		"node": {"node", "-e", "require('net').createServer().listen(0, '127.0.0.1', () => " +
			"console.log('at ' + BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e3)) * 1000n + ' end'))"},
	}
}

func writeServer(out io.Writer) {
	if _, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		fmt.Fprintln(out, "at", time.Now().UnixNano(), "end")
		time.Sleep(time.Hour)
	}
}

func portMetrics() (all []metric) {
	for _, name := range []string{"go", "node", "python"} {
		all = append(all, metric{name: name + ", the latest", of: name, at: 1, unit: milliseconds, judge: most, limit: 40})
	}
	return all
}

// ports measures how late a call notices that a server listens.
func ports(isolated bool) opener {
	return func(ctx context.Context, s *scope) pair {
		runtime, session := s.open(execbus.Options{}, execbus.SessionOptions{})
		if isolated {
			session = s.inside(runtime, messages.AssuranceIsolated, false)
		}
		return pair{turns: s.some(4, 1), ours: func(ctx context.Context, took series) {
			for name, argv := range servers() {
				result := get(session.Exec(ctx, messages.ExecCommand{Argv: argv, TTY: true, Grace: new(time.Duration(0)), Until: &messages.Until{Listening: new(uint16(0))}}))
				answered, shown := time.Now(), string(result.Output)
				if result.Met.Reason != messages.MetListening {
					must(fmt.Errorf("%s: the answer is %v: %q", name, result.Met, shown))
				}
				for began := time.Now(); !strings.Contains(shown, " end") && time.Since(began) < patience; {
					shown += string(get(session.Poll(ctx, messages.Poll{Process: result.Process, Until: &messages.Until{Pattern: " end"}})).Output)
				}
				var listens int64
				get(fmt.Sscanf(shown, "at %d", &listens))
				took.add(name, millis(answered.Sub(time.Unix(0, listens))))
				get(session.Terminate(ctx, messages.Terminate{Process: result.Process}))
			}
		}}
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
