//go:build linux

package ptyio

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// newResponder makes a terminal with a responder. The child's side does not block.
func newResponder(t *testing.T) (*responder, *os.File) {
	t.Helper()
	master, slave, err := openPTY(messages.Size{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	file := newEnd(master)
	t.Cleanup(func() { _ = slave.Close(); _ = file.Close() })
	return &responder{input: &input{terminal: true, file: file}}, slave
}

// raw switches line mode off.
func raw(t *testing.T, slave *os.File) {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil {
		t.Fatal(err)
	}
	state.Lflag &^= unix.ICANON | unix.ECHO
	if err := unix.IoctlSetTermios(int(slave.Fd()), setTermios, state); err != nil {
		t.Fatal(err)
	}
}

// ask asks in line mode, and stops the clock of the answer, which waits.
func ask(t *testing.T, r *responder, request string) {
	t.Helper()
	for range 100 { // on a busy machine the answer may be dropped before the clock stops
		r.read([]byte(request))
		r.mu.Lock()
		waits := len(r.waiting) > 0
		r.looks = -1 << 30
		r.mu.Unlock()
		if waits {
			return
		}
	}
	t.Fatal("the answer does not wait for the end of line mode")
}

func waits(r *responder) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) > 0
}

func TestAnAnswerWaitsForTheEndOfLineMode(t *testing.T) {
	r, slave := newResponder(t)
	ask(t, r, "\x1b[6n")
	r.read([]byte("\x1b[c")) // a later answer comes later
	raw(t, slave)
	var got []byte
	buffer := make([]byte, 100)
	for string(got) != "\x1b[1;1R\x1b[?1;2c" {
		n, err := slave.Read(buffer)
		if got = append(got, buffer[:n]...); err != nil || len(got) > 20 {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

func TestAnAnswerDoesNotWaitForever(t *testing.T) {
	r, _ := newResponder(t)
	ask(t, r, "\x1b[6n")
	r.mu.Lock()
	r.looks = answerLooks
	r.look()
	r.mu.Unlock()
	if waits(r) {
		t.Error("it waits")
	}
}

// What follows may be a shell that edits its next line.
func TestAnAnswerIsDroppedIfAnotherProgramHasComeToTheForeground(t *testing.T) {
	r, slave := newResponder(t)
	ask(t, r, "\x1b[6n")
	r.mu.Lock()
	r.asked--
	r.mu.Unlock()
	raw(t, slave)
	r.lookAgain()
	if waits(r) {
		t.Error("it waits")
	}
	r.read([]byte("\x1b[c"))
	buffer := make([]byte, 100)
	if n, err := slave.Read(buffer); string(buffer[:n]) != "\x1b[?1;2c" {
		t.Errorf("%q, %v", buffer[:n], err)
	}
}

func TestAnAnswerIsNotGivenToAnotherProgramThatAsks(t *testing.T) {
	r, _ := newResponder(t)
	ask(t, r, "\x1b[6n")
	r.mu.Lock()
	r.asked--
	r.mu.Unlock()
	ask(t, r, "\x1b[c")
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes.Contains(r.waiting, []byte("R")) {
		t.Errorf("%q waits", r.waiting)
	}
	r.waiting, r.looks = nil, answerLooks // the timer ends
}

func TestAnswersAreCountedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &responder{}
		for i := range 3*MaxAnswers + 1 {
			switch {
			case i == 2*MaxAnswers:
				time.Sleep(time.Second)
			case i == MaxAnswers:
				time.Sleep(time.Second - 1)
			}
			if may := r.may(); may != (i < MaxAnswers || i >= 2*MaxAnswers && i < 3*MaxAnswers) {
				t.Errorf("answer %d: %v", i, may)
			}
		}
	})
}

// A file full of requests must not fill the input.
func TestAnswersOfASecondAreBounded(t *testing.T) {
	r, slave := newResponder(t)
	raw(t, slave)
	const answer = "\x1b[1;1R"
	r.since = time.Now().Add(time.Hour) // the second does not end
	r.read(bytes.Repeat([]byte("\x1b[6n"), 10*MaxAnswers))
	r.since = time.Time{} // it has ended
	r.read([]byte("\x1b[c"))
	var got []byte
	buffer := make([]byte, 4096)
	for !bytes.HasSuffix(got, []byte("\x1b[?1;2c")) {
		n, err := slave.Read(buffer)
		if got = append(got, buffer[:n]...); err != nil {
			t.Fatal(err)
		}
	}
	if n := bytes.Count(got, []byte(answer)); n != MaxAnswers {
		t.Errorf("%d answers, want %d", n, MaxAnswers)
	}
}

// An answer that waits behind other input goes out under the mode of that moment.
func TestAnAnswerThatComesToTheFrontInLineModeIsNotGiven(t *testing.T) {
	r, _ := newResponder(t)
	taken := make(chan int, 1)
	r.input.add(&inputItem{bytes: []byte("x"), rest: []byte("x"), answer: true, done: func(of Taken, _ error) { taken <- of.Bytes }})
	if n := <-taken; n != 0 {
		t.Errorf("%d bytes were taken", n)
	}
}
