package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds the wait for what must happen, on a machine that is busy with other things.
const patience = 30 * time.Second

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
	code = runProgram(ctx, args, streams{strings.NewReader(""), &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

func TestUpRunsACommandAndExitsWithItsCode(t *testing.T) {
	t.Setenv("EXECBUS_FLEET_SERVER", "")
	for _, args := range [][]string{{"up", "--", "sh", "-c", "echo hi; echo oh >&2; exit 3"}, {"run", "--", "sh", "-c", "echo hi; echo oh >&2; exit 3"}} {
		if code, out, err := program(t, t.Context(), args...); code != 3 || out != "hi\n" || err != "oh\n" {
			t.Errorf("%v: %d, %q, %q", args[0], code, out, err)
		}
	}
	if code, out, err := program(t, t.Context(), "up", "--", "/does/not/exist"); code != exitFailed || out != "" || !strings.Contains(err, "/does/not/exist") {
		t.Errorf("no such program: %d, %q, %q", code, out, err)
	}
}

func TestHelpAndMisuse(t *testing.T) {
	t.Setenv("EXECBUS_FLEET_SERVER", "")
	for _, c := range commands {
		if code, out, err := program(t, t.Context(), c.name, "--help"); code != 0 || !strings.Contains(out, c.summary) || err != "" {
			t.Errorf("%s --help: %d, %q, %q", c.name, code, out, err)
		}
	}
	for _, args := range [][]string{{}, {"fly"}, {"up"}, {"run"}, {"ps"}, {"attach"}, {"ps", "--fly"}, {"up", "--sandbox", "leaky", "--", "true"}} {
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
		go func() { code <- runProgram(ctx, args, streams{strings.NewReader(""), out, err}) }()
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
		up <- runProgram(serving, []string{"up", "--listen", "127.0.0.1:0", "--id", "first"}, streams{strings.NewReader(""), &said{}, upErr})
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
		interrupted <- runProgram(running, []string{"run", "--on", "where=here", "--", "sh", "-c", "echo $$; exec sleep 1000"}, streams{strings.NewReader(""), out, &said{}})
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
