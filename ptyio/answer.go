package ptyio

import (
	"bytes"
	"sync"
	"time"
)

// MaxAnswers bounds how many requests in a second a terminal answers.
const MaxAnswers = 100

// terminalAnswers has what programs ask a terminal, and what a terminal without a person says: the cursor is at the top left, it is a
// VT100 with advanced video, and it shows white on black. No answer ends a line or is a request itself.
var terminalAnswers = []struct{ request, answer string }{
	{"\x1b[6n", "\x1b[1;1R"},
	{"\x1b[c", "\x1b[?1;2c"}, {"\x1b[0c", "\x1b[?1;2c"},
	{"\x1b[>c", "\x1b[>0;0;0c"}, {"\x1b[>0c", "\x1b[>0;0;0c"},
	{"\x1b]10;?\x07", "\x1b]10;rgb:ffff/ffff/ffff\x07"}, {"\x1b]10;?\x1b\\", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"},
	{"\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"}, {"\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"},
}

// A program that can read an answer has left line mode. Some leave it only after they have asked, so an answer waits for that.
const (
	answerLooks    = 50
	answerPause    = 5 * time.Millisecond
	answerPatience = time.Second // for an answer behind input that the program does not read
)

// responder answers requests in a terminal's output.
type responder struct {
	input *input

	// These belong to the reader of the output.
	rest  []byte    // the beginning of a request, at the end of what was read last
	since time.Time // when the answers were counted from
	count int

	// The reader adds answers, and a timer looks whether they can go out.
	mu      sync.Mutex
	waiting []byte
	asked   int // the foreground group that has asked
	looks   int // since then
}

// read looks for requests in output.
func (r *responder) read(output []byte) {
	if len(r.rest) > 0 {
		output, r.rest = append(r.rest, output...), nil
	}
	var said []byte
	for {
		i := bytes.IndexByte(output, '\x1b')
		if i < 0 {
			break
		}
		output = output[i:]
		answer, length := match(output)
		if length > len(output) {
			r.rest = bytes.Clone(output)
			break
		}
		if answer != "" && r.may() {
			said = append(said, answer...)
		}
		output = output[length:]
	}
	if len(said) > 0 {
		r.say(said)
	}
}

// match finds the request with which output begins, and returns its answer and its length. If output may be the beginning of one, the
// length is greater than that of output. If there is none, the length is 1.
func match(output []byte) (answer string, length int) {
	for _, a := range terminalAnswers {
		n := min(len(a.request), len(output))
		if string(output[:n]) == a.request[:n] {
			if n < len(a.request) {
				return "", len(a.request)
			}
			return a.answer, n
		}
	}
	return "", 1
}

// may counts an answer, and reports whether it may be given.
func (r *responder) may() bool {
	if now := time.Now(); now.Sub(r.since) >= time.Second {
		r.since, r.count = now, 0
	}
	r.count++
	return r.count <= MaxAnswers
}

// say gives answers to the program that has asked.
func (r *responder) say(said []byte) {
	group, err := foregroundGroup(r.input.file)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != group {
		r.waiting = nil
	}
	first := len(r.waiting) == 0
	r.waiting, r.asked, r.looks = append(r.waiting, said...), group, 0
	if first {
		r.look()
	}
}

// look writes the answers if a program can read them. As long as the terminal is in line mode they would become the beginning of the next
// line, perhaps of a shell's command, so they wait. They are dropped if another program has come to the foreground. The caller holds the
// lock.
func (r *responder) look() {
	group, err := foregroundGroup(r.input.file)
	mode, failed := readDiscipline(r.input.file)
	r.looks++
	switch {
	case err != nil || failed != nil || group != r.asked || r.looks > answerLooks:
	case mode.on:
		time.AfterFunc(answerPause, r.lookAgain)
		return
	case len(r.waiting) > 0:
		r.input.add(&inputItem{bytes: r.waiting, rest: r.waiting, answer: true, deadline: time.Now().Add(answerPatience), done: func(Taken, error) {}})
	}
	r.waiting = nil
}

func (r *responder) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
}
