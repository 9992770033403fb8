package main

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/execbus/execbus/messages"
)

// keyboard is what the editor reads: keys, with Ctrl-C as an ordinary one. A question takes the keyboard away from the line
// that is being typed, and gives it back when it is over. The goroutine that reads lines owns all of it.
type keyboard struct {
	chunks <-chan []byte // what was typed; closed at its end
	asks   <-chan *asked
	out    io.Writer // the terminal
	editor editor
	idle   string // the prompt while there is no question
	once   bool   // nothing more is read when the question is over

	waiting []byte // that is read next
	asked   *asked // nil: no question
	state   keyState
	quiet   <-chan time.Time
	line    string // that was being typed when the question came
	pos     int
}

// keyState says where keys go.
type keyState int

const (
	typing     keyState = iota // to the line, even if a question is shown
	choosing                   // to the question
	explaining                 // to a line that says why not
)

// Keys that nobody can press, for the editor. The terminal package would take Ctrl-C for the end of the input.
const (
	interruptKey = 0x1f
	switchKey    = 0x1e // the state has changed
)

// quietTime is how long no key must have been pressed before keys are taken for answers: nobody is to approve by a word that
// they were typing when the question came.
const quietTime = 500 * time.Millisecond

// typed reads standard input in a goroutine. A chunk is what was there at once.
func typed() <-chan []byte {
	chunks := make(chan []byte)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 4<<10)
			n, err := os.Stdin.Read(buffer)
			if n > 0 {
				chunks <- buffer[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return chunks
}

// Read implements io.Reader for the editor.
func (k *keyboard) Read(p []byte) (int, error) {
	for len(k.waiting) == 0 {
		asks, over := k.asks, (<-chan struct{})(nil)
		if k.asked != nil {
			asks, over = nil, k.asked.over
		} else if k.once && k.quiet != nil {
			return 0, io.EOF
		}
		select {
		case chunk, open := <-k.chunks:
			if !open {
				return 0, io.EOF
			}
			k.take(chunk)
		case k.asked = <-asks:
			k.write(k.asked.show())
			k.quiet = time.After(quietTime)
		case <-k.quiet:
			if k.asked != nil && k.state == typing {
				k.change(choosing)
			}
		case <-over:
			k.write(string(k.asked.ID) + ": the question is over: nobody waits for the answer any more\n")
			k.forget()
		}
	}
	n := copy(p, k.waiting)
	k.waiting = k.waiting[n:]
	return n, nil
}

// take sends keys where they belong.
func (k *keyboard) take(chunk []byte) {
	switch {
	case k.asked != nil && bytes.IndexByte(chunk, 0x03) >= 0:
		k.answer(messages.Decision{Kind: messages.DecisionAborted})
	case k.state == choosing:
		k.choose(chunk)
	default:
		k.quiet = time.After(quietTime)
		for i, key := range chunk {
			switch key {
			case 0x03:
				chunk[i] = interruptKey
			case interruptKey, switchKey: // Ctrl-_ and Ctrl-^
				chunk[i] = 0 // means nothing
			}
		}
		k.waiting = chunk
	}
}

// choose takes one key for an answer. More at once are pasted, or a key such as an arrow.
func (k *keyboard) choose(chunk []byte) {
	kind, found := k.asked.choice(chunk[0])
	switch {
	case len(chunk) > 1 || !found:
		k.write(k.asked.show())
	case kind == messages.DecisionDenied:
		k.change(explaining)
	default:
		k.answer(messages.Decision{Kind: kind})
	}
}

// explained takes a line for the word why, if it is one.
func (k *keyboard) explained(text string) bool {
	if k.state != explaining {
		return false
	}
	k.answer(messages.Decision{Kind: messages.DecisionDenied, Rejection: text})
	return true
}

func (k *keyboard) answer(d messages.Decision) {
	k.asked.answer <- d
	k.write(answered(k.asked.ID, d) + "\n")
	k.forget()
}

// forget gives the keyboard back to the line.
func (k *keyboard) forget() {
	k.asked = nil
	if k.state != typing {
		k.change(typing)
	}
}

// change has the editor show another line: the next key that it reads is ours.
func (k *keyboard) change(to keyState) {
	if k.state == explaining {
		k.editor.SetPrompt(k.idle)
	}
	k.state = to
	k.waiting = []byte{switchKey}
}

// switched is called by the editor for switchKey, with the line as it is. It returns the line that takes its place.
func (k *keyboard) switched(line string, pos int) (string, int) {
	switch k.state {
	case choosing:
		k.line, k.pos = line, pos
		k.prompt(k.asked.keys())
		return "", 0
	case explaining:
		k.prompt("why not? ")
		return "", 0
	default:
		k.prompt(k.idle)
		return k.line, k.pos
	}
}

// prompt changes what stands in front of the line, and shows it.
func (k *keyboard) prompt(text string) {
	k.editor.SetPrompt(text)
	k.write("")
}

// write ignores errors: a terminal that is gone ends us by SIGHUP or by the end of its input.
func (k *keyboard) write(text string) { _, _ = k.editor.Write([]byte(text)) }
