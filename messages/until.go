package messages

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"
)

// Until says what a call waits for besides the exit, which always counts, and the end of its yield. The first that comes ends the call. The
// zero value stands for the exit alone.
type Until struct {
	// AwaitingInput ends the call when the process waits for input that it does not have. Guesses counts also what may be none: see
	// AwaitedInput.
	AwaitingInput bool `json:"awaitingInput,omitempty"`
	Guesses       bool `json:"guesses,omitempty"`
	// Listening ends the call when a program of the process listens on this TCP port; zero stands for any.
	Listening *uint16 `json:"listening,omitempty"`
	// Pattern, a regular expression (RE2) of at most MaxPattern bytes, ends the call when the output matches it. It is compared with the text
	// without escape sequences, in which lines end with \n, from the first byte that no call has taken, or from the offset From. What the
	// terminal shows of the input of this call does not count. A match of more than MaxPatternMatch bytes may be missed. Output of a
	// flood that is faster than the comparison is compared as far as the process's log still has it, and up to 250 ms later. A program that prints a match and exits at once may have
	// exited first: the reason is then the exit.
	Pattern string `json:"pattern,omitempty"`
	From    *int64 `json:"from,omitempty"`
	// Quiet ends the call when there was no output for so long. QuietAfterOutput does so only if there was output since the call began.
	Quiet            time.Duration `json:"quietNs,omitempty"`
	QuietAfterOutput time.Duration `json:"quietAfterOutputNs,omitempty"`
	// Early stands for what a call on a terminal seldom waits beyond. It ends when the program waits for a line or a secret; when it waits
	// for keys, after something was shown that no call has returned, or for a write, that came after it, and the screen has been still for
	// KeysStill unless it waits for nothing else (AwaitedInput.Only); and when a program has begun to listen, no answer has named that, and nothing was printed for ListenStill. Early comes alone
	// and leaves the yield as it is without an Until; Result.Met is nil if there was no such reason. Without a terminal it means nothing.
	Early bool `json:"early,omitempty"`
}

// How long nothing is shown before an early answer.
const (
	KeysStill   = 150 * time.Millisecond // a program that reads keys may also do something else, unless it cannot
	ListenStill = 300 * time.Millisecond // a program that listens may be about to say where
)

// Bounds of a pattern.
const (
	MaxPattern      = 1 << 10
	MaxPatternMatch = 8 << 10
	// maxPatternSize bounds what a pattern is compiled to, in instructions: the time to compare a byte grows with it.
	maxPatternSize = 1000
)

// MetReason is why a call with an Until was answered.
type MetReason string

// The reasons.
const (
	MetExit          MetReason = "exit"
	MetAwaitingInput MetReason = "awaiting_input"
	MetPattern       MetReason = "pattern"
	MetQuiet         MetReason = "quiet"
	MetListening     MetReason = "listening"
	MetNothing       MetReason = "nothing" // the yield was over, or another write came
)

// Met is the answer to an Until.
type Met struct {
	Reason MetReason `json:"reason"`
	// Offset is where the match ended, or the end of the output at that time.
	Offset int64         `json:"offset"`
	Input  *AwaitedInput `json:"input,omitempty"` // with MetAwaitingInput
	// Address is where it listens, with MetListening: an IP address and a port.
	Address string `json:"address,omitempty"`
}

// String is one phrase.
func (m *Met) String() string {
	switch m.Reason {
	case MetAwaitingInput:
		return "waiting for input: " + m.Input.String()
	case MetPattern:
		return "the pattern was found"
	case MetQuiet:
		return "no more output came"
	case MetListening:
		return "it listens on " + m.Address
	case MetExit:
		return "it exited"
	default:
		return "nothing of what was waited for"
	}
}

// check returns an error for a pattern that cannot be used, and for a number that its field cannot have.
func (u *Until) check(op string) error {
	if u == nil {
		return nil
	}
	switch {
	case len(u.Pattern) > MaxPattern:
		return contradiction(op, "pattern", fmt.Sprintf("it has %d bytes; use at most %d", len(u.Pattern), MaxPattern))
	case u.From != nil && u.Pattern == "":
		return contradiction(op, "from", "only a pattern is compared from an offset; name one, or leave the offset out")
	case u.Early && *u != Until{Early: true}:
		return contradiction(op, "early", "it comes alone; name the reasons, or leave them out")
	case u.Guesses && !u.AwaitingInput:
		return contradiction(op, "guesses", "there is nothing to guess; wait for input, or leave this out")
	}
	if err := checkPattern(op, u.Pattern); err != nil {
		return err
	}
	return notNegative(op, number("from", u.From), number("quiet", &u.Quiet), number("quietAfterOutput", &u.QuietAfterOutput))
}

func checkPattern(op, pattern string) error {
	if err := compiles(op, pattern); err != nil {
		return err
	}
	if pattern != "" && regexp.MustCompile(pattern).MatchString("") {
		return contradiction(op, "pattern", "it matches nothing at all, so it would always be met; name some text")
	}
	return nil
}

// compiles returns an error for a pattern that is none, or that is too large.
func compiles(op, pattern string) error {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return contradiction(op, "pattern", err.Error()+"; write a regular expression as RE2 reads it")
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxPatternSize {
		return contradiction(op, "pattern", "it is too large; repeat less in it")
	}
	return nil
}
