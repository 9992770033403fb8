package main

import (
	"io"
	"os"
)

// keyboard is the editor's input. It delivers Ctrl-C as an ordinary key. A question takes the keyboard away from the line
// that is being typed, and gives it back when it is over. The goroutine that reads lines owns all of it.
type keyboard struct {
	chunks   <-chan []byte // typed keys; closed at the end of the input
	asks     <-chan *asked
	terminal *terminal
	out      io.Writer // the terminal
	editor   editor
	aim      aim // where keys go while there is no question
	paste    paste

	aims   chan aim                  // of size one: the newest replaces an older one
	hurry  func(j *job)              // a job hides what is typed, or wants each key; nil: there are no jobs
	submit func(text string, j *job) // a line for a job that reads
	pause  func() (resume func())    // keeps output off the terminal
	back   func()                    // Ctrl-Z
	end    func()                    // Ctrl-D on an empty line; nil: that ends the reading of lines
	early  []byte                    // keys typed for a job that wants each key
	ahead  string                    // text on the line when a job began to get every key
	lineTo *job                      // the job that was reading when the line was begun

	waiting []byte // keys to read next
	asked   *asked // nil: no question
	state   keyState
	line    string // text that was being typed when the question came
	pos     int
}

// keyState says where keys go.
type keyState int

const (
	typing  keyState = iota // to the line
	passing                 // to a question, or key by key to a command
)

// Stand-ins for keys, for the editor. The terminal package would treat Ctrl-C as the end of the input.
const (
	interruptKey = 0x1f
	switchKey    = 0x1e // the state has changed
	submitKey    = 0x1d // the line is for a job
	endKey       = 0x1c // Ctrl-D
)

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
		if k.aim.pass != nil {
			k.change(passing)
			break
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
		case k.asked = <-k.asks:
			k.change(passing)
		}
	}
	n := copy(p, k.waiting)
	k.waiting = k.waiting[n:]
	return n, nil
}

// take sends keys where they belong.
func (k *keyboard) take(chunk []byte) {
	if k.secret(chunk) {
		return
	}
	text, tooLong := k.paste.take(chunk)
	if tooLong {
		k.write("The pasted text is too long for a line and was dropped: put it into a file.\n")
	}
	k.waiting = k.translate(text)
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
			if k.end != nil {
				text[i] = endKey
			}
		case '\r', '\n':
			if k.aim.reads {
				text[i] = submitKey
			}
		case interruptKey, switchKey, submitKey, endKey: // drop the real keys, such as Ctrl-_: these codes are taken
			text[i] = 0
		}
	}
	return text
}

// change makes the editor show another line. It needs a key to do so, and gets one of ours.
func (k *keyboard) change(to keyState) {
	k.state = to
	k.waiting = []byte{switchKey}
}

// switched is called by the editor for switchKey, with the line as it is. It returns the line that takes its place.
func (k *keyboard) switched(line string, pos int) (string, int) {
	switch k.state {
	case passing:
		if k.asked != nil {
			k.line, k.pos = line, pos
		} else {
			k.ahead = line
		}
		k.prompt("")
		return "", 0
	default:
		k.prompt(k.aim.prompt)
		return k.line, k.pos
	}
}

// ask puts a question while the editor has released the terminal. All output waits. The line that was being typed is there again
// afterwards; keys that were typed meanwhile are not.
func (k *keyboard) ask() {
	resume := k.pause()
	k.asked.put(k.terminal, k.chunks, k.out)
	k.asked = nil
	resume()
	k.editor.SetPrompt(k.aim.prompt)
	k.change(typing)
}

// prompt changes the prompt and shows it.
func (k *keyboard) prompt(text string) {
	k.editor.SetPrompt(text)
	k.write("")
}

// write ignores errors: if the terminal is gone, SIGHUP or the end of the input ends this process.
func (k *keyboard) write(text string) { _, _ = k.editor.Write([]byte(text)) }
