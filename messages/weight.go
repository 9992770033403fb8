package messages

import "unsafe"

// texts is the weight of several texts.
func texts[T ~string](all ...T) (weight int) {
	for _, s := range all {
		weight += len(s)
	}
	return weight
}

// list is the weight of a list of texts.
func list(l []string) int { return cap(l)*int(unsafe.Sizeof("")) + texts(l...) }

func (o Origin) weight() int { return len(o.Session) + len(o.Call) }

func (s ExitStatus) weight() int { return len(s.Kind) }

func (d *Denial) weight() int {
	if d == nil {
		return 0
	}
	return int(unsafe.Sizeof(*d)) + texts(d.Operation, d.Path, d.Address, d.Rule, d.NoRetry) + d.Grant.weight()
}

func (e *Enforcement) weight() int {
	if e == nil {
		return 0
	}
	weight := int(unsafe.Sizeof(*e)) + len(e.Level) + list(e.Mechanisms) + cap(e.Missing)*int(unsafe.Sizeof(Missing{}))
	for _, m := range e.Missing {
		weight += texts(m.What, m.Why, m.Step)
	}
	return weight
}

func (r TreeReport) weight() int {
	weight := cap(r.Survivors) * int(unsafe.Sizeof(Survivor{}))
	for _, s := range r.Survivors {
		weight += texts(s.Name, s.Why)
	}
	return weight
}

func (r EndRecord) weight() int {
	return len(r.Cause) + len(r.By) + len(r.Limit) + r.Status.weight() + r.Tree.weight() + len(r.Detail) + r.Denial.weight()
}

func (p *AdditionalPermissions) weight() int {
	if p == nil {
		return 0
	}
	weight := int(unsafe.Sizeof(*p))
	if p.Network != nil {
		weight += int(unsafe.Sizeof(*p.Network))
	}
	if p.FileSystem != nil {
		weight += int(unsafe.Sizeof(*p.FileSystem)) + list(p.FileSystem.Read) + list(p.FileSystem.Write)
	}
	return weight
}

func (q Question) weight() int {
	weight := texts(q.Display, q.Program, q.Dir, q.Reason) + len(q.ID) + len(q.OnDeadline) + list(q.Argv) +
		list(q.Environment) + list(q.Amendment) + list(q.Leads) + q.Additional.weight() + cap(q.Choices)*int(unsafe.Sizeof(Choice{}))
	for _, c := range q.Choices {
		weight += len(c.Kind) + len(c.Sentence) + len(c.Remembers)
	}
	weight += cap(q.Segments) * int(unsafe.Sizeof(Segment{}))
	for _, s := range q.Segments {
		weight += texts(s.Display, s.Why) + list(s.Hosts)
	}
	return weight
}

// Weight implements Event.
func (e ExecStarted) Weight() int {
	return e.Origin.weight() + list(e.Argv) + len(e.Dir) + e.Enforced.weight()
}

// Weight implements Event.
func (e OutputDelta) Weight() int { return e.Origin.weight() + len(e.Stream) + cap(e.Bytes) }

// Weight implements Event.
func (e ExecExited) Weight() int { return e.Origin.weight() + e.Status.weight() }

// Weight implements Event.
func (e OutputClosed) Weight() int { return e.Origin.weight() }

// Weight implements Event.
func (e ExecEnded) Weight() int { return e.Origin.weight() + e.EndRecord.weight() + cap(e.Transcript) }

// Weight implements Event.
func (e AttemptEnded) Weight() int {
	return e.Origin.weight() + e.Denial.weight() + e.Enforced.weight()
}

// Weight implements Event.
func (e TerminalInteraction) Weight() int { return e.Origin.weight() + cap(e.Input) }

// Weight implements Event.
func (e TerminalResized) Weight() int { return e.Origin.weight() }

// Weight implements Event.
func (e ProcessWarning) Weight() int { return e.Origin.weight() + len(e.Text) }

// Weight implements Event.
func (e ExecNotice) Weight() int { return e.Origin.weight() + len(e.Text) }

// Weight implements Event.
func (e CaughtUp) Weight() int { return e.Origin.weight() }

// Weight implements Event.
func (g Gap) Weight() int { return g.Origin.weight() }

// Weight implements Event.
func (e ApprovalRequested) Weight() int { return e.Origin.weight() + e.Question.weight() }

// Weight implements Event.
func (e ApprovalResolved) Weight() int {
	return e.Origin.weight() + len(e.Question) + len(e.Decision) + len(e.Source)
}

// Weight implements Event.
func (e ToolDecision) Weight() int {
	return e.Origin.weight() + len(e.Source) + len(e.Decision) + len(e.Reason) + len(e.Unread)
}
