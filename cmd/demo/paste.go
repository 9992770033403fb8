package main

import (
	"bytes"
	"strings"
)

// A terminal puts marks around pasted text, so that a pasted loop is one command: its newlines do not enter it. The line shows
// them as signs. The arrow keys can move over these, and they become newlines again.
const (
	newlineMark = '⏎'
	tabMark     = '⇥'
)

var (
	marks   = strings.NewReplacer("\r\n", string(newlineMark), "\n", string(newlineMark), "\r", string(newlineMark), "\t", string(tabMark))
	unmarks = strings.NewReplacer(string(newlineMark), "\n", string(tabMark), "\t")
)

func toMarks(text string) string { return marks.Replace(text) }

func fromMarks(text string) string { return unmarks.Replace(text) }

var (
	pasteBegins = []byte("\x1b[200~")
	pasteEnds   = []byte("\x1b[201~")
)

// longestPaste bounds a paste, in bytes; the editor takes 4,096 characters.
const longestPaste = 4000

// paste removes the marks from typed input.
type paste struct {
	open bool
	text []byte // of an open paste
	part []byte // the beginning of a mark
}

// take returns keys for the editor. The end of a paste may come in a later chunk.
func (p *paste) take(chunk []byte) (keys []byte, tooLong bool) {
	chunk = append(p.part, chunk...)
	p.part = nil
	for {
		mark := pasteBegins
		if p.open {
			mark = pasteEnds
		}
		before, after, found := bytes.Cut(chunk, mark)
		if !found {
			if n := partial(chunk, mark); n > 1 || p.open { // a bare escape is a key
				before, p.part = chunk[:len(chunk)-n], bytes.Clone(chunk[len(chunk)-n:])
			}
		}
		if !p.open {
			keys = append(keys, before...)
		} else {
			p.text = append(p.text, before...)
			if len(p.text) > longestPaste {
				p.text, tooLong = p.text[:longestPaste+1], true
			}
		}
		if !found {
			return keys, tooLong && !p.open
		}
		if p.open && len(p.text) <= longestPaste {
			keys = append(keys, pasted(p.text)...)
			tooLong = false
		}
		p.open, p.text, chunk = !p.open, nil, after
	}
}

// partial returns how many bytes at the end of a chunk are the beginning of a mark.
func partial(chunk, mark []byte) int {
	for n := min(len(chunk), len(mark)-1); n > 0; n-- {
		if bytes.HasSuffix(chunk, mark[:n]) {
			return n
		}
	}
	return 0
}

// pasted makes pasted text suitable for a line.
func pasted(text []byte) string {
	line := toMarks(strings.TrimRight(string(text), "\r\n"))
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, line)
}
