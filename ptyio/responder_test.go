//go:build linux

package ptyio

import (
	"bytes"
	"os"
	"strings"
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
	if len(r.waiting) != 1 || r.waiting[0].text != "\x1b[?1;2c" {
		t.Errorf("%v waits", r.waiting)
	}
	r.waiting, r.looks = nil, answerLooks // the timer ends
}

// reads is what the program gets, as long as it is a beginning of what it should get.
func reads(t *testing.T, slave *os.File, want string) {
	t.Helper()
	var got []byte
	buffer := make([]byte, 100)
	for string(got) != want {
		n, err := slave.Read(buffer)
		if got = append(got, buffer[:n]...); err != nil || !strings.HasPrefix(want, string(got)) {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
}

// A viewer of the screen says where the cursor is, once, and later answers wait for that.
func TestThePositionIsThatOfWhoSeesTheScreen(t *testing.T) {
	r, slave := newResponder(t)
	raw(t, slave)
	r.watch(true)
	r.read([]byte("ab\x1b[6"))
	r.read([]byte("n\x1b[c\x1b[6n"))
	if !waits(r) {
		t.Fatal("no answer waits for the position")
	}
	r.place([]messages.CursorPosition{{Offset: 5, Row: 9, Col: 9}, {Offset: 13, Row: 4, Col: 5}, {Offset: 14, Row: 9, Col: 9}}) // the second, and two that nobody asked
	if !waits(r) {
		t.Fatal("an answer came before the one before it")
	}
	r.place([]messages.CursorPosition{{Offset: 9, Row: 9, Col: 9}, {Offset: 13, Row: 9, Col: 9}}) // no position was asked there, and one is said
	r.place([]messages.CursorPosition{{Offset: 6, Row: 2, Col: 3}})
	r.place([]messages.CursorPosition{{Offset: 6, Row: 9, Col: 9}, {Offset: 13, Row: 9, Col: 9}}) // it is answered
	reads(t, slave, "\x1b[2;3R\x1b[?1;2c\x1b[4;5R")
	r.read([]byte("\x1b[6n"))
	r.watch(false) // nobody will say it
	reads(t, slave, "\x1b[1;1R")
	r.read([]byte("\x1b[6n"))
	reads(t, slave, "\x1b[1;1R")
}

// A position is never more than two numbers, and a program that nobody tells it gets the usual one.
func TestAPositionThatNobodySaysIsTheUsualOne(t *testing.T) {
	r, slave := newResponder(t)
	raw(t, slave)
	r.watch(true)
	r.read([]byte("\x1b[6n"))
	r.mu.Lock()
	if len(r.waiting) != 1 || time.Until(r.waiting[0].due) > placePatience || r.held == nil || !r.held.Stop() {
		t.Fatalf("%v, %v", r.waiting, r.held)
	}
	r.waiting[0].due = time.Now()
	r.mu.Unlock()
	r.lookAgain()
	r.place([]messages.CursorPosition{{Offset: 4, Row: 7, Col: 7}}) // too late
	r.read([]byte("\x1b[c"))
	reads(t, slave, "\x1b[1;1R\x1b[?1;2c")
}

// What waits for a program that is not in the foreground any more is not given to the next one.
func TestAPositionIsNotGivenToAnotherProgram(t *testing.T) {
	r, slave := newResponder(t)
	raw(t, slave)
	r.watch(true)
	r.read([]byte("\x1b[6n"))
	r.mu.Lock()
	r.asked--
	r.mu.Unlock()
	r.read([]byte("\x1b[6n"))
	r.place([]messages.CursorPosition{{Offset: 4, Row: 9, Col: 9}, {Offset: 8, Row: 0, Col: 65535}})
	reads(t, slave, "\x1b[1;65535R")
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
