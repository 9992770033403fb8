package bus

import "github.com/execbus/execbus/messages"

// limits bounds a queue.
type limits struct {
	outputs   int // output events
	bytes     int // bytes in them
	lifecycle int // lifecycle events
	gaps      int

	transcripts int // bytes in lifecycle events
}

// queue is what waits for one subscriber. It has no lock of its own.
//
// Outputs, lifecycle events and gaps stand in three rings, and a number that counts publications says who comes first.
// So the oldest output can go from the middle of the whole in constant time. Outputs go oldest first, hence the gaps that
// replace them are made in rising order too, and each ring stays sorted.
type queue struct {
	limits    limits
	lossless  bool
	published uint64
	outputs   ring[slot]
	lifecycle ring[slot]
	gaps      ring[*gap]
	bytes     int                 // in outputs
	recorded  int                 // bytes of transcripts in lifecycle
	open      map[processKey]*gap // the newest unread gap of each process
}

type slot struct {
	number uint64
	size   int
	event  messages.Event
	credit *Credit // held; nil where there is none
}

type gap struct {
	number uint64 // that of the first lost output
	messages.Gap
}

type processKey struct {
	session messages.SessionID
	process messages.ProcessID
}

// add queues an event. It reports how many outputs had to go, and whether there was room; where there was none the event
// is not queued and the queue is as readable as before.
func (q *queue) add(p *publication) (dropped int, fits bool) {
	q.published++
	s := slot{number: q.published, size: p.size, event: p.event}
	if !p.output {
		// One transcript is let in however large it is.
		if q.lifecycle.count >= q.limits.lifecycle || q.recorded > 0 && q.recorded+p.size > q.limits.transcripts {
			return 0, false
		}
		q.lifecycle.push(s)
		q.recorded += p.size
		return 0, true
	}
	if q.lossless && p.credit.hold() {
		s.credit = p.credit
	} else if dropped, fits = q.makeRoom(p.size); !fits {
		return dropped, false
	}
	q.outputs.push(s)
	q.bytes += p.size
	return dropped, true
}

// makeRoom drops the oldest outputs until one of size bytes fits.
func (q *queue) makeRoom(size int) (dropped int, fits bool) {
	for q.outputs.count > 0 && (q.outputs.count >= q.limits.outputs || q.bytes+size > q.limits.bytes) {
		if q.lossless || !q.dropOldest() {
			return dropped, false
		}
		dropped++
	}
	return dropped, true
}

// dropOldest turns the oldest output into a gap, or into a part of one. It reports false where no gap can be added.
func (q *queue) dropOldest() bool {
	oldest := q.outputs.at(0)
	lost := oldest.event.(messages.OutputDelta)
	key := processKey{lost.Session, lost.Process}
	g := q.open[key]
	// A publisher that relays somebody else's gaps leaves holes between its outputs; a gap must not cover them.
	if g == nil || g.End != lost.Offset {
		if q.gaps.count >= q.limits.gaps {
			return false
		}
		g = &gap{number: oldest.number, Gap: messages.Gap{Origin: lost.Origin, First: lost.Offset}}
		q.gaps.push(g)
		q.open[key] = g
	}
	g.End = lost.Offset + int64(len(lost.Bytes))
	g.Deltas++
	q.bytes -= len(lost.Bytes)
	q.outputs.pop()
	return true
}

// take removes what comes next, with the credit it holds; the event is nil where nothing waits.
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
		q.bytes -= len(s.event.(messages.OutputDelta).Bytes)
		return s.event, s.credit
	case lifecycle:
		s := q.lifecycle.pop()
		q.recorded -= s.size
		return s.event, nil
	default:
		return q.takeGap(), nil
	}
}

func (q *queue) takeGap() messages.Gap {
	g := q.gaps.pop()
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
