//go:build linux

package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// A child that a leader makes with CLONE_PARENT is among the children of the thread that bore the leader. All leaders of
// that thread are there, too. The warden must find the child there, among few leaders and among those of another thread.
func TestWhatALeaderGivesItsOwnParentEndsWithIt(t *testing.T) {
	for _, beside := range []int{0, 80} {
		t.Run("beside "+strconv.Itoa(beside), func(t *testing.T) {
			spawner := newSpawner(t, sandbox.Options{})
			var others []ptyio.Child
			var records []*recorder
			for range beside {
				child, record := run(t, spawner, launch(false, "cat"))
				others, records = append(others, child), append(records, record)
			}
			for name, end := range map[string]func(ptyio.Child){
				"exit":  func(child ptyio.Child) { child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {}) },
				"ended": func(child ptyio.Child) { child.EndTree(0) },
			} {
				token := newToken()
				child, record := run(t, spawner, helper(t, true, "sibling", "TOKEN="+token))
				eventually(t, "the sibling is up", func() bool { return len(sleepers(token)) == 1 })
				if spawners := spawning(t, wardenAbove(child.PID())); beside > 0 && spawners < 2 {
					t.Errorf("%d threads have started %d leaders", spawners, beside+1)
				}
				end(child)
				if report := record.awaitEnd(t); report.Ended != 1 || len(report.Survivors) > 0 || !report.Airtight {
					t.Errorf("%s: %+v", name, report)
				}
				if left := observe(token); len(left) > 0 {
					t.Errorf("%s: left: %v", name, left)
				}
			}
			for i, record := range records {
				if record.has(isExited) {
					t.Errorf("another command was ended: %v", record)
				}
				others[i].EndTree(0)
			}
			for _, record := range records {
				record.awaitEnd(t)
			}
		})
	}
}

// spawning counts the threads of a warden that have children.
func spawning(t *testing.T, warden int) (count int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(warden) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		if text, err := os.ReadFile(list); err == nil && strings.TrimSpace(string(text)) != "" {
			count++
		}
	}
	return count
}
