package actors

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

func TestARunKeepsItsStreamsApart(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		got := must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Argv: []string{"bash", "-c", "echo out; echo err >&2; cat; exit 9"}})
		if string(got.Stdout) != "out\n" || string(got.Stderr) != "err\n" || string(got.Aggregated) != "out\nerr\n" || got.ExitCode != 9 ||
			got.Status != messages.StatusExited(9) || got.TimedOut || got.Cancelled || got.Omitted != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestARunThatTakesTooLongIsKilledAndKeepsItsOutput(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	var got *messages.RunResult
	for timeout := 200 * time.Millisecond; got == nil || len(got.Stdout) == 0 && timeout < patience; timeout *= 2 { // until it could say something
		got = must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Timeout: &timeout,
			Argv: []string{"bash", "-c", "trap '' TERM; sleep 1000 & echo begun; wait"}})
	}
	if !got.TimedOut || got.ExitCode != messages.ExitCodeRunTimedOut || string(got.Stdout) != "begun\n" || got.Status.Kind != messages.ExitSignal {
		t.Errorf("%+v", got)
	}
	end := s.ended(got.Process)
	if end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByTimeout || end.Tree.Ended != 1 {
		t.Errorf("%v, tree %+v", &end.EndRecord, end.Tree)
	}
	must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Argv: []string{"true"}})
}

func TestACancelledRunIsEndedAndSaysSo(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	call := s.call(messages.RunCommand{Argv: []string{"bash", "-c", "echo begun; " + idle}})
	id := probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
	s.said(id, "begun")
	call.cancel()
	reply, err := call.reply()
	if got, ok := reply.(*messages.RunResult); err != nil || !ok || !got.Cancelled || got.ExitCode != messages.ExitCodeRunCancelled || string(got.Stdout) != "begun\n" {
		t.Errorf("%+v, %v", reply, err)
	}
	if end := s.ended(id); end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByUser {
		t.Errorf("%v", &end.EndRecord)
	}
}

func TestARunThatEndsBeforeItBegan(t *testing.T) {
	o, entered, _ := gatedSpawn()
	h := newHost(t, o)
	s := h.open(nil)
	cancelled := s.call(messages.RunCommand{Argv: []string{"true"}})
	<-entered
	cancelled.cancel()
	reply, err := cancelled.reply()
	if got, ok := reply.(*messages.RunResult); err != nil || !ok || !got.Cancelled || got.ExitCode != messages.ExitCodeRunCancelled || got.Status != messages.StatusNone() {
		t.Errorf("%+v, %v", reply, err)
	}
	reply, err = s.call(messages.RunCommand{Argv: []string{"true"}, Timeout: new(50 * time.Millisecond)}).reply()
	if got, ok := reply.(*messages.RunResult); err != nil || !ok || !got.TimedOut || got.ExitCode != messages.ExitCodeRunTimedOut {
		t.Errorf("%+v, %v", reply, err)
	}
	terminated := s.call(messages.RunCommand{Argv: []string{"true"}})
	<-entered
	<-entered
	if _, err := s.terminate(s.list()[0].Process); err != nil {
		t.Error(err)
	}
	_, err = terminated.reply()
	wantError(t, "a run that was terminated", err, messages.ErrProcessEnded)
	_, err = ask[any](h, s.supervisor, messages.RunCommand{})
	wantError(t, "a run of nothing", err, messages.ErrInvalidRequest)
	for range 3 {
		probe.Expect[messages.ExecEnded](s.events, patience, nil)
	}
}

func TestARunIsBoundedUnlessItIsFull(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	const all = 3 << 20
	run := messages.RunCommand{Script: "head -c 3145728 /dev/zero; echo err >&2", Shell: "sh", Timeout: new(time.Duration), Full: true}
	full := must[*messages.RunResult](h, s.supervisor, run)
	if len(full.Stdout) != all || full.Omitted != 0 || full.TimedOut || len(full.Aggregated) != all+4 {
		t.Errorf("full: %d, %d omitted, %d aggregated", len(full.Stdout), full.Omitted, len(full.Aggregated))
	}
	run.Timeout, run.Full = nil, false
	bounded := must[*messages.RunResult](h, s.supervisor, run)
	if len(bounded.Stdout) != messages.MaxRunOutput || bounded.Omitted != all-messages.MaxRunOutput || string(bounded.Stderr) != "err\n" ||
		len(bounded.Aggregated) != messages.MaxRunOutput || !strings.HasSuffix(string(bounded.Aggregated), "\x00err\n") {
		t.Errorf("bounded: %d, %d omitted, %d aggregated", len(bounded.Stdout), bounded.Omitted, len(bounded.Aggregated))
	}
}

func TestABackgroundChildDoesNotHoldARun(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	got := must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Argv: []string{"bash", "-c", "echo kept; sleep 1000 & exit 2"}})
	if got.ExitCode != 2 || string(got.Stdout) != "kept\n" {
		t.Errorf("%+v", got)
	}
}

func TestAggregateSharesTheRoom(t *testing.T) {
	for _, c := range []struct {
		name                  string
		stdout, stderr, limit int
		fromStdout            int
		fromStderr            int
	}{
		{"under the limit", 100, 200, 900, 100, 200},
		{"exactly the limit", 400, 500, 900, 400, 500},
		{"contention", 900, 900, 900, 300, 600},
		{"little stdout leaves its room to stderr", 100, 5000, 900, 100, 800},
		{"little stderr leaves its room to stdout", 5000, 100, 900, 800, 100},
		{"just more than a third", 301, 900, 900, 300, 600},
		{"no stdout", 0, 5000, 900, 0, 900},
		{"no stderr", 5000, 0, 900, 900, 0},
		{"room for one", 5, 5, 1, 0, 1},
		{"no room", 5, 5, 0, 0, 0},
		{"less than no room", 5, 5, -7, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := aggregate(numbered('o', c.stdout), numbered('e', c.stderr), c.limit)
			want := append(numbered('o', c.stdout)[:c.fromStdout], numbered('e', c.stderr)[:c.fromStderr]...)
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes of stdout and %d of stderr, want %d and %d", bytes.Count(got, []byte{'o'}), bytes.Count(got, []byte{'e'}),
					c.fromStdout, c.fromStderr)
			}
		})
	}
}

// numbered makes bytes that show where they come from.
func numbered(mark byte, n int) []byte {
	p := bytes.Repeat([]byte{mark}, n)
	for i := 1; i < n; i += 2 {
		p[i] = byte(i / 2 % 64)
	}
	return p
}

func TestAggregateOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stdout := bytes.Repeat([]byte{'o'}, rapid.IntRange(0, 100).Draw(t, "stdout"))
		stderr := bytes.Repeat([]byte{'e'}, rapid.IntRange(0, 100).Draw(t, "stderr"))
		limit := rapid.IntRange(0, 150).Draw(t, "limit")
		got := aggregate(stdout, stderr, limit)
		if want := min(len(stdout)+len(stderr), limit); len(got) != want {
			t.Fatalf("%d bytes, want %d: no room is wasted", len(got), want)
		}
		fromStdout := bytes.Count(got, []byte{'o'})
		if fromStdout < min(len(stdout), limit/3) || len(got)-fromStdout < min(len(stderr), limit-limit/3) {
			t.Fatalf("%d of %d bytes are from stdout", fromStdout, len(got))
		}
		if !bytes.Equal(got, append(bytes.Clone(stdout[:fromStdout]), stderr[:len(got)-fromStdout]...)) {
			t.Fatalf("not the beginnings, one behind the other: %q", got)
		}
	})
}

func TestAggregateIsACopy(t *testing.T) {
	stdout := append(make([]byte, 0, 10), "out"...)
	joined := aggregate(stdout, []byte("err"), 100)
	joined[0] = 'X'
	if string(stdout) != "out" || string(stdout[:6]) != "out\x00\x00\x00" {
		t.Errorf("stdout is now %q", stdout[:6])
	}
}
