package tree

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

func TestASurvivorThatCannotBeSeenSaysWhy(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{{&os.PathError{Err: unix.EMFILE}, "too many open files"}, {unix.ENFILE, "too many open files in system"}, {unix.ENOENT, "another user's"}} {
		tree := walked(NewForest(), func() ([]procs.Process, bool) { return []procs.Process{procs.Unseen(os.Getpid(), c.err)}, true })
		left := tree.survivors(nil)
		if len(left) != 1 || !strings.Contains(left[0].Why, c.says) {
			t.Errorf("%v: %v", c.err, left)
		}
		if err := procs.Send(procs.Unseen(os.Getpid(), c.err), 0); procs.Scarce(err) != procs.Scarce(c.err) || err == nil {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

func TestWhatOnlyLacksAProcessorIsNoSurvivorYet(t *testing.T) {
	for _, c := range []struct {
		state   byte
		threads int
		late    time.Duration
		left    int
	}{{'R', 1, time.Second, 0}, {'Z', 2, time.Second, 0}, {'D', 1, time.Second, 1}, {'R', 1, time.Minute, 1}} {
		looks := 0
		tree := walked(NewForest(), func() ([]procs.Process, bool) {
			if looks++; looks > 100 { // it has got a processor
				return nil, true
			}
			return []procs.Process{{PID: math.MaxInt32, State: c.state, Threads: c.threads}}, true
		})
		if left := tree.kill(time.Now().Add(-c.late)); len(left) != c.left {
			t.Errorf("%c, %v late: %v", c.state, c.late, left)
		}
	}
}
