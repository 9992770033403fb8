package rulebook

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/tests/probe"
)

// hosted starts a rulebook below an actor that stands for the runtime's, hands out what is new, and notes it.
func hosted(t *testing.T, file string) (sys *system.System, book *system.PID, runtime *probe.Probe) {
	sys = system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Unexpected: func(_ *system.PID, message any) { t.Errorf("unexpected: %T", message) }})
	runtime = probe.New(t)
	books := make(chan *system.PID, 1)
	if _, err := sys.Spawn("runtime", func(ctx *system.Context) {
		runtime.Receive(ctx.Message())
		switch m := ctx.Message().(type) {
		case system.Started:
			books <- Spawn(ctx, protocol.NewRules{Rules: &rules.Set{}}, file)
		case protocol.Distribute:
			ctx.Respond(m.Amended)
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sys, <-books, runtime
}

func amend(t *testing.T, sys *system.System, book *system.PID, prefix ...string) protocol.Amended {
	t.Helper()
	m, err := system.Ask[protocol.Amended](t.Context(), sys, book, protocol.Amend{Question: "q1", Prefix: prefix})
	if err != nil || m.Question != "q1" {
		t.Fatalf("%+v, %v", m, err)
	}
	return m
}

func TestARuleIsWrittenAndHandedOut(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "default.rules")} {
		sys, book, runtime := hosted(t, file)
		for n, prefix := range []string{"git", "make"} {
			if m := amend(t, sys, book, prefix); m.Err != nil || m.Version != uint64(n+1) {
				t.Errorf("%+v", m)
			}
			sent := probe.Expect(runtime, time.Minute, func(d protocol.Distribute) bool { return d.Version == uint64(n+1) })
			for _, known := range []string{"git", "make"}[:n+1] {
				if _, found := rules.Strictest(sent.Rules.Match([]string{known, "x"})); !found {
					t.Errorf("version %d has no rule for %s", sent.Version, known)
				}
			}
		}
		if file != "" {
			if text, err := os.ReadFile(file); err != nil || len(text) == 0 {
				t.Errorf("%q, %v", text, err)
			}
		}
	}
}

func TestARuleThatCannotBeMadeIsNotHandedOut(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		prefix []string
	}{
		"no prefix":      {"", nil},
		"nowhere to put": {filepath.Join(t.TempDir(), "none", "\x00", "default.rules"), []string{"git"}},
	} {
		sys, book, runtime := hosted(t, c.file)
		if m := amend(t, sys, book, c.prefix...); m.Err == nil || m.Version != 0 {
			t.Errorf("%s: %+v", name, m)
		}
		if n := len(probe.Of[protocol.Distribute](runtime, nil)); n > 0 {
			t.Errorf("%s: %d were handed out", name, n)
		}
	}
}
