package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// floodMetrics are those of a flood, with its limit.
func floodMetrics(speed metric) []metric {
	speed.unit = megabytes
	return []metric{speed, {name: "cpu", of: "cpu", unit: cpuPerGiB}}
}

func streamRows() []row {
	return []row{
		{name: "echo-session", about: "17 bytes to cat on a raw PTY and back, by Session.Write and a lossless subscription",
			metrics: []metric{{name: "median", judge: atMost, limit: 1.5}, tail}, open: echoes},
		{name: "flood-session", about: "64 MiB through a PTY by Session.Exec and polls", metrics: floodMetrics(metric{}), open: sessionFloods},
		{name: "flood-spool", about: "the same with all output in a file, compared with a session that keeps it in memory",
			metrics: floodMetrics(metric{judge: atLeast, limit: 0.85}), open: spoolFloods},
		{name: "grep-spool", about: "one line in 200 MB of output in a file, by a pattern with a literal of 4 bytes and by one without; 500 and 20 MB/s",
			metrics: []metric{{name: "literal", unit: milliseconds, judge: most, limit: 400}, {name: "other", of: "other", unit: milliseconds, judge: most, limit: 10_000}}, open: spoolGreps},
	}
}

// message is sent there and back.
var message = []byte("seventeen bytes.\x00")

// echoArgv puts the terminal into raw mode, says so with one byte, and echoes.
var echoArgv = []string{"/bin/sh", "-c", "stty raw -echo && printf R && exec cat"}

// echoTrips is the length of a turn. Turns are short because a round trip takes two to four times as long once the scheduler
// has spread the goroutines and processes over the cores, and that lasts for a while.
const echoTrips = 50

// trip sends the message, and returns when all of it is back.
type trip func(ctx context.Context) error

func (t trip) loop(ctx context.Context, took series) {
	for range echoTrips {
		timed(t)(ctx, took)
	}
}

func (s *scope) echoTurns() int { return s.some(30, 10) }

// bareEcho uses blocking calls on the master side of the terminal.
func (s *scope) bareEcho() trip {
	cmd := exec.Command(echoArgv[0], echoArgv[1:]...)
	cmd.Env, cmd.Dir = environment(), "/"
	terminal := get(pty.Start(cmd))
	s.after(func() {
		_ = terminal.Close() // SIGHUP ends cat
		_ = cmd.Wait()
	})
	buffer := make([]byte, len(message))
	get(io.ReadFull(terminal, buffer[:1]))
	return func(context.Context) error {
		if _, err := terminal.Write(message); err != nil {
			return err
		}
		_, err := io.ReadFull(terminal, buffer)
		return err
	}
}

// cat is an echo of a session.
type cat struct {
	session *execbus.Session
	events  *bus.Subscription
	process messages.ProcessID
}

func (s *scope) cat(ctx context.Context, session *execbus.Session) *cat {
	c := &cat{session: session, events: get(session.Events(execbus.Watch{Calls: []messages.CallID{"echo"}, Lossless: true}))}
	s.after(c.events.Close)
	c.process = get(session.Start(ctx, messages.ExecCommand{Call: "echo", Argv: echoArgv, TTY: true})).ID()
	must(c.await(ctx, []byte("R")))
	return c
}

// await reads output until want has come.
func (c *cat) await(ctx context.Context, want []byte) error {
	var got []byte
	for !bytes.Equal(got, want) {
		event, err := c.events.Next(ctx)
		if err != nil {
			return err
		}
		switch event := event.(type) {
		case messages.OutputDelta:
			got = append(got, event.Bytes...)
		case messages.ExecEnded:
			return fmt.Errorf("cat ended with %s", event.Status)
		}
		if !bytes.HasPrefix(want, got) {
			return fmt.Errorf("%q came back as %q", want, got)
		}
	}
	return nil
}

func (c *cat) trip(ctx context.Context) error {
	if _, err := c.session.Write(ctx, messages.WriteStdin{Process: c.process, Bytes: message, UntilTaken: true}); err != nil {
		return err
	}
	return c.await(ctx, message)
}

func echoes(ctx context.Context, s *scope) pair {
	return s.againstBareEcho(s.cat(ctx, s.session()).trip)
}

func (s *scope) againstBareEcho(ours trip) pair {
	return pair{bare: s.bareEcho().loop, ours: ours.loop, turns: s.echoTurns()}
}

// floods are programs of a session that write the same line again and again. Nobody subscribes to them.
type floods struct {
	session *execbus.Session
	ids     []messages.ProcessID
	last    int64 // how many bytes had come, and when, when their speed was last asked for
	at      time.Time
}

func startFloods(ctx context.Context, session *execbus.Session, count int, prefix ...string) *floods {
	f := &floods{session: session, at: time.Now()}
	for range count {
		f.ids = append(f.ids, get(session.Start(ctx, messages.ExecCommand{Argv: append(prefix, "yes")})).ID())
	}
	return f
}

// bytes returns how many bytes have come.
func (f *floods) bytes(ctx context.Context) (all int64) {
	for _, id := range f.ids {
		all += get(f.session.Read(ctx, messages.ReadOutput{Process: id, Tail: 1})).Total
	}
	return all
}

// speed returns the MB/s since it was last asked for.
func (f *floods) speed(ctx context.Context) float64 {
	all, now := f.bytes(ctx), time.Now()
	speed := float64(all-f.last) / 1e6 / now.Sub(f.at).Seconds()
	f.last, f.at = all, now
	return speed
}

// stop stops the programs. What they have written has come when it returns.
func (f *floods) stop(ctx context.Context) {
	for _, id := range f.ids {
		must(f.session.Signal(ctx, messages.Signal{Process: id, Signal: syscall.SIGSTOP}))
	}
	for before, now := int64(-1), int64(0); now != before; time.Sleep(restTime / 4) {
		before, now = now, f.bytes(ctx)
	}
}

const (
	// batch is the most that a runtime and the bare way read at once.
	batch = 64 << 10
	// floodSize bytes are a turn.
	floodSize = 64 << 20
)

// writerFlag makes this program one that prints. It is not for users.
const writerFlag = "-writer"

// writers are such programs. They end when nobody reads them, or with their input.
var writers = map[string]func(out io.Writer){"flood": writeFlood, "lines": writeLines, "sink": beSink, "proxy": beProxy,
	"reads": writeReads, "hay": writeHay, "server": writeServer, "yes": writeYes}

func writer(name string) []string { return []string{get(os.Executable()), writerFlag, name} }

// floodArgv is a flood on a terminal in raw mode.
func floodArgv() []string {
	return append([]string{"/bin/sh", "-c", `stty raw -echo && exec "$0" "$@"`}, writer("flood")...)
}

func writeFlood(out io.Writer) {
	for at, buffer := 0, make([]byte, batch); at < floodSize; at += batch {
		if _, err := out.Write(buffer); err != nil {
			return
		}
	}
}

// flood sends floodSize bytes through a new PTY, and returns how many came.
type flood func(ctx context.Context) int

// loop notes the MB/s, and the CPU seconds of this process for each GiB.
func (f flood) loop(ctx context.Context, took series) {
	cpu, began := cpuTime(), time.Now()
	if came := f(ctx); came != floodSize {
		must(fmt.Errorf("%d of %d bytes came", came, floodSize))
	}
	took.add("", floodSize/1e6/time.Since(began).Seconds())
	took.add("cpu", (cpuTime()-cpu).Seconds()/floodSize*(1<<30))
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func bareFlood(ctx context.Context) (came int) {
	argv := floodArgv()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = environment(), "/"
	terminal := get(pty.Start(cmd))
	defer terminal.Close()
	for buffer := make([]byte, batch); ; {
		n, err := terminal.Read(buffer)
		came += n
		if err != nil { // EIO is the end
			must(cmd.Wait())
			return came
		}
	}
}

// floodPair compares floods; the first one, which grows the buffers, does not count.
func floodPair(ctx context.Context, bare, ours flood) pair {
	ours.loop(ctx, series{})
	return pair{bare: bare.loop, ours: ours.loop}
}

// sessionFloods compares a session with the bare way.
func sessionFloods(_ context.Context, s *scope) pair {
	return floodPair(context.Background(), bareFlood, polledFlood(s.session()))
}

// polledFlood polls until the end. It counts the bytes that it gets, and those that were dropped.
func polledFlood(session *execbus.Session) flood {
	return func(ctx context.Context) (came int) {
		result := get(session.Exec(ctx, messages.ExecCommand{Argv: floodArgv(), TTY: true, Yield: new(messages.MaxYield)}))
		for {
			came += len(result.Output) + int(result.Omitted)
			if !result.Running {
				return came
			}
			result = get(session.Poll(ctx, messages.Poll{Process: result.Process, NoTimeout: true}))
		}
	}
}

// spooling is a session whose output goes to files.
func (s *scope) spooling() *execbus.Session {
	_, session := s.open(execbus.Options{Spool: execbus.SpoolOptions{Dir: filepath.Join(s.directory(), "output")}}, execbus.SessionOptions{})
	return session
}

func spoolFloods(ctx context.Context, s *scope) pair {
	polledFlood(s.session())(ctx) // the first one, which grows the buffers, does not count
	p := floodPair(ctx, polledFlood(s.session()), polledFlood(s.spooling()))
	p.turns = s.some(3, 1) // each has fast and slow turns, as the scheduler likes
	return p
}

// spoolGreps searches output of a command that has printed 200 MB and waits.
func spoolGreps(ctx context.Context, s *scope) pair {
	const total = 2*99_999_999 + 11
	session := s.spooling()
	id := get(session.Start(ctx, messages.ExecCommand{OpenStdin: true, Argv: []string{"/bin/sh", "-c",
		"seq 10000000 21111110; echo 'FAIL: here'; seq 21111111 32222221; read x"}})).ID()
	for get(session.Read(ctx, messages.ReadOutput{Process: id, Tail: 1})).Total < total {
		time.Sleep(restTime / 4)
	}
	search := func(ctx context.Context, pattern string) float64 {
		began, found := time.Now(), 0
		for at := int64(0); at < total; {
			page := get(session.Read(ctx, messages.ReadOutput{Process: id, Offset: &at, Grep: &messages.Grep{Pattern: pattern}}))
			if found += len(page.Lines); page.Missed != 0 {
				must(fmt.Errorf("%d bytes are missing", page.Missed))
			}
			at = page.Next
		}
		if found != 1 {
			must(fmt.Errorf("%d lines match %s", found, pattern))
		}
		return millis(time.Since(began))
	}
	return pair{ours: func(ctx context.Context, took series) {
		took.add("", search(ctx, "^FAIL"))
		took.add("other", search(ctx, "[A-Z][a-z]*|[A-Z]{4}")) // rows of 9 bytes
	}}
}
