package host

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

func TestWhatCanBeReadIsOpenedAnewAndClosed(t *testing.T) {
	var r readable
	inodes := func() (found []uint64) {
		_ = r.use(func(everything, _ []confine.Allowed) error {
			for _, rule := range everything {
				var stat unix.Stat_t
				if err := unix.Fstat(rule.FD, &stat); err != nil {
					t.Fatal(err)
				}
				found = append(found, stat.Ino)
			}
			return nil
		})
		return found
	}
	refresh := func() {
		if err := r.refresh(); err != nil {
			t.Fatal(err)
		}
	}
	refresh()
	all := inodes()
	if len(all) < 2 {
		t.Fatalf("%d rules", len(all))
	}
	// Another mount at the top leaves the root's times as they are. The old descriptors would lead below it.
	stale := r.newest.rules[1].FD
	if err := unix.Dup3(r.newest.rules[0].FD, stale, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	refresh()
	if now := inodes(); !slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(all))) {
		t.Errorf("%v instead of %v", now, all)
	}
	r.close()
	refresh()
	if len(inodes()) > 0 {
		t.Error("something is open after the end")
	}
}

func TestAClosedStarterHoldsNothingOpen(t *testing.T) {
	if confine.Kernel().ABI == 0 {
		t.Skip("skipped: this kernel has no Landlock, so nothing is opened for confined commands")
	}
	wardens, err := NewWardens(Options{})
	if err != nil {
		t.Fatal(err)
	}
	direct := NewDirect()
	for name, starter := range map[string]interface {
		Enclose(*confine.Plan, []*os.File, confine.Level, func(*Sockets)) (*Enclosure, error)
		Forget(*Enclosure)
		Close() error
	}{"wardens": wardens, "direct": direct} {
		e, err := starter.Enclose(&confine.Plan{}, nil, confine.Confined, nil)
		if err != nil {
			t.Fatal(err)
		}
		open := e.readable.newest.rules[0].FD
		if _, err := unix.FcntlInt(uintptr(open), unix.F_GETFD, 0); err != nil {
			t.Errorf("%s: nothing is open: %v", name, err)
		}
		starter.Forget(e)
		if err := starter.Close(); err != nil {
			t.Error(err)
		}
		if len(e.readable.newest.rules) > 0 {
			t.Errorf("%s: what commands can read is still open", name)
		}
	}
}
