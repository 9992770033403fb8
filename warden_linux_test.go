package execbus_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// openOwn starts a runtime with a session, for a test that ends it.
func openOwn(t *testing.T, options execbus.Options) (*execbus.Runtime, *execbus.Session) {
	t.Helper()
	rt, err := execbus.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Shutdown(context.Background()) })
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return rt, session
}

func TestTheStateDirectoryHasAnEntryWhileThereIsAWarden(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	rt, session := openOwn(t, execbus.Options{StateDir: state})
	entries := func() []string { found, _ := filepath.Glob(filepath.Join(state, "warden-*")); return found }
	if found := entries(); len(found) != 1 {
		t.Errorf("before the first command: %v", found)
	}
	if result := exec(t, session, bash("exit 3")); result.Status != messages.StatusExited(3) {
		t.Errorf("%+v", result)
	}
	if found := entries(); len(found) != 1 {
		t.Errorf("with a warden: %v", found)
	}
	if err := rt.Shutdown(t.Context()); err != nil || len(entries()) > 0 {
		t.Errorf("after the end: %v, %v", err, entries())
	}
	if _, err := execbus.Start(execbus.Options{StateDir: "relative"}); err == nil || !strings.Contains(err.Error(), "Options.StateDir") {
		t.Errorf("a relative one: %v", err)
	}
}

func TestAStartFailsWithItsWarden(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ program, says string }{
		"dies":           {"#!/bin/sh\necho out of order >&2\nexit 1\n", "out of order"},
		"no program":     {"", "no such file"},
		"something else": {"#!/bin/sh\nexit 0\n", "did not start"},
	} {
		path := filepath.Join(dir, name)
		if c.program != "" {
			if err := os.WriteFile(path, []byte(c.program), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		_, err := execbus.Start(execbus.Options{Warden: path})
		wantError(t, err, messages.ErrSpawnFailed, "warden", c.says)
	}
}

// No time of a command runs while the warden starts.
func TestTheWardenLivesBeforeTheFirstCommand(t *testing.T) {
	before := len(leftovers())
	openOwn(t, execbus.Options{})
	if after := len(leftovers()); after <= before {
		t.Errorf("%d processes became %d", before, after)
	}
}
