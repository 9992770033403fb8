package birth

import (
	"encoding/binary"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Nursery is a thread whose state newborns inherit. A newborn inherits a system call filter at no cost; installing one would
// take as long as everything else together. The thread lives until the process ends. It must never be in a Landlock domain:
// its newborns share its memory until they execute, and a process in the same domain could reach it.
type Nursery struct {
	work   chan func()
	secret [2]uint32
}

// NewNursery starts the thread. Prepare is called on it with a random word, for Secret; after its error there is no thread.
func NewNursery(prepare func(secret [2]uint32) error) (*Nursery, error) {
	var random [8]byte
	if n, err := unix.Getrandom(random[:], 0); err != nil || n < len(random) { // crypto/rand has initialisers
		return nil, syscall.EAGAIN
	}
	n := &Nursery{work: make(chan func()), secret: [2]uint32{binary.LittleEndian.Uint32(random[:]) | 1, binary.LittleEndian.Uint32(random[4:])}}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // the preparation cannot be undone, so the thread must never be used for anything else
		if err := prepare(n.secret); err != nil {
			ready <- err
			return
		}
		ready <- nil
		for do := range n.work {
			do()
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	return n, nil
}

// Do calls a function on the thread and waits. On a nil Nursery it calls the function on the caller's thread.
func (n *Nursery) Do(f func()) {
	if n == nil {
		f()
		return
	}
	done := make(chan struct{})
	n.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Secret is shown by newborns in calls that the filter allows only to them; it is zero for a nil Nursery.
func (n *Nursery) Secret() [2]uint32 {
	if n == nil {
		return [2]uint32{}
	}
	return n.secret
}
