package birth

import (
	"errors"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Visit makes steps in a short-lived process in new namespaces, and returns the contents of results. That process shares this
// one's memory and descriptors, so what it opens is ours. The calling thread waits; no step may take long.
func Visit(namespaces uintptr, steps []Step, results *Memory) ([]uint64, error) {
	m := made{steps: append(slices.Clone(steps), exit), last: len(steps)}
	s := lay(m)
	h := s.header()
	h.flags = unix.CLONE_VM | unix.CLONE_FILES | uint64(namespaces) // no exit signal: no other code must see its end
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	pid, errno := clone(h)
	if errno != 0 {
		return nil, &Error{Step: "clone" + flags(namespaces), Errno: unix.Errno(errno)}
	}
	bury(int(pid))
	at := s.now()
	if failed := unix.Errno(h.errno); failed != 0 || at < len(steps) {
		return nil, &Error{Step: m.name(at), Index: m.index(at), Errno: failed}
	}
	place := s.known[results] / wordSize
	return slices.Clone(s.words[place : place+len(results.words)]), nil
}

// Refused says why the kernel refuses the clone without which only a plain launch is made; nil if it does not. It is tried once.
var Refused = sync.OnceValue(func() error {
	none := NewMemory(0)
	_, err := Visit(0, []Step{Call("pid", unix.SYS_GETPID).Keep(none, 0)}, none)
	return refusal(err)
})

// refusal returns the error of a clone that fails on this kernel always, and nil for others, such as a lack of processes.
func refusal(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return err
	}
	return nil
}
