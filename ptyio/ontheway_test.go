//go:build linux

package ptyio

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// Bytes of an earlier write may come between two looks at what the child could read. They are not taken for those of the write that is judged.
func TestBytesThatWereOnTheWayAreNotTakenForOthers(t *testing.T) {
	master, slave, err := openPair()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	defer unix.Close(master)
	in := &input{terminal: true}
	write := func() messages.InputKind {
		t.Helper()
		n, kind, err := in.writeMarked(master, []byte("typed\n"))
		if n != 6 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		return kind
	}
	in.onTheWay = 6
	_ = write() // the terminal has handled it, or the child can read nothing yet
	in.onTheWay = 6
	if kind := write(); kind != messages.InputUnknown || in.onTheWay != 12 {
		t.Errorf("%s, and %d bytes are on the way", kind, in.onTheWay)
	}
	readAll(t, slave, 12)
	if kind := write(); kind != messages.InputLine || in.onTheWay != 0 {
		t.Errorf("after the child has read all: %s, and %d bytes are on the way", kind, in.onTheWay)
	}
}

func readAll(t *testing.T, slave *os.File, want int) {
	t.Helper()
	for buffer := make([]byte, 64); want > 0; {
		n, err := slave.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		want -= n
	}
}
