package ptyio

// Position is a place between two chunks of a process's output. The zero value is the beginning.
type Position struct {
	Offset int64  // of the next byte
	Seq    uint64 // the number of the last chunk before it; 0 if there is none
}

// Skip says that the output up to a position was lost before it reached this log, and returns how much that is. The next
// chunk follows the position. Chunk numbers never go back. The head stays as it is, even if it is not full, and the bytes
// kept after it are dropped. Skip ignores a position that is not ahead of Total.
func (l *OutputLog) Skip(to Position) (lost int64) {
	lost = to.Offset - l.total
	if lost <= 0 {
		return 0
	}
	to.Seq = max(to.Seq, l.last)
	l.total, l.last = to.Offset, to.Seq
	if l.head.bytes.n == 0 {
		l.head = newExtent(to, l.head.bytes.budget, l.head.most)
	} else {
		l.head.bytes.budget = l.head.bytes.n
	}
	l.tail = newExtent(to, l.tail.bytes.budget, l.tail.most)
	return lost
}
