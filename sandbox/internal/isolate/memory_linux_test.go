package isolate

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// maxIdle is how much memory an idle isolated command may cost besides its own, in KiB.
const maxIdle = 256

func TestAnIdleCommandCostsLittleAfterManyMoreStarts(t *testing.T) {
	shared := network(t)
	idle, err := start(t, &confine.Plan{}, shared, "exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = idle.Kill()
		idle.Reap()
		_ = unix.Close(idle.PIDFD)
	}()
	for range 1000 {
		next, err := start(t, &confine.Plan{}, shared, "exit 0")
		if err != nil {
			t.Fatal(err)
		}
		next.end(t)
		_, _ = next.output.Close(), next.reports.Close()
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", idle.PID))
	if errors.Is(err, os.ErrPermission) {
		t.Skip("process 1 is undumpable, so that only root may look")
	}
	if err != nil {
		t.Fatal(err)
	}
	private := 0
	for line := range strings.Lines(string(text)) {
		var kib int
		if name, rest, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "Private_") {
			_, _ = fmt.Sscan(rest, &kib)
			private += kib
		}
	}
	t.Logf("%d KiB", private)
	if private > maxIdle {
		t.Errorf("%d KiB:\n%s", private, text)
	}
}
