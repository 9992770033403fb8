package warden

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/wire"
)

// A child before exec may share our table of descriptors: under the number of a closed one it would find nothing, or another rule set.
func TestTheDescriptorsOfAPlanStayOpenForTheBirthsThatNeedThem(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	open := func() bool {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		return err == nil
	}
	w := &warden{}
	w.handle(start{id: 1, register: new(wire.Register), files: []int{fd}})
	n := &child{plan: w.plans.byID[1]}
	n.plan.uses++
	w.handle(start{id: 1, withdraw: new(wire.Withdraw)})
	if !open() {
		t.Error("it is closed before the birth is over")
	}
	w.executed(n, errors.New("it has failed"))
	if open() {
		t.Error("it stays open after the birth")
	}
	w.plans.close()
}
