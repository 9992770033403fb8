package messages

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
	// Guess says that the kernel does not tell: the program may be busy with something else. It is another user's or set-user-id, or its
	// event loop watches the input in a way in which it would also watch what it does not read any more.
	Guess   bool   `json:"guess,omitempty"`
	PID     int    `json:"pid"` // the kernel's
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
