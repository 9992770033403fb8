//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestALimitThatNobodyEnforcesIsRefusedAsForetold(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		if enforced, err := spawner.Can(ptyio.Launch{}); enforced.Level != messages.AssuranceNone || err != nil {
			t.Errorf("without a sandbox: %v, %v", enforced, err)
		}
		refused := func(change func(*ptyio.Launch)) {
			t.Helper()
			l := launch(tty, "no-such-program")
			change(&l)
			l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
			_, predicted := spawner.Can(l)
			_, err := spawner.Spawn(context.Background(), l)
			if !errors.Is(err, messages.ErrUnsupported) || predicted == nil || err.Error() != predicted.Error() {
				t.Errorf("%v was predicted, and then %v", predicted, err)
			}
		}
		if _, err := spawner.Can(ptyio.Launch{Limits: messages.Limits{Processes: 1}}); err != nil { // there are no control groups
			refused(func(l *ptyio.Launch) { l.Limits.Processes = 1 })
		}
	})
}

func TestADirectoryThatCannotBeEnteredIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can enter every directory")
	}
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		l := launch(tty, "true")
		l.Dir = t.TempDir()
		if err := os.Chmod(l.Dir, 0o600); err != nil {
			t.Fatal(err)
		}
		l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
		_, err := spawner.Spawn(context.Background(), l)
		if failure, ok := errors.AsType[*messages.Error](err); !ok || failure.Subject != strconv.Quote(l.Dir) {
			t.Errorf("error %v", err)
		}
	})
}
