package tree

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestASurvivorThatCannotBeSeenSaysWhy(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{{&os.PathError{Err: unix.EMFILE}, "too many open files"}, {unix.ENFILE, "too many open files in system"}, {unix.ENOENT, "another user's"}} {
		tree := walked(NewForest(), func() ([]process, bool) { return []process{hiddenProcess(os.Getpid(), c.err)}, true })
		left := tree.survivors(nil)
		if len(left) != 1 || !strings.Contains(left[0].Why, c.says) {
			t.Errorf("%v: %v", c.err, left)
		}
		if err := send(hiddenProcess(os.Getpid(), c.err), 0); scarce(err) != scarce(c.err) || err == nil {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

func TestTheReserveIsUsedOnceAndTakenBack(t *testing.T) {
	r := &reserve{}
	r.take()
	defer func() {
		for _, fd := range r.kept {
			_ = unix.Close(fd)
		}
	}()
	before := len(r.kept)
	if err := r.use(unix.ENOENT, func() error { t.Error("it was used"); return nil }); err != unix.ENOENT || before != reserved {
		t.Errorf("%v, %d", err, before)
	}
	calls, inside := 0, 0
	if err := r.use(unix.EMFILE, func() error { calls++; inside = len(r.kept); return nil }); err != nil || calls != 1 || inside != 0 || len(r.kept) != reserved {
		t.Errorf("%v after %d calls with %d, %d are kept", err, calls, inside, len(r.kept))
	}
}

// A host that starts its commands itself takes no reserve, and loses none of its descriptors to one.
func TestNothingIsKeptWithoutAReserve(t *testing.T) {
	r := &reserve{}
	calls := 0
	if err := r.use(unix.EMFILE, func() error { calls++; return unix.EMFILE }); err != unix.EMFILE || len(r.kept) != 0 || calls != 1 {
		t.Errorf("%v after %d calls, %d are kept", err, calls, len(r.kept))
	}
}
