package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
)

// typed reads standard input in a goroutine. A chunk is the result of one read.
func typed() <-chan []byte {
	chunks := make(chan []byte, 16)
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

// press gives the pending keys to the command in front. Before its program runs, and during a wait, only Ctrl-C acts.
func (h *host) press() {
	if at := bytes.IndexByte(h.pending, ctrlC); h.stopWait != nil && at >= 0 {
		h.pending = h.pending[at+1:]
		h.stopWait()
	}
	for h.front != nil && len(h.pending) > 0 {
		j := h.front
		at := bytes.IndexByte(h.pending, ctrlC)
		if !h.single && j.id != 0 {
			at = bytes.IndexAny(h.pending, string([]byte{ctrlC, ctrlZ}))
		}
		switch {
		case j.id == 0 && at < 0:
			return
		case j.id == 0:
			h.pending = h.pending[at+1:]
			h.cancel(j)
			continue
		case at < 0:
			at = len(h.pending)
		case at == 0:
			at = 1 // alone, so that it overtakes what the command has not read
		}
		keys := h.pending[:at]
		if h.pending = h.pending[at:]; keys[0] == ctrlZ && !h.single {
			h.toBack()
		} else {
			h.send(j, bytes.Clone(keys))
		}
	}
}

// send sends keys. It is no failure if the command has ended meanwhile.
func (h *host) send(j *job, keys []byte) {
	_, err := h.session.Write(context.Background(), messages.WriteStdin{Process: j.id, Bytes: keys, NoWait: true,
		Patience: new(time.Duration(math.MaxInt64))})
	if errors.Is(err, messages.ErrInputFull) {
		h.terminal.show([]byte("\a")) // it does not read
	}
}

const (
	prompt     = "demo> "
	morePrompt = "  ... " // the line belongs to the script that was pasted
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
)

// mostCharacters is how many the editor takes of a line. It drops the rest, and the beginning alone must not run.
const mostCharacters = 4096

// errStopped ends the editing of a line that is to be shown anew, or of the last one.
var errStopped = errors.New("the line is no longer edited")

// errInterrupted is Ctrl-C.
var errInterrupted = errors.New("interrupted")

// readLine reads a line, or several that are pasted at once. Each line has an editor of its own. If a question interrupts it,
// another editor gets the same keys again.
func (h *host) readLine() (script string, ok bool) {
	h.pending, h.typed = append(h.typed, h.pending...), nil
	h.line = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{lineKeys{h}, h.terminal.out}, prompt)
	if h.past == nil {
		h.past = history{h.line.History}
	}
	h.line.History = h.past
	h.lineSize()
	if h.terminal.pastes {
		h.line.SetBracketedPasteMode(true)
	}
	for tooLong := false; ; {
		line, err := h.line.ReadLine()
		if errors.Is(err, errStopped) {
			return "", false
		}
		tooLong = tooLong || utf8.RuneCountInString(line) >= mostCharacters
		if script += line; errors.Is(err, term.ErrPasteIndicator) {
			script += "\n"
			h.line.SetPrompt(morePrompt)
			continue
		}
		if h.terminal.pastes {
			h.line.SetBracketedPasteMode(false)
		}
		h.line, h.typed = nil, nil
		switch {
		case errors.Is(err, errInterrupted):
			h.print("^C\n")
			return "", false
		case err != nil: // Ctrl-D on an empty line
			h.print("\n")
			h.quit(0)
			return "", false
		case tooLong:
			h.note("demo: a line of %d characters or more is too long, so nothing of this runs; put it into a file", mostCharacters)
			return "", false
		}
		return script, true
	}
}

func (h *host) lineSize() {
	size := h.terminal.size().OrDefault()
	_ = h.line.SetSize(int(size.Cols), int(size.Rows)) // if the terminal is gone, the next write fails
}

// lineKeys is the input of the editor: no key behind the end of the line, and Ctrl-C and Ctrl-Z not at all.
type lineKeys struct{ *host }

// Read implements io.Reader. Meanwhile the host does what else there is to do.
func (h lineKeys) Read(p []byte) (int, error) {
	editor := h.line
	for {
		h.pending = bytes.TrimLeft(h.pending, string(rune(ctrlZ)))
		if len(h.pending) > 0 {
			break
		}
		if h.await(); h.line != editor {
			return 0, errStopped
		}
	}
	n := min(len(p), len(h.pending))
	if at := bytes.IndexAny(h.pending[:n], "\r\n\x03\x1a"); at >= 0 {
		n = max(at, 1)
		if at == 0 && h.pending[0] == ctrlC {
			h.pending = h.pending[1:]
			return 0, errInterrupted
		}
	}
	n = copy(p, h.pending[:n])
	h.pending, h.typed = h.pending[n:], append(h.typed, p[:n]...)
	return n, nil
}

// history is that of the editor, without empty lines.
type history struct{ term.History }

func (h history) Add(line string) {
	if strings.TrimSpace(line) != "" {
		h.History.Add(line)
	}
}
