package ptyio

// Position is a place between two chunks of a process's output. The zero value is the beginning.
type Position struct {
	Offset int64  // of the next byte
	Seq    uint64 // the number of the last chunk before it; 0 if there is none
}

// Skip says that the output up to a position was lost before it could come here, and returns how much that is. The next
// chunk comes behind the position; numbers never go back, though. The head is closed where it is, and what was kept behind
// it is dropped. A position that is not ahead of Total is ignored.
func (l *OutputLog) Skip(to Position) (lost int64) {
	lost = to.Offset - l.total
	if lost <= 0 {
		return 0
	}
	to.Seq = max(to.Seq, l.last)
	l.total, l.last = to.Offset, to.Seq
	if l.head.bytes.n == 0 {
		l.head = newStretch(to, l.head.bytes.budget, l.head.marks.budget)
	} else {
		l.head.bytes.budget = l.head.bytes.n
	}
	l.tail = newStretch(to, l.tail.bytes.budget, l.tail.marks.budget)
	return lost
}
