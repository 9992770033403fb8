package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// The values of until that are words.
const (
	untilExit  = "exit"
	untilInput = "awaiting_input"
)

// until is the parameter of the tools that wait for output. With it yield_time_ms may be as long as an empty write_stdin may wait.
var until = parameter{name: "until", kind: condition, about: fmt.Sprintf("What to answer for before yield_time_ms is over, besides the end: %q when the program waits for input, "+
	"or an object of which the first that comes counts. yield_time_ms may then be as long as for write_stdin without chars, and with chars it is %d by default. %q: nothing else. "+
	"Default: with tty, when the program waits for a line or a secret, or for keys and the screen has changed and is still, or when it has begun to listen on a TCP port and prints nothing more; without tty, nothing else.",
	untilInput, ms(messages.DefaultExecYield), untilExit)}

// untilSchemas are the schemas of a word and of an object.
func untilSchemas() []any {
	about := func(kind, text string) map[string]any { return map[string]any{"type": kind, "description": text} }
	return []any{
		map[string]any{"type": "string", "enum": []string{untilExit, untilInput}},
		closed(map[string]any{
			untilInput:              about("boolean", "The program waits for input."),
			"listening":             about("number", "A program listens on this TCP port; 0: on any."),
			"pattern":               about("string", "A regular expression (RE2) for the output that was not returned before, without escape sequences."),
			"quiet_ms":              about("number", "No output for so long."),
			"quiet_after_output_ms": about("number", "The same, once there was output."),
		}),
	}
}

// untilObject is the value of until that is an object.
type untilObject struct {
	AwaitingInput    bool    `json:"awaiting_input"`
	Listening        *uint16 `json:"listening"`
	Pattern          string  `json:"pattern"`
	Quiet            float64 `json:"quiet_ms"`
	QuietAfterOutput float64 `json:"quiet_after_output_ms"`
}

// ParseUntil reads what a person writes for until: one of its words, or an object in JSON.
func ParseUntil(text string) (*messages.Until, error) {
	var u any
	var why string
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		u, why = readUntil(json.RawMessage(text))
	} else {
		u, why = untilWord(text)
	}
	if why != "" {
		return nil, errors.New(why)
	}
	until := u.(*messages.Until)
	return until, messages.Poll{Until: until}.Check()
}

func untilWord(word string) (any, string) {
	switch word {
	case untilExit:
		return &messages.Until{}, ""
	case untilInput:
		return &messages.Until{AwaitingInput: true}, ""
	}
	return nil, fmt.Sprintf("%.60q is none of its words, which are %s and %s; it may also be an object", word, untilExit, untilInput)
}

// readUntil reads a word or an object.
func readUntil(raw json.RawMessage) (any, string) {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		return untilWord(word)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var said untilObject
	if err := decoder.Decode(&said); err != nil {
		return nil, strings.TrimPrefix(err.Error(), "json: ")
	}
	if said.Quiet < 0 || said.QuietAfterOutput < 0 {
		return nil, "a time in it is negative; use zero or more"
	}
	u := &messages.Until{AwaitingInput: said.AwaitingInput, Listening: said.Listening, Pattern: said.Pattern, Quiet: millis(said.Quiet), QuietAfterOutput: millis(said.QuietAfterOutput)}
	return u, ""
}

// millis is a duration of so many milliseconds, at most the longest.
func millis(n float64) time.Duration {
	return time.Duration(min(n, float64(longest/time.Millisecond)) * float64(time.Millisecond))
}

// untilOf is the value of until. A call that leaves it out ends early, unless it waits for the end.
func untilOf(a arguments) *messages.Until {
	u, said := a.values[until.name].(*messages.Until)
	if !said && !a.flag(argNoTimeout) {
		return &messages.Until{Early: true}
	}
	return u
}

// metText says, in one line, why a call with until was answered although the process runs.
func metText(m *messages.Met) string {
	switch m.Reason {
	case messages.MetAwaitingInput:
		return "Waiting for input: " + m.Input.String()
	case messages.MetPattern:
		return "Until: the pattern was found"
	case messages.MetListening:
		return "Listening on " + m.Address
	case messages.MetQuiet:
		return "Until: no more output came"
	default:
		return "Until: not met"
	}
}
