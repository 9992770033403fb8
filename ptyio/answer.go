package ptyio

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/execbus/execbus/messages"
)

// MaxAnswers bounds how many requests in a second a terminal answers.
const MaxAnswers = 100

// positionRequest asks where the cursor is.
const positionRequest = "\x1b[6n"

// terminalAnswers has what programs ask a terminal, and what a terminal without a person says: the cursor is at the top left, it is a
// VT100 with advanced video, and it shows white on black. No answer ends a line or is a request itself.
var terminalAnswers = []struct{ request, answer string }{
	{positionRequest, "\x1b[1;1R"},
	{"\x1b[c", "\x1b[?1;2c"}, {"\x1b[0c", "\x1b[?1;2c"},
	{"\x1b[>c", "\x1b[>0;0;0c"}, {"\x1b[>0c", "\x1b[>0;0;0c"},
	{"\x1b]10;?\x07", "\x1b]10;rgb:ffff/ffff/ffff\x07"}, {"\x1b]10;?\x1b\\", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"},
	{"\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"}, {"\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"},
}

// A program that can read an answer has left line mode. Some leave it only after they have asked, so an answer waits for that.
const (
	answerLooks    = 50
	answerPause    = 5 * time.Millisecond
	answerPatience = time.Second     // for an answer behind input that the program does not read
	placePatience  = 5 * time.Second // for those who see the screen, to say where the cursor is; most take a thirtieth
)

// Watched is a Child whose terminal can be answered for by those who see its screen. Its methods return at once.
type Watched interface {
	// Watch says whether somebody sees the screen. If so, requests for the position of the cursor wait up to five seconds for Place.
	Watch(watched bool)
	// Place says where the cursor was after so many bytes of output. What nobody has asked, or what is answered, is ignored.
	Place(positions []messages.CursorPosition)
}

// Watch implements Watched.
func (c *child) Watch(watched bool) {
	if c.responder != nil {
		c.responder.watch(watched)
	}
}

// Place implements Watched.
func (c *child) Place(positions []messages.CursorPosition) {
	if c.responder != nil {
		c.responder.place(positions)
	}
}

// reply is an answer that has not gone out.
type reply struct {
	text string
	at   int64     // bytes of output, with the request
	due  time.Time // until when it waits for a position; zero if it does not
}

// responder answers requests in a terminal's output.
type responder struct {
	input *input

	// These belong to the reader of the output.
	rest  []byte    // the beginning of a request, at the end of what was read last
	total int64     // bytes that were read
	since time.Time // when the answers were counted from
	count int

	// The reader adds answers, those who see the screen say positions, and a timer looks whether the answers can go out.
	mu      sync.Mutex
	waiting []reply
	asked   int         // the foreground group that has asked
	looks   int         // since then
	watched bool        // somebody sees the screen
	held    *time.Timer // looks when the first answer has waited for its position long enough; nil if it does not wait for that
}

// read looks for requests in output.
func (r *responder) read(output []byte) {
	r.total += int64(len(output))
	if len(r.rest) > 0 {
		output, r.rest = append(r.rest, output...), nil
	}
	var said []reply
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
			said = append(said, reply{text: answer, at: r.total - int64(len(output)-length)})
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
func (r *responder) say(said []reply) {
	group, err := foregroundGroup(r.input.file)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != group {
		r.release()
		r.waiting = nil
	}
	if r.watched {
		for i := range said {
			if said[i].text == terminalAnswers[0].answer {
				said[i].due = time.Now().Add(placePatience)
			}
		}
	}
	first := len(r.waiting) == 0
	r.waiting, r.asked, r.looks = append(r.waiting, said...), group, 0
	if first {
		r.look()
	}
}

// release reports whether the first answer waited for its position, and was not due. Somebody must look then. The caller holds the lock.
func (r *responder) release() bool {
	held := r.held != nil && r.held.Stop()
	r.held = nil
	return held
}

func (r *responder) watch(watched bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watched = watched; watched {
		return
	}
	for i := range r.waiting {
		r.waiting[i].due = time.Time{}
	}
	if r.release() {
		r.look()
	}
}

func (r *responder) place(positions []messages.CursorPosition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.waiting {
		w := &r.waiting[i]
		for _, p := range positions {
			if p.Offset == w.at && !w.due.IsZero() {
				w.text, w.due = fmt.Sprintf("\x1b[%d;%dR", max(p.Row, 1), max(p.Col, 1)), time.Time{}
			}
		}
	}
	if r.release() {
		r.look()
	}
}

// look writes the answers if a program can read them. As long as the terminal is in line mode they would become the beginning of the next
// line, perhaps of a shell's command, so they wait. They are dropped if another program has come to the foreground. An answer that waits
// for its position holds up those behind it. The caller holds the lock.
func (r *responder) look() {
	group, err := foregroundGroup(r.input.file)
	mode, failed := readDiscipline(r.input.file)
	r.looks++
	switch {
	case err != nil || failed != nil || group != r.asked || r.looks > answerLooks:
	case mode.on:
		time.AfterFunc(answerPause, r.lookAgain)
		return
	default:
		now := time.Now()
		var out []byte
		for len(r.waiting) > 0 && !r.waiting[0].due.After(now) {
			out, r.waiting = append(out, r.waiting[0].text...), r.waiting[1:]
		}
		if len(out) > 0 {
			r.input.add(&inputItem{bytes: out, rest: out, answer: true, deadline: now.Add(answerPatience), done: func(Taken, error) {}})
		}
		if len(r.waiting) > 0 {
			r.looks = 0
			r.held = time.AfterFunc(r.waiting[0].due.Sub(now), r.lookAgain)
			return
		}
	}
	r.waiting = nil
}

func (r *responder) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = nil
	r.look()
}
