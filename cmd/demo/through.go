package main

import (
	"bytes"
	"errors"
)

// aim is where keys go while there is no question.
type aim struct {
	prompt  string
	probe   *probe      // of the job; nil if there is nothing to look at
	job     *job        // the job in front; nil if there is none
	reads   bool        // the job gets the line
	dir     string      // where commands run
	columns int         // of the window; zero: unknown
	pass    *keyPassage // not nil: the job gets every key
}

// keyPassage tells the host what happens while a command gets every key. The keyboard calls its functions.
type keyPassage struct {
	to    func(keys []byte)
	begin func(ahead string) // the editor has released the terminal
	leave func()             // Ctrl-] was typed
}

// errPassing ends the editing of a line because a command gets every key.
var errPassing = errors.New("a command gets every key")

// point changes the aim. Only the host's loop calls it, and it does not wait.
func (k *keyboard) point(a aim) {
	select {
	case <-k.aims: // replace an aim that has not been taken yet
	default:
	}
	k.aims <- a
}

// turn takes a new aim.
func (k *keyboard) turn(a aim) {
	shown := k.aim.prompt
	k.aim = a
	if a.pass == nil && k.state == typing && a.prompt != shown {
		k.prompt(a.prompt)
	}
}

// through gives a command every key until there is another aim. The editor shows nothing meanwhile.
func (k *keyboard) through() {
	pass := k.aim.pass
	ahead := k.ahead + string(k.early)
	k.ahead, k.early, k.paste = "", nil, paste{}
	pass.begin(fromMarks(ahead))
	leaving := false
	for k.aim.pass == pass {
		chunks := k.chunks
		if leaving {
			chunks = nil // the next reader gets the chunk
		}
		select {
		case k.aim = <-k.aims:
		case chunk, open := <-chunks:
			if !open {
				k.aim.pass = nil // this also tells the editor
				break
			}
			keys, _, left := bytes.Cut(chunk, []byte{leaveKey})
			pass.to(keys)
			if leaving = left; left {
				pass.leave()
			}
		}
	}
	k.state = typing
	k.line, k.pos = "", 0
	k.editor.SetPrompt(k.aim.prompt)
}
