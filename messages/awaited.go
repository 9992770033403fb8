package messages

import "strings"

// InputKind is the kind of input that a process waits for.
type InputKind string

// The kinds, which are told from the modes of the terminal. What is read from a pipe is a line.
const (
	InputLine   InputKind = "line"   // the terminal collects a line, and shows what is typed
	InputSecret InputKind = "secret" // the terminal collects a line, and does not show it: a password, in most cases
	InputKeys   InputKind = "keys"   // the program gets each key: a line editor, a menu, a full-screen program
)

// AwaitedInput says that a program waits for input, and has been given none that it has not read.
type AwaitedInput struct {
	Kind InputKind `json:"kind"`
	// Guess says that the kernel does not tell: the program may be busy with something else. Its event loop watches the input in a way in
	// which it would also watch what it does not read any more, or it is Hidden: the system does not show what it sleeps in, because it is
	// another user's or set-user-id, or because the system shows that of nobody.
	Guess   bool   `json:"guess,omitempty"`
	Hidden  bool   `json:"hidden,omitempty"`
	PID     int    `json:"pid"` // the kernel's, on the machine where it runs
	Program string `json:"program"`
}

// String is one phrase: "a line", "a secret: echo is off".
func (a AwaitedInput) String() string {
	switch a.Kind {
	case InputSecret:
		return "a secret: echo is off"
	case InputKeys:
		return "keys"
	default:
		return "a line"
	}
}

// Awaits is what a look at a process that runs has found.
type Awaits struct {
	Input *AwaitedInput `json:"input,omitempty"` // nil if nobody was found that waits for input
	// Listening has where its programs listen on TCP, as IP addresses with ports: the first MaxListening.
	Listening []string `json:"listening,omitempty"`
	// Unknown says why some of this is not known, in words; empty if it is.
	Unknown string `json:"unknown,omitempty"`
}

// MaxListening bounds the addresses in Awaits.
const MaxListening = 64

// String is one phrase, such as "waits for input: a line; listens on 127.0.0.1:8080"; empty if it waits for nothing that is known.
func (a *Awaits) String() string {
	if a == nil {
		return ""
	}
	var parts []string
	switch {
	case a.Input != nil && a.Input.Guess:
		parts = append(parts, "perhaps waits for input: "+a.Input.String())
	case a.Input != nil:
		parts = append(parts, "waits for input: "+a.Input.String())
	}
	if len(a.Listening) > 0 {
		parts = append(parts, "listens on "+strings.Join(a.Listening, ", "))
	}
	if a.Unknown != "" {
		parts = append(parts, "what it waits for is not known: "+a.Unknown)
	}
	return strings.Join(parts, "; ")
}
