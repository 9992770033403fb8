package wire

import (
	"bytes"
	"sync"
)

// pageSize is the room for a message with a full chunk.
const pageSize = MaxChunk + 8<<10

// pages are memory for large messages. A flood consists of them, and a new page for each would keep the garbage collector busy.
var pages = sync.Pool{New: func() any { return new([pageSize]byte) }}

// room returns memory for a message that probably has n bytes, and at most keptSize bytes of it.
func room(n int) []byte {
	if n > pageSize/2 && n <= pageSize {
		return pages.Get().(*[pageSize]byte)[:0]
	}
	return make([]byte, 0, min(n, keptSize))
}

// fitted returns a message in memory of its size, if it is small and was read into a page.
func fitted(message []byte) []byte {
	if cap(message) != pageSize || len(message) > pageSize/4 {
		return message
	}
	small := bytes.Clone(message)
	Recycle(message)
	return small
}

// Recycle gives the memory of a message that a Conn has read to later messages. It does nothing if the memory is not worth it. The
// caller may not use the message any more, and calls Recycle at most once.
func Recycle(message []byte) {
	if cap(message) == pageSize {
		pages.Put((*[pageSize]byte)(message[:pageSize]))
	}
}
