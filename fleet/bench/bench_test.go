package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/tests/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == roleFlag { // the tests start members
		if err := serve(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(harness.ExitFailed)
		}
		os.Exit(harness.ExitOK)
	}
	goleak.VerifyTestMain(m)
}

// execute runs the command and returns its exit code and what it says.
func execute(args ...string) (int, string, string) {
	var out, progress bytes.Buffer
	code := command.Execute(context.Background(), args, &out, &progress)
	return code, out.String(), progress.String()
}

func TestTheCommandLine(t *testing.T) {
	if code, _, said := execute("-help"); code != harness.ExitOK || !strings.Contains(said, "Exit code") {
		t.Errorf("%d: %s", code, said)
	}
	if code, out, _ := execute("-list"); code != harness.ExitOK || strings.Count(out, "\n") != len(rows) {
		t.Errorf("%d: %s", code, out)
	}
	for _, args := range [][]string{{"-run", "none"}, {"-run", "("}, {"-time", "0"}, {"more"}, {"-fly"}} {
		if code, out, _ := execute(args...); code != harness.ExitUsage || out != "" {
			t.Errorf("%v: %d: %s", args, code, out)
		}
	}
}

// Each row is measured with real members, and nothing of them is left. What it takes is not judged here.
func TestRowsAreMeasured(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	code, out, said := execute("-quick", "-time", "1ms", "-run", "^(call|flood|placement)$")
	if code == harness.ExitFailed || code == harness.ExitUsage {
		t.Fatalf("%d: %s%s", code, out, said)
	}
	for _, want := range []string{"call ", "call p99", "flood ", "flood in gaps", "placement median", "placement p99"} {
		if !strings.Contains(out, "\n"+want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
}

// A node's traffic and memory are what it really has.
func TestMembersAreWeighed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := newWorld(ctx, 0, 2)
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	l, err := w.weigh(ctx, 1)
	if err != nil || l.memory < 1024 {
		t.Errorf("%+v, %v", l, err)
	}
	before, err := w.traffic()
	for now := before; err == nil && now.Out == before.Out; now, err = w.traffic() { // until the next heartbeat
		if ctx.Err() != nil {
			t.Fatal("the nodes send nothing")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestBooksAreJudgedByTheirGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		none, some, all load
		missed          []bool // memory, heartbeats, reading
	}{
		"linear":     {load{100, 1, 10}, load{200, 1, 110}, load{300, 1, 210}, []bool{false, false, false}},
		"memory":     {load{100, 1, 10}, load{200, 1, 110}, load{326, 1, 210}, []bool{true, false, false}},
		"heartbeats": {load{100, 1, 10}, load{200, 1, 110}, load{300, 1.6, 210}, []bool{false, true, false}},
		"reading":    {load{100, 1, 10}, load{200, 1, 110}, load{300, 1, 236}, []bool{false, false, true}},
	} {
		for n, f := range judgeBooks(10, c.none, c.some, c.all, false) {
			if f.missed != c.missed[n] {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
