package process

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
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
