package messages

import "strings"

// InputKind is the kind of input that a process waits for, or has been given. It is told from the modes of the terminal.
type InputKind string

// The kinds. A process that waits for input from a pipe waits for a line.
const (
	InputLine   InputKind = "line"   // the terminal collects a line, and shows what is typed
	InputSecret InputKind = "secret" // the terminal collects a line, and does not show it: a password, in most cases
	InputKeys   InputKind = "keys"   // the program gets each key: a line editor, a menu, a full-screen program
)

// The kinds of input that only a TerminalInteraction has.
const (
	InputPipe    InputKind = "pipe"    // a pipe took it: nothing tells a secret from other input
	InputUnknown InputKind = "unknown" // the spawner does not say what took it
)

// Recordable reports whether input of the kind may be kept as it is, and not only its length. A line that the terminal shows is part of the
// output anyway. Keys and what goes into a pipe may be a password, so they are kept only where raw says so; a secret is never kept, and
// neither is what nothing is known about.
func (k InputKind) Recordable(raw bool) bool {
	switch k {
	case InputLine:
		return true
	case InputKeys, InputPipe:
		return raw
	}
	return false
}

// InputRun is a stretch of input that was taken in one mode.
type InputRun struct {
	Kind  InputKind `json:"kind"`
	Bytes int       `json:"bytes"`
}

// MaxInputRuns bounds the runs of one write: a program may change the mode all the time.
const MaxInputRuns = 16

// AppendInputRun adds a run to others. It joins runs of one kind. If there are MaxInputRuns, the last one grows, and has the stricter kind.
func AppendInputRun(runs []InputRun, run InputRun) []InputRun {
	last := len(runs) - 1
	if run.Bytes <= 0 {
		return runs
	}
	if last < 0 || runs[last].Kind != run.Kind && last+1 < MaxInputRuns {
		return append(runs, run)
	}
	runs[last] = InputRun{StricterInput(runs[last].Kind, run.Kind), runs[last].Bytes + run.Bytes}
	return runs
}

// StricterInput is the kind of which the least may be kept.
func StricterInput(a, b InputKind) InputKind {
	for _, raw := range []bool{false, true} {
		if a.Recordable(raw) != b.Recordable(raw) {
			if a.Recordable(raw) {
				return b
			}
			return a
		}
	}
	if b == InputSecret {
		return b
	}
	return a
}

// AwaitedInput says that a program waits for input, and has been given none that it has not read.
type AwaitedInput struct {
	Kind InputKind `json:"kind"`
	// Guess says that the kernel does not tell: the program may be busy with something else. Its event loop watches the input in a way in
	// which it would also watch what it does not read any more, or it is Hidden: the system does not show what it sleeps in, because it is
	// another user's or set-user-id, or because the system shows that of nobody.
	Guess  bool `json:"guess,omitempty"`
	Hidden bool `json:"hidden,omitempty"`
	// Only says that the program can do nothing else meanwhile: it has one thread, which waits for no other file, and for no time to pass. A line
	// editor waits like that, and a full-screen program that draws by the clock does not.
	Only    bool   `json:"only,omitempty"`
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
