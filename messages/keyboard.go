package messages

import "time"

// KeyboardID is what the holder of a keyboard shows with each input. It cannot be guessed, and no event has it.
type KeyboardID string

// TakeKeyboard gives the input of a terminal to one person. Until it is given back, writes, ends of the input and resizes that do not
// show its KeyboardID do not reach the process: they get ErrKeyboardTaken, or wait, as the session says. One who takes it while another
// has it takes it over. It is answered with a *Keyboard, or an *Error.
type TakeKeyboard struct {
	Process ProcessID `json:"process"`
	// Holder says to people who has it: at most MaxHolder bytes are kept.
	Holder string `json:"holder,omitempty"`
}

// MaxHolder bounds TakeKeyboard.Holder, in bytes.
const MaxHolder = 128

// DefaultKeyboardIdle is how long a keyboard that nothing comes from stays taken.
const DefaultKeyboardIdle = 10 * time.Minute

// Keyboard answers TakeKeyboard.
type Keyboard struct {
	Process ProcessID  `json:"process"`
	ID      KeyboardID `json:"id"`
	Since   time.Time  `json:"since"` // as KeyboardHolder has it
}

// KeyboardHolder is who has a keyboard, and since when.
type KeyboardHolder struct {
	Name  string    `json:"name,omitempty"`
	Since time.Time `json:"since"`
}

// ReturnKeyboard gives a keyboard back. It is answered with an *Error that matches ErrKeyboardTaken if another has taken it over. One that
// nobody has any more is no error.
type ReturnKeyboard struct {
	Process  ProcessID  `json:"process"`
	Keyboard KeyboardID `json:"keyboard"`
}

// KeyboardPolicy says what becomes of the input of others while a person has the keyboard.
type KeyboardPolicy string

// The policies. The zero value means KeyboardRefuses.
const (
	KeyboardRefuses KeyboardPolicy = "refuse" // it is refused with ErrKeyboardTaken
	KeyboardHolds   KeyboardPolicy = "wait"   // it is sent when the keyboard is given back; a resize is refused
)

// KeyboardReturn is why a keyboard was given back.
type KeyboardReturn string

// The reasons.
const (
	ReturnedByHolder KeyboardReturn = "returned"
	ReturnedIdle     KeyboardReturn = "idle"  // nothing came from it for DefaultKeyboardIdle
	ReturnedAtEnd    KeyboardReturn = "ended" // the process has ended
)

// KeyboardTaken is published when a person has taken the input of a process.
type KeyboardTaken struct {
	Origin
	Holder string `json:"holder,omitempty"`
	// Before is the holder from whom it was taken over.
	Before string `json:"before,omitempty"`
}

// KeyboardReturned is published when the input is everybody's again.
type KeyboardReturned struct {
	Origin
	Holder string         `json:"holder,omitempty"`
	Why    KeyboardReturn `json:"why"`
}

// Kind implements Event.
func (KeyboardTaken) Kind() EventKind { return KindKeyboardTaken }

// Kind implements Event.
func (KeyboardReturned) Kind() EventKind { return KindKeyboardReturned }

// Check returns an error for a policy that there is not.
func (p KeyboardPolicy) Check() error {
	switch p {
	case "", KeyboardRefuses, KeyboardHolds:
		return nil
	}
	return contradiction("configure", "keyboard", "there is no policy "+string(p)+"; use refuse or wait")
}
