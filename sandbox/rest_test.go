//go:build linux

package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/execbus/execbus/sandbox"
)

// A warden is this program, and has more of its files in memory after the start than it may keep at rest.
func TestAWardenAtRestGivesMemoryBack(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	child, _ := run(t, spawner, launch(false, "cat"))
	warden := wardenAbove(child.PID())
	eventually(t, "the warden has at most 3.5 MiB of files in memory", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", warden))
		fields := bytes.Fields(text)
		if err != nil || len(fields) < 3 {
			t.Fatalf("the warden %d: %q, %v", warden, text, err)
		}
		pages, _ := strconv.Atoi(string(fields[2]))
		return pages*os.Getpagesize() <= 7<<19
	})
	_, record := run(t, spawner, bash(false, "echo works"))
	record.awaitOutput(t, "works")
}
