package procs

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheReserveIsUsedOnceAndTakenBack(t *testing.T) {
	r := &reserve{}
	r.Take()
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
