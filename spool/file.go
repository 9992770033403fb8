package spool

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/execbus/execbus/messages"
)

// File has the output of one process from the first Write on: in its storage the bytes, and behind the places for those a mark for each
// chunk. One goroutine at a time may call Write; the other methods may be called from any.
type File struct {
	store *Store
	share int64 // of the store's Total; the store's lock guards it

	// The lock is for what the writer tells readers: they read the storage without it, and look afterwards whether their bytes were
	// overwritten meanwhile. A message from the writer would come too late for that.
	mu sync.Mutex
	contents
	storage Storage // nil before the first Write
	closed  bool
}

// contents says where things are.
type contents struct {
	from  int64  // the offset of the first byte
	seq   uint64 // the number of the first chunk
	lines int64  // newlines in all output up to the end of the bytes
	bytes ring
	marks ring
	base  int64 // where in the storage the marks begin

	gap      bool  // something in the middle is missing; the others say what
	markHead int64 // the offset of the first mark that goes round
	headEnd  int64 // where the gap begins and ends, and the first chunks that begin behind these places
	tailFrom int64
	headSeq  uint64
	tailSeq  uint64
}

// markSize is the size of a mark: the offset of a chunk, and its stream in two bits.
const markSize = 8

var streams = []messages.Stream{messages.StreamStdout, messages.StreamStderr, messages.StreamPTY}

func (c *contents) end() int64 { return c.from + c.bytes.n }

func (c *contents) endSeq() uint64 { return c.seq + uint64(c.marks.n) }

// ranges lists what is kept.
func (c *contents) ranges() (all []messages.OutputRange) {
	last := messages.OutputRange{First: c.from, End: c.end(), FirstSeq: c.seq, EndSeq: c.endSeq()}
	if c.gap {
		all = append(all, messages.OutputRange{First: c.from, End: c.headEnd, FirstSeq: c.seq, EndSeq: c.headSeq})
		last.First, last.FirstSeq = c.tailFrom, min(c.tailSeq, c.endSeq())
	}
	return slices.DeleteFunc(append(all, last), func(r messages.OutputRange) bool { return r.First >= r.End })
}

// until is the end of the kept range that has an offset; false if that byte is not kept.
func (c *contents) until(offset int64) (int64, bool) {
	for _, r := range c.ranges() {
		if r.First <= offset && offset < r.End {
			return r.End, true
		}
	}
	return 0, false
}

// Ranges lists what is kept: nothing, one range, or the beginning and the newest part.
func (f *File) Ranges() []messages.OutputRange {
	c, storage := f.now()
	if storage == nil {
		return nil
	}
	return c.ranges()
}

// now is a copy of what readers need; the storage is nil if there is none.
func (f *File) now() (contents, Storage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.contents, f.storage
}

// has reports whether a byte is kept.
func (f *File) has(offset int64) bool {
	c, storage := f.now()
	_, kept := c.until(offset)
	return kept && storage != nil
}

func (f *File) publish(c contents) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.contents = c
}

func (f *File) set(storage Storage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage = storage
}

func (f *File) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// shut returns the storage for closing, the first time.
func (f *File) shut() Storage {
	f.mu.Lock()
	defer f.mu.Unlock()
	storage := f.storage
	f.closed, f.storage = true, nil
	return storage
}

// End says that no more is written. The file may then give way to those of other processes.
func (f *File) End() { f.store.end(f) }

// Close gives up the file without waiting. Reads that are under way find nothing any more.
func (f *File) Close() { f.store.drop(f) }

// Write adds chunks that follow each other, and what the file has; lines is the number of newlines in all output before them. If they do
// not follow what the file has, because output was lost on its way, then that is given up. What a Write that fails was to overwrite is
// gone. It blocks as long as the disk does.
func (f *File) Write(chunks []messages.OutputChunk, lines int64) error {
	if len(chunks) == 0 {
		return nil
	}
	c, storage := f.now()
	if storage == nil {
		if err := f.store.admit(f); err != nil {
			return err
		}
		c, storage = f.now()
	}
	if first := chunks[0]; c.bytes.size == 0 || first.Offset != c.end() || first.Seq != c.endSeq() {
		c = f.store.empty(first.Offset, first.Seq, lines)
		f.publish(c)
	}
	for len(chunks) > 0 {
		n, size := c.fitting(chunks)
		if size > c.bytes.most() {
			return fmt.Errorf("a chunk of %d bytes is too large for a file of %d", size, c.bytes.size)
		}
		frozen, err := f.grow(&c, size, n)
		if err == nil && !frozen {
			err = f.add(&c, storage, chunks[:n], size)
			chunks = chunks[n:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty is a file without anything in it, whose first byte has an offset.
func (s *Store) empty(offset int64, seq uint64, lines int64) contents {
	marks := s.options.PerProcess / 16 / markSize
	bytes := s.options.PerProcess - marks*markSize
	return contents{from: offset, seq: seq, lines: lines, bytes: ring{size: bytes}, marks: ring{size: marks}, base: bytes}
}

// fitting is how many of the chunks can be written at once, and how many bytes they have.
func (c *contents) fitting(chunks []messages.OutputChunk) (n, size int64) {
	for n < int64(len(chunks)) && (n == 0 || n < c.marks.most() && size+int64(len(chunks[n].Bytes)) <= c.bytes.most()) {
		size += int64(len(chunks[n].Bytes))
		n++
	}
	return n, size
}

// least is how many bytes a file must have before its places can be bounded by what it has, and leastMarks how many marks it has room for
// in any case.
func (s *Store) least() int64 { return min(LeastPerProcess, s.options.PerProcess) / 2 }

func (s *Store) leastMarks() int64 { return s.least() / 64 }

// grow takes a larger share of the store for bytes and marks that come. If there is none, what has a place now goes round from now on;
// frozen says so.
func (f *File) grow(c *contents, bytes, marks int64) (frozen bool, err error) {
	s := f.store
	need := min(c.bytes.n+bytes, c.bytes.size) + markSize*max(min(c.marks.n+marks, c.marks.size), s.leastMarks())
	switch {
	case s.grants(f, need):
		return false, nil
	case f.isClosed():
		return false, errClosed
	case c.bytes.n < s.least():
		return false, &messages.Error{Code: messages.ErrLimitReached, Op: "keep output",
			Detail: fmt.Sprintf("the files of all processes have the %d bytes that they may have together; end processes, or allow more", s.options.Total)}
	}
	c.bytes.size = min(c.bytes.size, c.bytes.n)
	c.marks.size = min(c.marks.size, max(c.marks.n, s.leastMarks()))
	f.publish(*c)
	return true, nil
}

// add writes chunks. Readers learn first what they take the place of, and last that they are there.
func (f *File) add(c *contents, storage Storage, chunks []messages.OutputChunk, size int64) error {
	bytes, marks := make([]byte, 0, size), make([]byte, 0, markSize*len(chunks))
	for _, chunk := range chunks {
		bytes = append(bytes, chunk.Bytes...)
		marks = binary.LittleEndian.AppendUint64(marks, uint64(chunk.Offset)<<2|uint64(max(slices.Index(streams, chunk.Stream), 0)))
	}
	c.bytes.next, c.marks.next = c.bytes.n+size, c.marks.n+int64(len(chunks))
	if err := c.cut(storage, marks); err != nil {
		return err
	}
	f.publish(*c)
	if err := errors.Join(put(storage, c.bytes, bytes, 0, 1), put(storage, c.marks, marks, c.base, markSize)); err != nil {
		return err
	}
	c.bytes.n, c.marks.n, c.lines = c.bytes.next, c.marks.next, c.lines+newlines(bytes)
	f.publish(*c)
	return nil
}

// cut moves the ends of the gap to where they are while coming marks and their bytes are written. It reads marks that are still there.
func (c *contents) cut(storage Storage, coming []byte) (err error) {
	if !c.bytes.full() && !c.marks.full() {
		return nil
	}
	offset := func(i int64) int64 { // of mark i
		if i >= c.marks.n {
			return int64(binary.LittleEndian.Uint64(coming[(i-c.marks.n)*markSize:]) >> 2)
		}
		mark, failed := c.mark(storage, i)
		err = cmp.Or(err, failed)
		return mark
	}
	// behind is the first chunk among marks that does not begin before a place.
	behind := func(first, last, place int64) uint64 {
		return c.seq + uint64(first) + uint64(sort.Search(int(last-first), func(i int) bool { return offset(first+int64(i)) >= place }))
	}
	head, tail := c.from+c.bytes.next, c.from
	if c.bytes.full() {
		head, tail = c.from+c.bytes.half(), c.from+c.bytes.oldest()
	}
	first, last := int64(0), c.marks.next // marks that keep their places: up to last, and from first on
	if c.marks.full() {
		if last, first = c.marks.half(), c.marks.oldest(); c.marks.n <= c.marks.size { // they begin to go round
			c.markHead = offset(last)
		}
		head, tail = min(head, c.markHead), max(tail, offset(first))
	}
	if !c.gap || head != c.headEnd {
		c.headEnd, c.headSeq = head, behind(0, last, head)
	}
	c.gap, c.tailFrom, c.tailSeq = true, tail, behind(first, c.marks.next, tail)
	return err
}

// mark reads the offset of mark i.
func (c *contents) mark(storage Storage, i int64) (int64, error) {
	var one [markSize]byte
	err := get(storage, c.marks, i, one[:], c.base, markSize)
	return int64(binary.LittleEndian.Uint64(one[:]) >> 2), err
}

// put writes items of a size to the places behind those that are written.
func put(storage Storage, r ring, items []byte, base, size int64) error {
	for first := r.n; len(items) > 0; {
		at, run := r.place(first)
		n := min(int64(len(items)), run*size)
		if _, err := storage.WriteAt(items[:n], base+at*size); err != nil {
			return err
		}
		items, first = items[n:], first+n/size
	}
	return nil
}

// get reads items of a size from their places.
func get(storage Storage, r ring, first int64, items []byte, base, size int64) error {
	for len(items) > 0 {
		at, run := r.place(first)
		n := min(int64(len(items)), run*size)
		if _, err := storage.ReadAt(items[:n], base+at*size); err != nil {
			return err
		}
		items, first = items[n:], first+n/size
	}
	return nil
}
