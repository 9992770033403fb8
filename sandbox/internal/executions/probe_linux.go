package executions

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// Refused says why executions cannot be seen here; nil if they can be. A child tries once to execute a directory, and is seen and refused.
// If the kernel has refused a step, the error has its errno.
var Refused = sync.OnceValue(func() error {
	filter, err := NewFilter()
	switch {
	case err != nil:
		return err
	case seccomp.Executions(filter.Secret) == nil:
		return unix.ENOSYS
	case birth.Refused() != nil:
		return birth.Refused()
	}
	child, err := birth.Begin(append(append(filter.Steps, birth.FewFiles(nil)...), birth.Execve("/", []string{"/"}, nil)))
	if err != nil {
		return err
	}
	listener := filter.Listener(child)
	for ; listener < 0 && !child.Over(); listener = filter.Listener(child) {
		<-time.After(50 * time.Microsecond)
	}
	unread := make(chan string, 1)
	if listener >= 0 {
		var w *Watch
		started := make(chan struct{})
		w = Start(listener, Wanted{All: true, Judge: true}, To{
			Ask: func(number uint64, e Execution) {
				<-started
				unread <- e.Unread
				w.Answer(number, Refuse)
			},
			Settled: func(uint64, Fate) {},
		})
		close(started)
		defer w.Close()
	}
	err = child.Wait()
	child.Reap()
	child.Release()
	_ = unix.Close(child.PIDFD)
	select {
	case why := <-unread:
		if why != "" {
			return errors.New(why)
		}
		return nil
	default:
		return err
	}
})
