package warden

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

func TestAFileSystemThatDoesNotAnswerFailsTheStart(t *testing.T) {
	c := newCell()
	c.work <- struct{}{} // as a look does that hangs
	for range 2 {
		if _, err := c.enter(confine.Plan{}, time.Millisecond); !errors.Is(err, unix.ETIMEDOUT) {
			t.Error(err)
		}
		c.leave()
	}
	<-c.work // it answers
	if _, err := c.enter(confine.Plan{}, time.Hour); err != nil || c.held == nil {
		t.Errorf("%v, %v", c.held, err)
	}
	c.leave() // on a busy machine it does not wait for the removal
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c.work <- struct{}{}
		held := c.held
		<-c.work
		if held == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%d users, %v", c.users, held)
		}
	}
	if c.users != 0 {
		t.Errorf("%d users", c.users)
	}
}

func TestNoStartBeginsInACellThatIsOver(t *testing.T) {
	c := newCell()
	if _, err := c.enter(confine.Plan{}, time.Hour); err != nil {
		t.Fatal(err)
	}
	c.end() // although there is a user
	if c.held != nil {
		t.Error("placeholders are kept")
	}
	if _, err := c.enter(confine.Plan{}, time.Hour); !errors.Is(err, unix.ECANCELED) {
		t.Error(err)
	}
}
