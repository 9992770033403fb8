package messages_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

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
			got := messages.AggregateRun(numbered('o', c.stdout), numbered('e', c.stderr), c.limit)
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
		got := messages.AggregateRun(stdout, stderr, limit)
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
	joined := messages.AggregateRun(stdout, []byte("err"), 100)
	joined[0] = 'X'
	if string(stdout) != "out" || string(stdout[:6]) != "out\x00\x00\x00" {
		t.Errorf("stdout is now %q", stdout[:6])
	}
}

func TestNormalizeRun(t *testing.T) {
	finished := &messages.RunResult{ExitCode: 3, Status: messages.StatusExited(3), Stdout: []byte("out")}
	timedOut := &messages.RunResult{ExitCode: messages.ExitCodeRunTimedOut, TimedOut: true, Status: messages.StatusSignaled(9), Stdout: []byte("partial")}
	failure := &messages.Error{Code: messages.ErrNoSuchProgram, Op: "spawn", Subject: "nope", Detail: "no such program"}
	for _, result := range []*messages.RunResult{finished, timedOut} {
		if got := messages.NormalizeRun(result, nil); got != result {
			t.Errorf("%v became %v", result, got)
		}
		if got := messages.NormalizeRun(result, failure); got != result {
			t.Errorf("%v with an error became %v", result, got)
		}
	}
	denied := &messages.RunResult{ExitCode: 1, Status: messages.StatusExited(1), Stdout: []byte("out"), Stderr: []byte("err"),
		Aggregated: []byte("outerr"), Denial: &messages.Denial{}}
	if got := messages.NormalizeRun(denied, nil); string(got.Aggregated) != "failed in sandbox: err" || got.ExitCode != 1 ||
		string(denied.Aggregated) != "outerr" {
		t.Errorf("a denial became %q", got.Aggregated)
	}
	denied.Stderr = nil
	if got := messages.NormalizeRun(denied, nil); string(got.Aggregated) != "failed in sandbox: outerr" {
		t.Errorf("a denial without stderr became %q", got.Aggregated)
	}
	for _, c := range []struct {
		err  error
		want string
	}{{failure, "spawn nope: no such program"}, {errors.New("something else"), "something else"}, {nil, ""}} {
		got := messages.NormalizeRun(nil, c.err)
		if got.ExitCode != -1 || got.Status != messages.StatusNone() || got.TimedOut || got.Cancelled || got.Duration != 0 {
			t.Errorf("%v became %+v", c.err, got)
		}
		if string(got.Stderr) != c.want || string(got.Aggregated) != c.want || len(got.Stdout) != 0 {
			t.Errorf("%v became stdout %q, stderr %q, together %q", c.err, got.Stdout, got.Stderr, got.Aggregated)
		}
	}
}
