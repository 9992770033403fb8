package session

import (
	"container/list"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/process"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// maxAbove is how many starts of a session may run above its limit, for as long as the calls that asked for them wait: most
// commands are over by then, and no other process has to end for them.
const maxAbove = 8

// slots keep a session within its limit of processes.
type slots struct {
	limit     int
	warnAt    int // this many processes are near the limit
	protected int // this many most recently used processes are not ended for others

	recent  list.List                     // all processes, the most recently used last
	held    map[messages.ProcessID]*entry // processes with a slot, and starts that the runtime's actor is asked about
	granted int                           // those that the runtime's actor counts
	lasting int                           // those whose first call has gone
	pruned  int                           // those that are ended for others
	starts  []*entry                      // that want a slot and are not counted yet, in the order in which they came
	decided []effect                      // that the session does not know of
}

// slot is the part of a process in the slots.
type slot struct {
	stage    slotStage
	recency  *list.Element
	outlives bool      // the call that asked for the process has gone
	until    time.Time // when it is refused, if it waits for a slot; zero if it never has
	claims   bool      // while it waits, a process is being ended for it
	above    bool      // it took its slot above the limit
	pruned   bool      // it is being ended for another
}

// slotStage is what a process has of a slot.
type slotStage int

const (
	slotNone    slotStage = iota // it wants none yet, was refused, or has given it back
	slotWaits                    // it is a start that waits
	slotAsked                    // it has a slot of its session, and the runtime's actor is asked to count it
	slotGranted                  // it may run
)

func (s slot) taken() bool { return s.stage >= slotAsked }

func (s *slots) decide(e *entry, message any) {
	s.decided = append(s.decided, effect{entry: e, message: message})
}

// effects are what was decided since the last time.
func (s *slots) effects() []effect {
	decided := s.decided
	s.decided = nil
	return decided
}

// use notes that a process was used, which begins with its call.
func (s *slots) use(e *entry) {
	e.info.LastUsed = time.Now()
	if e.slot.recency == nil {
		e.slot.recency = s.recent.PushBack(e)
	}
	s.recent.MoveToBack(e.slot.recency)
}

// want takes in a process that is about to start. If no slot is free it may run above the limit as long as its call waits, where the
// least recently used process can be ended afterwards. Otherwise it waits for the slot of a process that is ended for it, or is being
// ended anyway; and if there is none of those it is refused.
func (s *slots) want(e *entry) []effect {
	e.slot.stage = slotWaits
	s.starts = append(s.starts, e)
	s.serve(false)
	if e.slot.stage == slotWaits && !s.mayWait(e) {
		s.refuse(e, s.limitReached())
	}
	return s.effects()
}

// serve takes slots for the starts that can have one now, in their order. The first that has waited gets the count of a process that
// has ended, if there is one, so that no other session takes it on the way; serve reports whether one did.
func (s *slots) serve(count bool) bool {
	before, victims := 0, -1 // starts before it that wait, and that no process is ended for; processes that can be ended
	var counted *entry
	for _, e := range s.starts {
		waits, inherits := e.slot.stage == slotWaits, count && counted == nil
		if waits && victims < 0 && len(s.held) >= s.limit {
			victims = len(s.victims(false))
		}
		switch {
		case waits && !s.isFree(e, victims-before):
			if !e.slot.claims {
				before++
			}
			continue
		case waits:
			s.hold(e)
			if !inherits {
				s.decide(e, protocol.TakeSlot{Process: e.info.Process})
				continue
			}
		case !inherits || !e.slot.above && e.slot.until.IsZero():
			continue
		default:
			s.decide(e, protocol.WithdrawSlot{Process: e.info.Process})
		}
		counted = e
	}
	if counted != nil {
		s.grant(counted)
	}
	return counted != nil
}

// isFree reports whether there is a slot for a start. It runs above the limit only if one of the victims is left to be ended for it
// later; one whose call has gone, or that has waited, only in place of another that still may.
func (s *slots) isFree(e *entry, victims int) bool {
	n := len(s.held)
	return n < s.limit || n < s.limit+maxAbove && n+1-max(s.limit, s.lasting) <= victims && (s.lasting < s.limit || !e.slot.outlives && e.slot.until.IsZero())
}

// hold gives a slot of the session to a start.
func (s *slots) hold(e *entry) {
	s.held[e.info.Process] = e
	if e.slot.outlives {
		s.lasting++
	}
	e.slot.stage, e.slot.above = slotAsked, len(s.held) > s.limit
}

// giveBack takes the slot from a process that has one.
func (s *slots) giveBack(e *entry) {
	delete(s.held, e.info.Process)
	if e.slot.outlives {
		s.lasting--
	}
	if e.slot.pruned {
		s.pruned--
	}
}

// drop takes a process out of the slots. It reports whether the runtime's actor counts it.
func (s *slots) drop(e *entry) (counted bool) {
	if e.slot.stage == slotAsked {
		s.decide(e, protocol.WithdrawSlot{Process: e.info.Process})
	}
	if e.slot.taken() {
		s.giveBack(e)
	}
	counted = e.slot.stage == slotGranted
	e.slot.stage = slotNone
	s.forget(e)
	return counted
}

// forget takes a process out of the starts.
func (s *slots) forget(e *entry) {
	e.slot.claims = false
	s.starts = slices.DeleteFunc(s.starts, func(other *entry) bool { return other == e })
}

// unclaimed is how many of the processes that are ended for others are for no start that waits, and for no process that has
// outlived its call above the limit. It is negative where more must end.
func (s *slots) unclaimed() int {
	n := s.pruned - max(0, s.lasting-s.limit)
	for _, e := range s.starts {
		if e.slot.claims {
			n--
		}
	}
	return n
}

// mayWait reports whether a start may wait for the slot of a process that is being ended, and ends one for it, and for those
// before it, where it can.
func (s *slots) mayWait(e *entry) bool {
	others, none := 0, false // starts before it that no process is ended for; whether there is one to end
	for _, w := range s.starts {
		if w.slot.stage == slotWaits && !w.slot.claims && !none {
			w.slot.claims = s.unclaimed() > 0 || s.pruneSpare()
			none = !w.slot.claims
		}
		if w == e {
			break
		}
		if !w.slot.claims && !w.slot.until.IsZero() {
			others++
		}
	}
	if !e.slot.claims && others >= s.ending() {
		return false
	}
	if e.slot.until.IsZero() {
		s.decide(e, protocol.StartWaits{What: "for the slot of another process, which is being ended"})
	}
	e.slot.until = time.Now().Add(process.MaxPruneGrace)
	s.decided = append(s.decided, effect{message: slotOverdue{e}, after: process.MaxPruneGrace})
	return true
}

// ending counts the processes that are about to give their slots back, and that nobody has ended for others.
func (s *slots) ending() (n int) {
	for _, e := range s.held {
		if !e.slot.pruned && e.isEnding() {
			n++
		}
	}
	return n
}

// overdue refuses a start that has waited long enough, if a new one would get no slot either.
func (s *slots) overdue(e *entry) []effect {
	switch {
	case time.Now().Before(e.slot.until): // a later time decides
	case e.slot.stage == slotAsked:
		s.refuse(e, protocol.ErrRuntimeFull)
	case e.slot.stage == slotWaits && !(s.mayWait(e) && e.slot.claims):
		s.refuse(e, s.limitReached())
	}
	return s.effects()
}

// refuse ends a start.
func (s *slots) refuse(e *entry, why *messages.Error) {
	s.drop(e)
	s.decide(e, protocol.Slot{Refused: why})
	s.serve(false)
}

// victims are the processes that can be ended so that others can start, the first to end first; those in use only if anyway.
func (s *slots) victims(anyway bool) []messages.ProcessID {
	var all []candidate
	for at := s.recent.Front(); at != nil; at = at.Next() {
		if e := at.Value.(*entry); e.slot.stage == slotGranted && !e.slot.pruned {
			first := !e.slot.outlives && e.open > 0 // the call that asked for it waits
			all = append(all, candidate{e.info.Process, e.info.State == messages.StateExited && !first, first || e.open > 0 && !anyway})
		}
	}
	return victims(all, s.protected)
}

// prune ends a process for another one.
func (s *slots) prune(id messages.ProcessID) {
	s.held[id].slot.pruned = true
	s.pruned++
	s.decide(s.held[id], messages.Terminate{Process: id, By: messages.TerminatedByPrune})
}

// pruneSpare ends a process for a start that waits, if there is one that can be: not all of them are needed for those that run above
// the limit.
func (s *slots) pruneSpare() bool {
	chosen := s.victims(false)
	if len(chosen) <= max(0, len(s.held)-max(s.lasting, s.limit)) {
		return false
	}
	s.prune(chosen[0])
	return true
}

// pruneExcess ends a process for each that lives on above the limit. If none can be chosen any more, because all are in use by now, the
// least recently used one ends.
func (s *slots) pruneExcess() {
	for s.unclaimed() < 0 {
		chosen := s.victims(false)
		if len(chosen) == 0 {
			chosen = s.victims(true)
		}
		if len(chosen) == 0 {
			return
		}
		s.prune(chosen[0])
	}
}

// yielded notes that a command outlives the call that asked for it, which may be before it wants a slot.
func (s *slots) yielded(e *entry) []effect {
	if e.slot.taken() && !e.slot.outlives {
		s.lasting++
	}
	e.slot.outlives = true
	s.pruneExcess()
	return s.effects()
}

// awaited says why the answer of the runtime's actor is not there yet.
func (s *slots) awaited(id messages.ProcessID) []effect {
	if e := s.held[id]; e != nil && e.slot.stage == slotAsked && !e.slot.claims {
		s.decide(e, protocol.StartWaits{What: "for a slot: all sessions together have as many processes as they may"})
	}
	return s.effects()
}

// answered takes the answer of the runtime's actor. A start that it refuses waits for a process of the session if it is above the limit,
// and asks again if it has waited before.
func (s *slots) answered(id messages.ProcessID, why *messages.Error) []effect {
	e := s.held[id]
	switch {
	case e == nil || e.slot.stage != slotAsked: // it has ended, was refused, or got the count of another meanwhile
		if why == nil {
			s.decide(e, protocol.GiveSlot{})
		}
	case why == nil:
		s.grant(e)
	case why.Code != messages.ErrLimitReached:
		s.refuse(e, why)
	case time.Now().Before(e.slot.until):
		s.decide(e, protocol.TakeSlot{Process: e.info.Process})
	default:
		s.giveBack(e)
		e.slot.stage = slotWaits
		if !e.slot.above || !s.mayWait(e) {
			s.refuse(e, why)
		}
		s.serve(false)
	}
	return s.effects()
}

// grant lets a start run, and says when the session comes near its limit.
func (s *slots) grant(e *entry) {
	e.slot.stage = slotGranted
	s.forget(e)
	s.granted++
	if s.granted >= s.warnAt {
		s.decide(e, messages.ProcessWarning{Processes: s.granted, Max: s.limit, Text: warningText(s.warnAt, s.granted)})
	}
	s.decide(e, protocol.Slot{})
	s.pruneExcess()
}

// leave gives back what a process had that has ended.
func (s *slots) leave(e *entry, cause messages.Cause) []effect {
	s.recent.Remove(e.slot.recency)
	end := protocol.Counted{Cause: cause}
	if s.drop(e) {
		s.granted--
		end.Inherited = s.serve(true)
		end.Slot = !end.Inherited
	} else {
		s.serve(false)
	}
	for _, w := range slices.Backward(s.starts) { // an earlier one may have got the slot
		w.slot.claims = w.slot.claims && s.unclaimed() >= 0
	}
	s.pruneExcess()
	s.decide(e, end)
	return s.effects()
}

func (s *slots) limitReached() *messages.Error {
	busy := slices.Sorted(maps.Keys(s.held))
	return &messages.Error{Code: messages.ErrLimitReached, Op: "exec", Busy: busy,
		Detail: "all slots are taken by processes that are in use, are ending or were used just now: " +
			messages.ProcessIDs(busy) + "; wait for one to end, or terminate one"}
}

func warningText(threshold, now int) string {
	return fmt.Sprintf("The maximum number of unified exec processes you can keep open is %d and you currently have %d processes "+
		"open. Reuse older processes or close them to prevent automatic pruning of old processes", threshold, now)
}

// candidate has the facts about a process that decide whether it is ended to make room.
type candidate struct {
	id     messages.ProcessID
	exited bool // its leader has exited; background children or output remain
	busy   bool // a call waits on it
}

// victims are the processes that may be ended so that others can start, the first to end first. All are given in the order of their
// last use: the last ones are protected, and of the others those whose leader has exited come first. Busy ones never are among them. If
// a busy one whose leader has exited was passed over, no living one is: the busy one will be gone soon.
func victims(all []candidate, protected int) []messages.ProcessID {
	var exited, living []messages.ProcessID
	waitFor := false
	for _, c := range all[:max(len(all)-protected, 0)] {
		switch {
		case c.exited && c.busy:
			waitFor = true
		case c.exited:
			exited = append(exited, c.id)
		case !c.busy:
			living = append(living, c.id)
		}
	}
	if waitFor {
		return exited
	}
	return append(exited, living...)
}
