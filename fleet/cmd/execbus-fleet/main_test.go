package main

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds the wait for what must happen, on a machine that is busy with other things.
const patience = time.Minute

// said is a stream that a test looks at while the program writes.
type said struct {
	mu   sync.Mutex // the program writes in goroutines of its own
	text bytes.Buffer
}

func (s *said) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// find waits until the stream has what an expression describes, and returns the groups.
func (s *said) find(t *testing.T, expression string) (found []string) {
	t.Helper()
	until(t, expression+" is said", func() bool {
		found = regexp.MustCompile(expression).FindStringSubmatch(s.String())
		return found != nil
	})
	return found
}

// until waits for a fact.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within " + patience.String() + ": " + what)
		}
	}
}

// program runs the program with arguments, in this process.
func program(t *testing.T, ctx context.Context, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr said
	code = runProgram(ctx, args, streams{in: strings.NewReader(""), out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestUpRunsACommandAndExitsWithItsCode(t *testing.T) {
	t.Setenv("EXECBUS_FLEET_SERVER", "")
	for _, args := range [][]string{{"up", "--", "sh", "-c", "echo hi; echo oh >&2; exit 3"}, {"run", "--", "sh", "-c", "echo hi; echo oh >&2; exit 3"}} {
		if code, out, err := program(t, t.Context(), args...); code != 3 || out != "hi\n" || err != "oh\n" {
			t.Errorf("%v: %d, %q, %q", args[0], code, out, err)
		}
	}
	none := t.TempDir() + "/none"
	if code, out, err := program(t, t.Context(), "up", "--", none); code != exitFailed || out != "" || !strings.Contains(err, none) {
		t.Errorf("no such program: %d, %q, %q", code, out, err)
	}
}

func TestHelpAndMisuse(t *testing.T) {
	t.Setenv("EXECBUS_FLEET_SERVER", "")
	for _, c := range commands {
		if code, out, err := program(t, t.Context(), c.name, "--help"); code != 0 || !strings.Contains(out, c.summary) || !strings.Contains(out, "Exit code: ") || err != "" {
			t.Errorf("%s --help: %d, %q, %q", c.name, code, out, err)
		}
	}
	for _, args := range [][]string{{}, {"fly"}, {"up"}, {"run"}, {"ps"}, {"attach"}, {"ps", "--fly"}, {"up", "--sandbox", "leaky", "--", "true"},
		{"up", "--approval", "untrusted", "--", "true"}} {
		if code, out, err := program(t, t.Context(), args...); code != exitMisused || out != "" || !strings.Contains(err, "Usage:") {
			t.Errorf("%v: %d, %q, %q", args, code, out, err)
		}
	}
}

// A fleet of this machine, and every command that other programs use.
func TestTheCommandsOfAFleet(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	start := func(args ...string) (out, err *said, code chan int) {
		out, err, code = &said{}, &said{}, make(chan int, 1)
		go func() { code <- runProgram(ctx, args, streams{in: strings.NewReader(""), out: out, err: err}) }()
		return out, err, code
	}
	ended := func(what string, code chan int, want int) {
		t.Helper()
		select {
		case got := <-code:
			if got != want {
				t.Errorf("%s ended with %d, want %d", what, got, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s does not end", what)
		}
	}
	expect := func(out string, args ...string) {
		t.Helper()
		if code, got, err := program(t, ctx, args...); code != 0 || !regexp.MustCompile(out).MatchString(got) {
			t.Errorf("%v: %d, %q, %q", args, code, got, err)
		}
	}
	serving, leave := context.WithCancel(ctx)
	upErr, up := &said{}, make(chan int, 1)
	go func() {
		up <- runProgram(serving, []string{"up", "--listen", "127.0.0.1:0", "--id", "first"}, streams{in: strings.NewReader(""), out: &said{}, err: upErr})
	}()
	defer leave()
	t.Setenv("EXECBUS_FLEET_SERVER", upErr.find(t, `EXECBUS_FLEET_SERVER=(\S+)`)[1])
	expect(`^$`, "setup")
	_, nodeErr, node := start("node", "--id", "second", "--label", "where=here")
	nodeErr.find(t, "node second serves")
	expect(`(?s)first  *0 of 256.*second  *0 of 256 .*where:here`, "ps")

	out, runErr, run := start("run", "--on", "where=here", "--approval", "untrusted", "--", "sh", "-c", "echo asked; touch /dev/null; exit 4")
	question := runErr.find(t, `execbus-fleet answer (\S+) (\S+) yes`)
	expect(question[1]+" "+question[2]+" on second", "answer")
	expect(question[1]+" +held +second", "ps")
	expect(`^$`, "answer", question[1], question[2], "yes")
	ended("run", run, 4)
	if out.String() != "asked\n" {
		t.Errorf("%q", out)
	}
	if code, _, err := program(t, ctx, "answer", question[1], question[2], "yes"); code != exitFailed || !strings.Contains(err, "has ended") {
		t.Errorf("an answer to a session that has ended: %d, %q", code, err)
	}

	// The output of a process is attached to while the command runs; the program is stopped as by a person.
	running, interrupt := context.WithCancel(ctx)
	out, interrupted := &said{}, make(chan int, 1)
	go func() {
		interrupted <- runProgram(running, []string{"run", "--on", "where=here", "--", "sh", "-c", "echo $$; exec sleep 1000"}, streams{in: strings.NewReader(""), out: out, err: &said{}})
	}()
	out.find(t, `\d+\n`)
	_, books, _ := program(t, ctx, "ps", "--json")
	session := regexp.MustCompile(`"session":"([^"]+)","state":"held"`).FindStringSubmatch(books)
	if session == nil {
		t.Fatal(books)
	}
	attached, _, attach := start("attach", session[1])
	attached.find(t, regexp.QuoteMeta(out.String()))
	expect(`^$`, "drain", "second")
	until(t, "the books say that the node drains", func() bool { // with its next heartbeat
		_, books, _ := program(t, ctx, "ps")
		return regexp.MustCompile(`second .*draining`).MatchString(books)
	})
	interrupt()
	ended("run that was interrupted", interrupted, 130)
	ended("attach", attach, 0)
	ended("the drained node", node, 0)
	expect(`^$`, "give-up", "second")
	if code, _, err := program(t, ctx, "give-up", "first"); code != exitFailed || !strings.Contains(err, "is reachable") {
		t.Errorf("gave up a node that is there: %d, %q", code, err)
	}
	leave()
	ended("up", up, 0)
}

// typist is a person at a terminal: what she types comes line by line.
type typist struct{ *io.PipeWriter }

func (p typist) types(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// atTerminal starts the program with a person at its terminal.
func atTerminal(ctx context.Context, args ...string) (p typist, out, err *said, code chan int) {
	in, keys := io.Pipe()
	out, err, code = &said{}, &said{}, make(chan int, 1)
	go func() {
		code <- runProgram(ctx, args, streams{in: in, out: out, err: err, attended: true})
		_ = in.Close()
	}()
	return typist{keys}, out, err, code
}

func endsWith(t *testing.T, code chan int, want int) {
	t.Helper()
	select {
	case got := <-code:
		if got != want {
			t.Errorf("it ended with %d, want %d", got, want)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// On a terminal up is a console: it takes commands, shows sessions and asks questions, while commands run.
func TestUpOnATerminalIsAConsole(t *testing.T) {
	t.Setenv("EXECBUS_FLEET_SERVER", "")
	p, out, err, code := atTerminal(t.Context(), "up", "--id", "here")
	out.find(t, "quit")
	p.types(t, "fly")
	p.types(t, "ps")
	out.find(t, `here +0 of 256`)
	if n := strings.Count(out.String(), "quit"); n != 2 {
		t.Errorf("the help was given %d times: %q", n, out)
	}
	p.types(t, "run --approval untrusted -- env one=two touch /dev/null")
	session := out.find(t, `(\S+) on here:\n(?s:.*)nothing to leave it to others: `)[1]
	out.find(t, session+` held here`)
	p.types(t, "ps --json") // while a question waits
	out.find(t, `"session":"`+session+`","state":"held"`)
	p.types(t, "no")
	err.find(t, `run ended with exit code 1`)
	out.find(t, session+` ended here`)
	p.types(t, "run -- sh --does-not-exist")
	err.find(t, `run ended with exit code 2`)
	p.types(t, "quit")
	endsWith(t, code, 0)

	p, out, _, code = atTerminal(t.Context(), "up")
	out.find(t, "quit")
	_ = p.Close() // the end of the input
	endsWith(t, code, 0)
}

// A person at the terminal of a command is asked there. What is answered elsewhere is not asked any more.
func TestAPersonAtTheTerminalIsAsked(t *testing.T) {
	t.Setenv("EXECBUS_FLEET_SERVER", "")
	p, out, err, code := atTerminal(t.Context(), "run", "--approval", "untrusted", "--", "sh", "-c", "echo asked; touch /dev/null; exit 4")
	err.find(t, `leave it to others: `)
	p.types(t, "perhaps")
	err.find(t, `yes, session, no or abort: `)
	p.types(t, "yes")
	endsWith(t, code, 4)
	if out.String() != "asked\n" {
		t.Errorf("%q", out)
	}

	ctx, leave := context.WithCancel(t.Context())
	p, out, err, code = atTerminal(ctx, "up", "--listen", "127.0.0.1:0")
	t.Setenv("EXECBUS_FLEET_SERVER", err.find(t, `EXECBUS_FLEET_SERVER=(\S+)`)[1])
	elsewhere, _, prompt, ended := atTerminal(t.Context(), "run", "--approval", "untrusted", "--", "touch", "/dev/null")
	out.find(t, `leave it to others: `)
	prompt.find(t, `leave it to others: `) // what is typed before it answers nothing
	elsewhere.types(t, "yes")
	out.find(t, `answered elsewhere, or withdrawn`)
	endsWith(t, ended, 0)
	_ = p.Close() // no end for other programs
	if code, _, err := program(t, t.Context(), "run", "--", "sleep", "0.5"); code != 0 {
		t.Errorf("the fleet is gone with its console: %s", err)
	}
	leave()
	endsWith(t, code, 0)
}

// A token does not cross a network in the clear.
func TestUpListensBeyondThisMachineOnlyWithTLS(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if code, out, err := program(t, t.Context(), "up", "--listen", address); code != exitFailed || out != "" || !strings.Contains(err, "without TLS") {
			t.Errorf("%s: %d, %q, %q", address, code, out, err)
		}
	}
	if code, _, err := program(t, t.Context(), "up", "--listen", "127.0.0.1:0", "--tls-cert", t.TempDir()+"/none"); code != exitFailed || !strings.Contains(err, "certificate") {
		t.Errorf("no certificate: %d, %q", code, err)
	}
}
