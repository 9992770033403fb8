package procs

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// reserve keeps descriptors open that nothing needs. Where this process has no others left, one goroutine at a time closes them, uses
// their numbers to see or to signal a member, and takes them back.
type reserve struct {
	once sync.Once
	mu   sync.Mutex // held while they are in use
	most int        // how many are to be kept; 0 before take
	kept []int
}

// reserved is how many there are. A signal needs two at once; the others are for those that another thread takes meanwhile.
const reserved = 4

var Spare reserve

// Take opens the descriptors. Later calls do nothing.
func (r *reserve) Take() {
	r.once.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.most = reserved
		r.fill()
	})
}

// fill opens those that are missing. It is called with the lock held.
func (r *reserve) fill() {
	for len(r.kept) < r.most {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		r.kept = append(r.kept, fd)
	}
}

// use calls do once more if it has failed because there are no descriptors left.
func (r *reserve) use(err error, do func() error) error {
	if !Scarce(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fd := range r.kept {
		_ = unix.Close(fd)
	}
	r.kept = r.kept[:0]
	defer r.fill()
	return do()
}

// Scarce reports whether an error means that this process, or the system, has no descriptors left.
func Scarce(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }
