package birth

import "golang.org/x/sys/unix"

// Memory is some words that the steps of one birth share: a step keeps its result there, or the kernel writes something there
// that a later step passes on. Each birth has a copy of its own.
type Memory struct{ words []uint64 }

// NewMemory makes a memory with these initial words.
func NewMemory(words ...uint64) *Memory { return &Memory{words} }

// Operand is an argument of a Call.
type Operand = operand

// Text is the address of a string with a zero behind it.
func Text(s string) Operand { return text(s) }

// Number passes n itself.
func Number(n int) Operand { return number(n) }

// Words is the address of a copy of these words.
func Words(words ...uint64) Operand { return values(words) }

// At is the address at this offset, in bytes.
func (m *Memory) At(offset int) Operand { return location{m, offset} }

// Word is the value of a word when the call is made.
func (m *Memory) Word(index int) Operand { return content{location{m, index * wordSize}} }

// Call is any system call.
func Call(name string, number uintptr, args ...Operand) Step { return step(name, number, args...) }

// Keep keeps the result of the call in a word of the memory.
func (s Step) Keep(m *Memory, index int) Step {
	s.call.result, s.call.index = m, index
	return s
}

// MayFail lets the birth continue if the step fails.
func (s Step) MayFail() Step {
	s.call.rule = mayFail
	return s
}

// MustBe fails with ESRCH unless the result is want.
func (s Step) MustBe(want uint64) Step {
	s.call.rule, s.call.want = mustBe, want
	return s
}

// SameWord compares 32 bits of a memory with want, by a call that does nothing else. If they differ it fails with EAGAIN.
func SameWord(name string, m *Memory, offset int, want uint32) Step {
	const compareRequeue = 4 // FUTEX_CMP_REQUEUE; nobody waits there
	return Call(name, unix.SYS_FUTEX, m.At(offset), number(compareRequeue), number(0), number(0), m.At(offset), number(want))
}

type (
	location struct {
		memory *Memory
		offset int
	}
	content struct{ location } // the step passes on the word itself
)

func (l location) size(known map[*Memory]int) int {
	if _, twice := known[l.memory]; twice {
		return 0
	}
	known[l.memory] = 0
	return len(l.memory.words) * wordSize
}

func (l location) put(s *block) uint64 { return s.place(l.memory) + uint64(l.offset) }

// place returns the address of a memory. The first call lays it out.
func (s *block) place(m *Memory) uint64 {
	offset, known := s.known[m]
	if !known {
		offset = s.free
		s.take(len(m.words) * wordSize)
		copy(s.words[offset/wordSize:], m.words)
		s.known[m] = offset
	}
	return s.address(offset)
}
