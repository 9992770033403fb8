//go:build linux

package sandbox_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/execbus/execbus/ptyio"
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

func TestThreadsWithoutLeadersEnd(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	var children []ptyio.Child
	var records []*recorder
	for range 140 {
		child, record := run(t, spawner, launch(false, "cat"))
		children, records = append(children, child), append(records, record)
	}
	warden := wardenAbove(children[0].PID())
	var spawners []string // threads that have started leaders
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", warden))
	for _, task := range tasks {
		text, err := os.ReadFile(task + "/children")
		if err != nil {
			t.Skip("skipped: the kernel lists no children: ", err)
		}
		if len(text) > 0 {
			spawners = append(spawners, task)
		}
	}
	if len(spawners) < 3 {
		t.Fatalf("%d threads have started %d leaders", len(spawners), len(children))
	}
	for i, child := range children[1:] {
		child.EndTree(0)
		records[i+1].awaitEnd(t)
	}
	eventually(t, "that with a leader is left, and that which waits for requests", func() bool {
		left := 0
		for _, task := range spawners {
			if _, err := os.Stat(task); err == nil {
				left++
			}
		}
		return left <= 2
	})
	children[0].Write([]byte("still here\n"), time.Time{}, func(ptyio.Taken, error) {})
	records[0].awaitOutput(t, "still here")
	_, record := run(t, spawner, bash(false, "echo works"))
	record.awaitOutput(t, "works")
	record.awaitEnd(t)
	if records[0].has(isExited) {
		t.Error("a leader has died with a thread")
	}
}
