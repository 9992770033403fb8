package execbus_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// TestACommandWhoseProgramCannotBeReachedCanBeTerminated: its file is under a write lease, so that a process that opens it waits.
func TestACommandWhoseProgramCannotBeReachedCanBeTerminated(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close() // which ends the lease
		if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Skipf("no leases in %s: %v", program, err)
		}
		unborn := exec(t, session, messages.ExecCommand{Argv: []string{program}, Yield: new(250 * time.Millisecond)})
		if !unborn.Running {
			t.Fatalf("%+v", unborn)
		}
		if result := exec(t, session, bash("exit 3")); result.Status != messages.StatusExited(3) {
			t.Errorf("another one: %+v", result)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		end, err := session.Terminate(ctx, messages.Terminate{Process: unborn.Process})
		if err != nil || end.Cause != messages.CauseTerminated || end.Status != messages.StatusNone() {
			t.Errorf("%+v, %v", end, err)
		}
	})
}
