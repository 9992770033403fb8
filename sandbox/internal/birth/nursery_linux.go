package birth

import (
	"encoding/binary"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Nursery is a thread that bears what shall have something from its birth on: a newborn inherits a system call filter at no
// cost, and to install one would take it as long as all else together. The thread stays until the process ends. It must never
// be in a Landlock domain: its newborns share its memory until they execute, and a process in the same domain could reach it.
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
		runtime.LockOSThread() // for ever: what is prepared cannot be undone, so that a thread without work ends
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

// Do calls a function on the thread and waits. Without a nursery it calls it here.
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

// Secret is what newborns show where only they may do something; zero without a nursery.
func (n *Nursery) Secret() [2]uint32 {
	if n == nil {
		return [2]uint32{}
	}
	return n.secret
}
