package ptyio

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

func TestTerminalsAreOpenedOneAfterTheOther(t *testing.T) {
	closed := func(master int, slave *os.File, err error) error {
		if err == nil {
			_ = slave.Close()
			_ = unix.Close(master)
		}
		return err
	}
	opened := make(chan error, 1)
	opening <- struct{}{}
	go func() { opened <- closed(openPTY(messages.Size{}.OrDefault())) }()
	for range 100 { // far longer than one takes
		if err := closed(openPair()); err != nil {
			t.Error(err)
		}
	}
	select {
	case err := <-opened:
		t.Errorf("one was opened beside another: %v", err)
		opened <- err
	default:
	}
	<-opening
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
