package main

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/execbus/execbus/messages"
)

// keyboard is the editor's input. It delivers Ctrl-C as an ordinary key. A question takes the keyboard away from the line
// that is being typed, and gives it back when it is over. The goroutine that reads lines owns all of it.
type keyboard struct {
	chunks <-chan []byte // typed keys; closed at the end of the input
	asks   <-chan *asked
	out    io.Writer // the terminal
	editor editor
	aim    aim  // where keys go while there is no question
	once   bool // reading ends with the question
	paste  paste

	aims   chan aim                  // of size one: the newest replaces an older one
	hurry  func(j *job)              // a job hides what is typed, or wants each key; nil: there are no jobs
	submit func(text string, j *job) // a line for a job that reads
	back   func()                    // Ctrl-Z
	end    func()                    // Ctrl-D on an empty line; nil: that ends the reading of lines
	early  []byte                    // keys typed for a job that wants each key
	ahead  string                    // text on the line when a job began to get every key
	lineTo *job                      // the job that was reading when the line was begun

	waiting []byte // keys to read next
	asked   *asked // nil: no question
	state   keyState
	quiet   <-chan time.Time
	line    string // text that was being typed when the question came
	pos     int
}

// keyState says where keys go.
type keyState int

const (
	typing     keyState = iota // to the line, even if a question is shown
	choosing                   // to the question
	explaining                 // to a line with the reason for a rejection
	passing                    // to a command, key by key
)

// Stand-ins for keys, for the editor. The terminal package would treat Ctrl-C as the end of the input.
const (
	interruptKey = 0x1f
	switchKey    = 0x1e // the state has changed
	submitKey    = 0x1d // the line is for a job
	endKey       = 0x1c // Ctrl-D
)

// quietTime is how long the keyboard must be quiet before keys count as answers. Otherwise a person could approve by a word
// that they were typing when the question came.
const quietTime = 500 * time.Millisecond

// typed reads standard input in a goroutine. A chunk is the result of one read.
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
		if k.state == passing {
			return 0, errPassing
		}
		if k.aim.pass != nil && k.asked == nil && k.state == typing {
			k.change(passing)
			break
		}
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
			select {
			case a := <-k.aims: // it came before the keys
				k.turn(a)
			default:
			}
			k.take(chunk)
		case a := <-k.aims:
			k.turn(a)
		case k.asked = <-asks:
			k.write(k.asked.show(k.aim.columns))
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
	case k.state == typing && k.secret(chunk):
	default:
		k.quiet = time.After(quietTime)
		text, tooLong := k.paste.take(chunk)
		if tooLong {
			k.write("The pasted text is too long for a line and was dropped: put it into a file.\n")
		}
		k.waiting = k.translate(text)
	}
}

// secret keeps keys for a job that hides them or wants each of them. The loop may not know that about the job yet.
func (k *keyboard) secret(chunk []byte) bool {
	j := k.aim.job
	if j == nil || k.aim.probe == nil || k.hurry == nil {
		return false
	}
	if modes := k.aim.probe.modes(); !modes.hidden && !modes.raw {
		k.early = nil
		return false
	}
	k.early = append(k.early, chunk...)
	k.hurry(j)
	return true
}

// translate replaces keys that the editor would misunderstand.
func (k *keyboard) translate(text []byte) []byte {
	for i, key := range text {
		switch key {
		case 0x03:
			text[i] = interruptKey
		case 0x04:
			if k.end != nil && k.state == typing {
				text[i] = endKey
			}
		case '\r', '\n':
			if k.aim.reads && k.state == typing {
				text[i] = submitKey
			}
		case interruptKey, switchKey, submitKey, endKey: // drop the real keys, such as Ctrl-_: these codes are taken
			text[i] = 0
		}
	}
	return text
}

// choose takes one key as an answer. Several bytes at once are a paste, or a key such as an arrow.
func (k *keyboard) choose(chunk []byte) {
	kind, found := k.asked.choice(chunk[0])
	switch {
	case len(chunk) == 1 && chunk[0] == '?':
		k.write(k.asked.showAll())
	case len(chunk) > 1 || !found:
		k.write(k.asked.again(k.aim.columns))
	case kind == messages.DecisionDenied:
		k.change(explaining)
	default:
		k.answer(messages.Decision{Kind: kind})
	}
}

// explained takes a line as the reason for a rejection, if that was asked for.
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

// change makes the editor show another line. It needs a key to do so, and gets one of ours.
func (k *keyboard) change(to keyState) {
	if k.state == explaining {
		k.editor.SetPrompt(k.aim.prompt)
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
	case passing:
		k.ahead = line
		k.prompt("")
		return "", 0
	default:
		k.prompt(k.aim.prompt)
		return k.line, k.pos
	}
}

// prompt changes the prompt and shows it.
func (k *keyboard) prompt(text string) {
	k.editor.SetPrompt(text)
	k.write("")
}

// write ignores errors: if the terminal is gone, SIGHUP or the end of the input ends this process.
func (k *keyboard) write(text string) { _, _ = k.editor.Write([]byte(text)) }
