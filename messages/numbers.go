package messages

import (
	"cmp"
	"fmt"
	"time"
)

// ExecYield is how long an ExecCommand waits; nil means the default.
func ExecYield(requested *time.Duration) time.Duration {
	return min(max(or(requested, DefaultExecYield), MinYield), MaxYield)
}

// UntilYield is how long a call waits at most that has an Until: it may wait as long as a poll.
func UntilYield(requested *time.Duration, longest time.Duration) time.Duration {
	return min(max(or(requested, DefaultExecYield), MinYield), max(longest, MaxYield))
}

// WriteYield is how long a WriteStdin with bytes waits.
func WriteYield(requested *time.Duration) time.Duration {
	return min(max(or(requested, DefaultWriteYield), MinYield), MaxYield)
}

// PollYield is how long a Poll waits: at least MinPoll, and at most longest, which is the session's bound.
func PollYield(requested *time.Duration, longest time.Duration) time.Duration {
	return min(max(or(requested, 0), MinPoll), max(longest, MinPoll))
}

func or(said *time.Duration, unsaid time.Duration) time.Duration {
	if said == nil {
		return unsaid
	}
	return *said
}

// Check returns an error for a number that its field cannot have.
func (m ExecCommand) Check() error {
	if err := cmp.Or(m.Limits.Check(), m.Until.check("exec"), m.View.check("exec")); err != nil {
		return err
	}
	return notNegative("exec", number("yield", m.Yield), number("grace", m.Grace), number("maxOutputTokens", m.MaxOutputTokens),
		number("maxOutputBytes", m.MaxOutputBytes))
}

// Check returns an error for a number that its field cannot have.
func (m RunCommand) Check() error {
	if err := m.Limits.Check(); err != nil {
		return err
	}
	return notNegative("run", number("timeout", m.Timeout), number("grace", m.Grace))
}

// Check returns an error for a number that its field cannot have, and for a field that contradicts NoTimeout.
func (m WriteStdin) Check() error {
	switch {
	case m.NoTimeout && m.Yield != nil:
		return yieldWithoutEnd("write")
	case m.NoWait && (m.NoTimeout || m.UntilTaken || m.Yield != nil):
		return contradiction("write", "noWait", "a call that does not wait cannot say how long to wait; leave one of the two out")
	case m.NoTimeout && (len(m.Bytes) > 0 || m.UntilTaken):
		return contradiction("write", "noTimeout", "only a call that writes nothing can wait without end; write first, and then wait")
	case m.Until != nil && (m.NoWait || m.UntilTaken):
		return contradiction("write", "until", "a call that does not wait for output cannot wait for a reason; leave one of the two out")
	case m.Keyboard != "" && !m.NoWait && !m.UntilTaken:
		return contradiction("write", "keyboard", "a keyboard takes no output; let the write not wait, or wait until it is taken")
	case m.Repeatable && !m.UntilTaken:
		return contradiction("write", "repeatable", "input that a second attempt may read again must wait until it is taken; let the write wait for that, or leave this out")
	}
	if err := cmp.Or(m.Until.check("write"), m.View.check("write")); err != nil {
		return err
	}
	return notNegative("write", number("yield", m.Yield), number("patience", m.Patience),
		number("maxOutputTokens", m.MaxOutputTokens), number("maxOutputBytes", m.MaxOutputBytes))
}

// Check returns an error for a number that its field cannot have, and for a yield beside NoTimeout.
func (m Poll) Check() error {
	if m.NoTimeout && m.Yield != nil {
		return yieldWithoutEnd("poll")
	}
	if err := cmp.Or(m.Until.check("poll"), m.View.check("poll")); err != nil {
		return err
	}
	return notNegative("poll", number("yield", m.Yield), number("maxOutputTokens", m.MaxOutputTokens),
		number("maxOutputBytes", m.MaxOutputBytes))
}

// Check returns an error for a number that its field cannot have.
func (m Terminate) Check() error { return notNegative("terminate", number("grace", m.Grace)) }

// Check returns an error for a number that its field cannot have, for a read that says twice where to begin, and for a pattern that cannot
// be used. A read that does not say where to begin is refused by its receiver.
func (m ReadOutput) Check() error {
	if err := cmp.Or(m.View.check("read"),
		notNegative("read", number("offset", m.Offset), number("tail", &m.Tail), number("max", &m.Max), number("wait", &m.Wait))); err != nil {
		return err
	}
	begins := 0
	for _, says := range []bool{m.Offset != nil, m.AfterSeq != nil, m.Tail > 0, m.Line != nil} {
		if says {
			begins++
		}
	}
	switch {
	case begins > 1:
		return &Error{Code: ErrInvalidRequest, Op: "read", Subject: m.Process.String(),
			Detail: "it says more than once where to begin; give an offset, a chunk, a line, or a number of bytes at the end",
			Hint:   "set one of Offset, AfterSeq, Tail and Line"}
	case m.Line != nil && *m.Line == 0:
		return contradiction("read", "line", "there is no line 0; lines are counted from 1, or from -1 at the end")
	case m.Grep == nil:
		return nil
	case m.View == ViewScreen:
		return contradiction("read", "view", "a search has no screen; use text or raw")
	case m.AfterSeq != nil:
		return contradiction("read", "afterSeq", "a search cannot begin behind a chunk; give an offset, a line, or a number of bytes at the end")
	case m.Wait > 0:
		return contradiction("read", "wait", "a search does not wait for output; wait for a pattern instead, or leave this out")
	}
	return m.Grep.check()
}

func (g *Grep) check() error {
	switch {
	case g.Pattern == "":
		return contradiction("read", "pattern", "it is empty; name what to look for")
	case len(g.Pattern) > MaxPattern:
		return contradiction("read", "pattern", fmt.Sprintf("it has %d bytes; use at most %d", len(g.Pattern), MaxPattern))
	}
	if err := compiles("read", g.Pattern); err != nil {
		return err
	}
	return notNegative("read", number("before", &g.Before), number("after", &g.After), number("matches", &g.Matches), number("bytes", &g.Bytes))
}

func yieldWithoutEnd(op string) error {
	return contradiction(op, "yield", "a call that waits without end cannot have a yield; leave one of the two out")
}

func contradiction(op, subject, detail string) error {
	return &Error{Code: ErrInvalidRequest, Op: op, Subject: subject, Detail: detail}
}

// field is a number in a request, with its name in JSON.
type field struct {
	name     string
	negative bool
}

func number[N int | int64 | time.Duration](name string, value *N) field {
	return field{name, value != nil && *value < 0}
}

func notNegative(op string, fields ...field) error {
	for _, f := range fields {
		if f.negative {
			return &Error{Code: ErrInvalidRequest, Op: op, Subject: f.name,
				Detail: "the number is negative; use zero or more, or leave it out for the default"}
		}
	}
	return nil
}
