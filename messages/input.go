package messages

import "time"

// WriteStdin sends bytes to a process and waits for output. Bytes go out in the order in which the requests arrive. It is
// answered with a *Result or an *Error. Without bytes it is a Poll.
//
// A process on pipes without input accepts only the single byte 0x03, which interrupts it (SIGINT to its group).
type WriteStdin struct {
	Process ProcessID `json:"process"`
	Bytes   []byte    `json:"bytes,omitempty"`
	// Yield is how long to wait: nil means DefaultWriteYield, or with an Until DefaultExecYield; see WriteYield and PollYield for the
	// bounds. With an Until, the upper one is that of a poll.
	Yield *time.Duration `json:"yieldNs,omitempty"`
	// Until lets the call answer earlier, when there is a reason that came after its bytes were taken.
	Until *Until `json:"until,omitempty"`
	// MaxOutputTokens and MaxOutputBytes are those of ExecCommand.
	MaxOutputTokens *int `json:"maxOutputTokens,omitempty"`
	MaxOutputBytes  *int `json:"maxOutputBytes,omitempty"`
	// View is the form of the output in Result.OutputText; empty means the session's.
	View View `json:"view,omitempty"`
	// NoTimeout is Poll.NoTimeout; there must then be no bytes.
	NoTimeout bool `json:"noTimeout,omitempty"`
	// UntilTaken answers as soon as the process has taken the bytes, and takes no output: for callers that follow the process.
	UntilTaken bool `json:"untilTaken,omitempty"`
	// NoWait answers at once: the bytes are queued as a whole, or refused with ErrInputFull if too much waits already. A key that
	// becomes a signal, alone, acts at once. If bytes are not taken, the EarlierInput of a later result says so. It is for keyboards,
	// and for other callers that must not be held up by a process that does not read.
	NoWait bool `json:"noWait,omitempty"`
	// Repeatable says that the bytes answer nothing that the process has said: if its sandbox stops it, another attempt gets the
	// same bytes again, and the end of the input. A process that has taken other input, or more than 1 MiB, has no other attempt, and
	// Denial.NoRetry says why. It needs UntilTaken.
	Repeatable bool `json:"repeatable,omitempty"`
	// Keyboard shows that the bytes come from the person who has the process's keyboard: see TakeKeyboard. It needs NoWait or
	// UntilTaken, because a keyboard takes no output from other callers.
	Keyboard KeyboardID `json:"keyboard,omitempty"`
	// Patience bounds how long the process may take to accept the bytes; then the rest is discarded, and the result says
	// so. Nil means DefaultWritePatience; zero offers the bytes only once.
	Patience *time.Duration `json:"patienceNs,omitempty"`
}

// DefaultWritePatience is the default of WriteStdin.Patience.
const DefaultWritePatience = 30 * time.Second

// Poll waits for output: until the process ends or the yield time is over. It is answered with a *Result or an *Error.
type Poll struct {
	Process ProcessID `json:"process"`
	// Yield is how long to wait, at least MinPoll; nil means MinPoll.
	Yield *time.Duration `json:"yieldNs,omitempty"`
	// Until lets the call answer earlier, when there is a reason. Then the least yield is MinYield.
	Until *Until `json:"until,omitempty"`
	// NoTimeout answers only when the process has ended. Yield must then be nil.
	NoTimeout bool `json:"noTimeout,omitempty"`
	// MaxOutputTokens and MaxOutputBytes are those of ExecCommand.
	MaxOutputTokens *int `json:"maxOutputTokens,omitempty"`
	MaxOutputBytes  *int `json:"maxOutputBytes,omitempty"`
	// View is the form of the output in Result.OutputText; empty means the session's.
	View View `json:"view,omitempty"`
}

// CloseStdin ends a process's input. It is answered with an *Error if that cannot be done.
type CloseStdin struct {
	Process  ProcessID  `json:"process"`
	Keyboard KeyboardID `json:"keyboard,omitempty"` // see WriteStdin
}

// Resize changes a terminal's size. It is answered with an *Error if that cannot be done.
type Resize struct {
	Process  ProcessID  `json:"process"`
	Size     Size       `json:"size"`
	Keyboard KeyboardID `json:"keyboard,omitempty"` // see WriteStdin
}
