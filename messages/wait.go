package messages

import (
	"fmt"
	"time"
)

// Wait waits for reasons at several processes, and takes no output from any call. It is answered once, with Wakeups or an *Error: when there is
// a reason at every item, or with Any at the first. What is met already counts, and the answer has all of it; what comes later counts also if a
// call takes the output meanwhile. An item with an Until judges the output from the first byte on that no call has taken, and silence from
// the last output on. So a wait that is asked again has the same answer until the output is taken or the item is left out. With Any, of several
// reasons that come with one piece of output the answer may lack some; a wait that is asked again has them.
type Wait struct {
	// For has what to wait for: one to MaxWaitItems items.
	For []WaitFor `json:"for"`
	Any bool      `json:"any,omitempty"`
	// Yield bounds the wait as that of a Poll with an Until, but it may be shorter: zero asks for what is met
	// now, and is too short to find out about input and ports. When it is over, the answer
	// has what was met so far, which may be nothing. Nil means MinPoll. NoTimeout waits without a bound.
	Yield     *time.Duration `json:"yieldNs,omitempty"`
	NoTimeout bool           `json:"noTimeout,omitempty"`
}

// WaitFor is an item of a Wait: one process, and what to wait for besides its exit, which always counts. Exactly one of Process, Call and Owner
// is set.
type WaitFor struct {
	Process ProcessID `json:"process,omitempty"`
	// Call names a process by the call that starts it, which may come later. A call that is refused before it has a process starts none.
	Call CallID `json:"call,omitempty"`
	// Owner stands for any process of this owner, the later ones, too: the item is met when one of them meets it. A process whose exit
	// a call has reported already does not count.
	Owner string `json:"owner,omitempty"`
	Until *Until `json:"until,omitempty"`
}

// MaxWaitItems bounds the items of a Wait.
const MaxWaitItems = 4096

// Wakeup is one reason that a Wait has found.
type Wakeup struct {
	Item    int       `json:"item"` // the index in Wait.For
	Process ProcessID `json:"process"`
	Call    CallID    `json:"call,omitempty"`
	At      time.Time `json:"at"` // of an exit, when the runtime learned of it
	Met     Met       `json:"met"`
	// Status is what the kernel reported, with MetExit; if it is none, Lost says why.
	Status ExitStatus `json:"status"`
	Lost   string     `json:"lost,omitempty"`
}

// Wakeups answers a Wait: in the order of their times.
type Wakeups []Wakeup

// WaitYield is how long a Wait waits at most, without NoTimeout.
func WaitYield(requested *time.Duration, longest time.Duration) time.Duration {
	return min(or(requested, MinPoll), max(longest, MaxYield))
}

// Check returns an error for a number that its field cannot have, for too many items, and for an item that does not say where to wait.
func (m Wait) Check() error {
	switch n := len(m.For); {
	case m.NoTimeout && m.Yield != nil:
		return yieldWithoutEnd("wait")
	case n > MaxWaitItems:
		return contradiction("wait", "for", fmt.Sprintf("there are more than %d items; wait for fewer at once", MaxWaitItems))
	}
	for _, item := range m.For {
		named := 0
		for _, is := range []bool{item.Process != 0, item.Call != "", item.Owner != ""} {
			if is {
				named++
			}
		}
		if named != 1 {
			return contradiction("wait", "for", "an item names a process, or a call, or an owner; name exactly one of them in each")
		}
		if err := item.Until.check("wait"); err != nil {
			return err
		}
	}
	return notNegative("wait", number("yield", m.Yield))
}
