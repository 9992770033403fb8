package bus

import "github.com/execbus/execbus/messages"

// limits bounds a queue.
type limits struct {
	outputs   int // output events, inputs, connections and executions
	bytes     int // bytes of those
	lifecycle int // events that must not be lost
	gaps      int
	weight    int // weight of lifecycle events and gaps
}

// queue holds the events that wait for one subscriber. It has no lock of its own.
//
// Events that may be lost, lifecycle events and gaps have a ring each. Every entry carries the number of its publication,
// which gives the order across the rings. So the oldest output can be dropped in constant time even if older lifecycle
// events remain. What is dropped is the oldest of a ring, or the event itself; so gaps are also made in order, and each ring stays sorted.
type queue struct {
	limits    limits
	lossless  bool
	published uint64
	outputs   ring[slot] // and inputs, connections and executions, unless the queue is lossless
	lifecycle ring[slot]
	gaps      ring[*gap]
	bytes     int                 // in outputs
	weight    int                 // of lifecycle and gaps
	open      map[processKey]*gap // the newest unread gap of each process
}

type slot struct {
	number uint64
	size   int
	event  messages.Event
	credit *Credit // held; nil if there is none
}

type gap struct {
	number uint64 // of the first lost event
	messages.Gap
}

type processKey struct {
	session messages.SessionID
	process messages.ProcessID
}

// add queues an event. It reports how many events it dropped to make room, and whether the event fitted. If it did not fit,
// it is not queued, and the queue can still be read.
func (q *queue) add(p *publication) (dropped int, fits bool) {
	q.published++
	s := slot{number: q.published, size: p.size, event: p.event}
	numerous := p.kind == messages.KindNetworkConnection || p.kind == messages.KindProgramExecuted
	mayGo := p.output || p.kind.Lossy() && !q.lossless
	switch {
	case !mayGo && numerous && (q.lifecycle.count >= q.limits.lifecycle/2 || q.weight+s.size > q.limits.weight/2):
		return 1, q.lose(&s) // otherwise a command could end the subscription
	case !mayGo:
		return 0, q.keep(s)
	case q.lossless && p.credit.Hold():
		s.credit = p.credit
	case q.lossless:
		if q.full(s.size) {
			return 0, false
		}
	default:
		if dropped, fits = q.makeRoom(s.size); !fits {
			return dropped, false
		}
		if s.size > q.limits.bytes { // it does not fit even into the empty queue
			if !q.lose(&s) {
				return dropped, false
			}
			return dropped + 1, true
		}
	}
	q.outputs.push(s)
	q.bytes += s.size
	return dropped, true
}

// keep queues an event that must not be lost.
func (q *queue) keep(s slot) bool {
	if q.lifecycle.count >= q.limits.lifecycle || q.tooHeavy(s.size) {
		return false
	}
	q.lifecycle.push(s)
	q.weight += s.size
	return true
}

// tooHeavy reports whether an event of this size would exceed the weight limit. A single event may exceed it.
func (q *queue) tooHeavy(size int) bool { return q.weight > 0 && q.weight+size > q.limits.weight }

func (q *queue) full(size int) bool {
	return q.outputs.count >= q.limits.outputs || q.bytes+size > q.limits.bytes
}

// makeRoom drops the oldest events until one of size bytes fits or nothing is left.
func (q *queue) makeRoom(size int) (dropped int, fits bool) {
	for q.outputs.count > 0 && q.full(size) {
		if !q.lose(q.outputs.at(0)) {
			return dropped, false
		}
		q.bytes -= q.outputs.pop().size
		dropped++
	}
	return dropped, true
}

// lose replaces an event by a gap, or adds it to an existing gap. It reports false if no gap can be added.
func (q *queue) lose(s *slot) bool {
	output, isOutput := s.event.(messages.OutputDelta)
	from := &output.Origin
	if !isOutput {
		from = new(s.event.From())
	}
	key := processKey{from.Session, from.Process}
	g := q.open[key]
	// A publisher that relays gaps from elsewhere leaves holes between its outputs, and a gap must not cover such a hole. Lost
	// output does not extend a gap of inputs alone either, because a relayed gap may lie between the two.
	if g == nil || isOutput && (g.Deltas == 0 || g.End != output.Offset) {
		g = &gap{number: s.number, Gap: messages.Gap{Origin: *from, First: output.Offset}}
		if q.gaps.count >= q.limits.gaps || q.tooHeavy(messages.Weight(*g)) {
			return false
		}
		q.gaps.push(g)
		q.weight += messages.Weight(*g)
		q.open[key] = g
	}
	switch e := s.event.(type) {
	case messages.OutputDelta:
		g.End = output.Offset + int64(len(output.Bytes))
		g.Deltas++
	case messages.TerminalInteraction:
		g.Inputs++
		g.InputBytes += int64(e.Length)
	case messages.NetworkConnection:
		g.Connections++
	case messages.ProgramExecuted:
		g.Executions++
	}
	return true
}

// take removes the next event and the credit it holds; the event is nil if the queue is empty.
func (q *queue) take() (messages.Event, *Credit) {
	const none = ^uint64(0)
	output, lifecycle, lost := none, none, none
	if q.outputs.count > 0 {
		output = q.outputs.at(0).number
	}
	if q.lifecycle.count > 0 {
		lifecycle = q.lifecycle.at(0).number
	}
	if q.gaps.count > 0 {
		lost = (*q.gaps.at(0)).number
	}
	switch min(output, lifecycle, lost) {
	case none:
		return nil, nil
	case output:
		s := q.outputs.pop()
		q.bytes -= s.size
		return s.event, s.credit
	case lifecycle:
		s := q.lifecycle.pop()
		q.weight -= s.size
		return s.event, nil
	default:
		return q.takeGap(), nil
	}
}

func (q *queue) takeGap() messages.Gap {
	g := q.gaps.pop()
	q.weight -= messages.Weight(*g)
	key := processKey{g.Session, g.Process}
	if q.open[key] == g {
		delete(q.open, key)
	}
	return g.Gap
}

func (q *queue) empty() bool {
	return q.outputs.count+q.lifecycle.count+q.gaps.count == 0
}

// surrender takes the credits out of the queue and leaves the events.
func (q *queue) surrender() []*Credit {
	var held []*Credit
	for i := range q.outputs.count {
		s := q.outputs.at(i)
		if s.credit != nil {
			held = append(held, s.credit)
			s.credit = nil
		}
	}
	return held
}
