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

func TestWhatCannotBeConfinedIsRefusedAsForetold(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		if assurance, err := spawner.Can(nil); assurance != ptyio.Unconfined || err != nil {
			t.Errorf("without a sandbox: %v, %v", assurance, err)
		}
		l := launch(tty, "no-such-program")
		l.Sandbox = &ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.ReadOnly}}
		l.Events = func(e ptyio.Event) { t.Errorf("event %T", e) }
		_, foretold := spawner.Can(l.Sandbox)
		_, err := spawner.Spawn(context.Background(), l)
		if !errors.Is(err, messages.ErrUnsupported) || foretold == nil || err.Error() != foretold.Error() {
			t.Errorf("%v was foretold, and then %v", foretold, err)
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
