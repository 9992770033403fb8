package tree

import (
	"os"
	"strings"
	"testing"

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
