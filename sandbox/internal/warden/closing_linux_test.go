package warden

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/wire"
)

// shares is a newborn that shares our descriptors until that is set to false.
type shares bool

func (s *shares) Apart() bool { return !bool(*s) }

func openNull(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func wantOpen(t *testing.T, what string, fd int, open bool) {
	t.Helper()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); (err == nil) != open {
		t.Errorf("%s: open is %t, want %t", what, err == nil, open)
	}
}

func TestDescriptorsStayOpenAsLongAsANewbornSharesThem(t *testing.T) {
	w := &warden{rooms: rooms{plans: map[uint64]*registered{}}}
	first, second := shares(true), shares(true)
	alone, ofFirst, ofSecond, ofPlan := openNull(t), openNull(t), openNull(t), openNull(t)
	w.rooms.plans[1] = &registered{files: []int{ofPlan}, cell: newCell()}
	w.closeAfter([]int{alone}, new(shares))
	wantOpen(t, "that of a newborn that shares nothing", alone, false)
	w.closeAfter([]int{ofFirst}, &first)
	w.closeAfter([]int{ofSecond}, &second)
	w.handle(start{withdraw: new(wire.Withdraw), id: 1})
	wantOpen(t, "the first's", ofFirst, true)
	second = false
	w.closeFiles()
	wantOpen(t, "the second's", ofSecond, false)
	wantOpen(t, "the plan's", ofPlan, true)
	first = false
	w.closeFiles()
	wantOpen(t, "the first's", ofFirst, false)
	wantOpen(t, "the plan's", ofPlan, false)
	if len(w.closings) != 0 {
		t.Errorf("%+v", w.closings)
	}
	w.rooms.close()
}

func TestDescriptorsAreClosedBeforeAWaitThatMayHaveNoEnd(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	w := &warden{poll: newTestPoll(t)}
	if w.conn, err = wire.NewConn(fds[0], 0, nil); err != nil {
		t.Fatal(err)
	}
	defer w.conn.Close()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	if err := w.poll.add(pipe[0]); err != nil {
		t.Fatal(err)
	}
	newborn := shares(true)
	w.closeAfter(pipe[1:], &newborn)
	newborn = false
	w.turn()
	wantOpen(t, "the newborn's", pipe[1], false)
	if w.rested { // the end of the pipe ends the wait at once
		t.Error("it was closed after the wait")
	}
}
