package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// Terminal is a terminal with a person. Its methods must not be called at the same time.
type Terminal struct {
	Name string        // the program that asks
	Keys <-chan []byte // what is typed, in the pieces in which it was read; closed at the end
	Out  io.Writer
	Size func() messages.Size
	// Drop drops what was typed and not read; nil means that there is nothing to drop.
	Drop func()
	// Offer are the answers that make sense; nil means all.
	Offer []messages.DecisionKind
}

// The times without input before and behind a key that answers.
const (
	quietTime = 500 * time.Millisecond
	aloneTime = 100 * time.Millisecond
)

// answers has the keys that answer, in the order in which they are shown.
var answers = []struct {
	key  byte
	kind messages.DecisionKind
}{
	{'y', messages.DecisionApproved},
	{'a', messages.DecisionApprovedForSession},
	{'p', messages.DecisionApprovedWithRule},
	{'n', messages.DecisionDenied},
	{'x', messages.DecisionAborted},
}

// Keys that need no line of their own.
const (
	interrupt = 0x03 // Ctrl-C
	end       = 0x04 // Ctrl-D
	more      = '?'
)

// errOver says that nobody waits for the answer.
var errOver = errors.New("nobody waits for the answer any more")

// question is a question on its way to a person.
type question struct {
	messages.Question
	choices map[byte]messages.Choice
	rows    []string // the choices, as they are shown
}

// Ask puts a question, and waits until it is answered or over. The end of the input means no.
func (t *Terminal) Ask(ctx context.Context, asked messages.Question) (messages.Decision, error) {
	q := &question{Question: asked, choices: map[byte]messages.Choice{}}
	for _, a := range answers {
		for _, c := range asked.Choices {
			if c.Kind == a.kind && (t.Offer == nil || slices.Contains(t.Offer, c.Kind)) {
				q.choices[a.key] = c
				q.rows = append(q.rows, fmt.Sprintf("  %c  %s", a.key, c))
			}
		}
	}
	if t.Drop != nil {
		t.Drop()
	}
	t.print(Reset() + freshLine)
	t.show(q)
	key, err := t.key(ctx, q)
	if err != nil {
		t.print("\n" + t.Name + ": " + err.Error() + "\n")
		return messages.Decision{}, err
	}
	if choice, found := q.choices[key]; found {
		t.print(string(key) + "\n")
		return messages.Decision{Kind: choice.Kind}, nil
	}
	t.print("no\n")
	if _, found := q.choices['x']; found && key == interrupt {
		return messages.Decision{Kind: messages.DecisionAborted}, nil
	}
	return messages.Decision{Kind: messages.DecisionDenied}, nil
}

// key waits for the key that answers.
func (t *Terminal) key(ctx context.Context, q *question) (byte, error) {
	var typed keys
	settled, ignored := false, false
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	var candidate byte // a key that answers if nothing follows
	var alone <-chan time.Time
	for {
		var chunk []byte
		open := true
		select {
		case <-ctx.Done():
			return 0, errOver
		case chunk, open = <-t.Keys:
		case <-quiet.C:
			select {
			case chunk, open = <-t.Keys: // the clock was late
			default:
				if settled = true; ignored {
					t.print("\nThat was no answer: press one key, alone.\n")
					t.prompt(q)
				}
				ignored = false
				continue
			}
		case <-alone:
			select {
			case chunk, open = <-t.Keys:
			default:
				if candidate != more {
					return candidate, nil
				}
				t.print("\n")
				t.showAll(q)
				alone, settled = nil, false
				quiet.Reset(quietTime)
				continue
			}
		}
		single := typed.take(chunk)
		switch {
		case !open:
			return end, nil
		case bytes.IndexByte(chunk, interrupt) >= 0:
			return interrupt, nil
		case single && settled && alone == nil && q.takes(chunk[0]):
			candidate, alone = chunk[0], time.After(aloneTime)
		default:
			alone, settled, ignored = nil, false, true
			quiet.Reset(quietTime)
		}
	}
}

// takes reports whether a key means something to the question.
func (q *question) takes(key byte) bool {
	_, found := q.choices[key]
	return found || key == more || key == end
}

// print ignores errors: if the terminal is gone, so is the input.
func (t *Terminal) print(text string) { _, _ = io.WriteString(t.Out, text) }

// show shows a question in one window.
func (t *Terminal) show(q *question) {
	size := t.Size().OrDefault()
	rows, columns := int(size.Rows)-2, int(size.Cols)
	lines, choices := strings.Split(t.Name+": "+q.Text(), "\n"), slices.Clone(q.rows)
	if height(lines, columns)+height(choices, columns) > rows {
		for i, choice := range choices {
			choices[i] = shorten(choice, 2, columns)
		}
		lines = fit(lines, max(rows-height(choices, columns), 6), columns)
	}
	t.print(strings.Join(append(lines, choices...), "\n") + "\n")
	t.prompt(q)
}

// showAll shows everything, however long it is.
func (t *Terminal) showAll(q *question) {
	text := t.Name + ": " + q.WholeText()
	t.print(text + "\n" + strings.Join(q.rows, "\n") + "\n")
	t.prompt(q)
}

func (t *Terminal) prompt(q *question) {
	var keys []string
	for _, a := range answers {
		if _, found := q.choices[a.key]; found {
			keys = append(keys, string(a.key))
		}
	}
	t.print("one key: " + strings.Join(keys, ", ") + ", or ? for all of it> ")
}
