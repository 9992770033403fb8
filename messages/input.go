package messages

import "time"

// WriteInput asks for bytes to be sent to a process. It is answered with Written or an *Error; bytes go out in the order
// in which the requests arrived.
type WriteInput struct {
	Process ProcessID `json:"process"`
	Bytes   []byte    `json:"bytes"`
	// Patience bounds how long the process may take to accept the bytes; the rest is then discarded. Zero means
	// DefaultPatience.
	Patience time.Duration `json:"patience,omitempty"`
}

// DefaultPatience is WriteInput.Patience where none is named.
const DefaultPatience = 10 * time.Second

// Written says how many bytes the terminal or pipe took. Err says why if that is not all.
type Written struct {
	Taken int    `json:"taken"`
	Err   *Error `json:"err,omitempty"`
}

// CloseStdin asks for the end of a process's input. It is answered with Done or an *Error.
type CloseStdin struct {
	Process ProcessID `json:"process"`
}

// Resize asks for a new terminal size. It is answered with Done or an *Error.
type Resize struct {
	Process ProcessID `json:"process"`
	Size    Size      `json:"size"`
}

// Signal asks for a signal. It is answered with Done or an *Error.
type Signal struct {
	Process ProcessID `json:"process"`
	Number  int       `json:"number"`
	// Tree sends it to the whole tree; otherwise it goes to the foreground process group.
	Tree bool `json:"tree,omitempty"`
}

// Terminate asks for the end of a process and its tree. It is answered with *EndRecord, when that has come about, or an
// *Error.
type Terminate struct {
	Process ProcessID    `json:"process"`
	By      TerminatedBy `json:"by,omitempty"` // empty means ByUser
	// Grace, if positive, replaces the command's own.
	Grace time.Duration `json:"grace,omitempty"`
}

// Done answers requests that have nothing else to say.
type Done struct{}
