package execserver

import (
	"testing"
	"testing/synctest"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// loan makes a loan whose batch reports when it is released.
func loan() (*lent, <-chan struct{}) {
	released := make(chan struct{})
	return &lent{batch: ptyio.NewOutput(messages.StreamPTY, []byte("12345678"), func() { close(released) })}, released
}

func isOver(released <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-released:
		return true
	default:
		return false
	}
}

func TestALentBatchIsReleasedWhenNobodyUsesIt(t *testing.T) {
	synctest.Test(t, testLoans)
}

func testLoans(t *testing.T) {
	r := record{room: 10}
	add := func() (*lent, <-chan struct{}) {
		l, released := loan()
		r.addOutput(messages.StreamPTY, l.batch.Bytes, l)
		return l, released
	}
	unused, first := add()
	sending, second := add() // this drops the first
	<-first
	next, _ := r.next(0)
	next.lent.use()
	read, third := add()
	if next.lent != sending || isOver(second) {
		t.Error("a batch was released while it was being sent")
	}
	next.lent.done()
	<-second
	r.output(0, 100)
	add()
	if read.users != 1 || isOver(third) || unused.users != 0 {
		t.Errorf("a batch was released while an answer has it: %d users, %d of the first", read.users, unused.users)
	}
}
