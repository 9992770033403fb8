package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/execbus/execbus/messages"
)

// screen is the text that a person sees. Two goroutines write to it.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A login shell reads the start files of its user, which can be slow, say something, and get in one another's way.
func TestMain(m *testing.M) {
	os.Setenv("HOME", "/proc/does/not/exist")
	os.Exit(m.Run())
}

func TestTheAgentRepairs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out screen
	no := &person{in: bufio.NewReader(strings.NewReader("no\n")), out: &out}
	conversation, err := run(t.Context(), &out, no, repair)
	if err != nil || len(conversation) != 6 {
		t.Fatalf("%q, %v", conversation, err)
	}
	for i, fact := range []string{"add.sh", "FAIL", "a person said no", "session ID", "5", "PASS"} {
		if !strings.Contains(conversation[i], fact) {
			t.Errorf("the model was told %q, without %q", conversation[i], fact)
		}
	}
	for _, fact := range []string{"offered: exec_command", "q1: may this run", "rm -rf old", "terminated by session", "model: Done."} {
		if !strings.Contains(out.String(), fact) {
			t.Errorf("the person does not see %q in\n%s", fact, out.String())
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v; %v", left, err)
	}
}

func TestThePersonStopsTheTurn(t *testing.T) {
	for name, said := range map[string]string{"stop": "s\n", "nobody": ""} {
		var out screen
		who := &person{in: bufio.NewReader(strings.NewReader(said)), out: &out}
		conversation, err := run(t.Context(), &out, who, repair)
		if !errors.Is(err, messages.ErrAborted) || len(conversation) != 2 {
			t.Errorf("%s: %q, %v", name, conversation, err)
		}
	}
}

func TestACancelledTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out screen
	m := func(turn int, _ string) *call {
		cancel()
		return &call{"", "exec_command", `{"cmd": "sleep 1000"}`}
	}
	if _, err := run(ctx, &out, &person{}, m); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}
