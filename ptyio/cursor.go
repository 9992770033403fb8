package ptyio

// Cursor is one reader's place in an OutputLog. Only its reader moves it: other readers do not, and neither does the log
// when it drops bytes. The zero value is at the very beginning.
type Cursor struct{ offset, missed int64 }

// CursorAt makes a cursor at an offset. A cursor beyond Total reads nothing until the log has reached its offset.
func (l *OutputLog) CursorAt(offset int64) Cursor { return Cursor{offset: max(offset, 0)} }

// Offset is the offset of the first byte that the cursor has not passed.
func (c Cursor) Offset() int64 { return c.offset }

// Missed is the number of bytes that the cursor has skipped since it was made.
func (c Cursor) Missed() int64 { return c.missed }

// Next returns up to limit bytes from the cursor on, as ReadAt does, and moves the cursor past them. If the next byte is no
// longer retained, the cursor first moves to the next retained byte, or to the end, and missed is the number of bytes that
// it skipped.
func (l *OutputLog) Next(c *Cursor, limit int) (chunks []Chunk, missed int64) {
	if c.offset > l.total {
		return nil, 0
	}
	if _, ok := l.retainedUntil(c.offset); !ok {
		missed = l.nextRetained(c.offset) - c.offset
		c.offset += missed
		c.missed += missed
	}
	chunks, _ = l.ReadAt(c.offset, limit) // it is retained
	for _, chunk := range chunks {
		c.offset += int64(len(chunk.Bytes))
	}
	return chunks, missed
}

// nextRetained returns the first retained offset after one that is not retained, or the end.
func (l *OutputLog) nextRetained(offset int64) int64 {
	if begin := l.head.first(); offset < begin {
		return begin
	}
	_, kept := l.hole()
	return kept
}
