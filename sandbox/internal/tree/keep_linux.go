package tree

import (
	"time"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// keep waits until the last background child is gone or the tree is being ended. It waits for the death of one member after
// another, so an idle tree costs nothing.
func (t *Tree) keep() {
	for {
		found := t.members()
		if len(found) == 0 && t.deserted() {
			return
		}
		if !t.awaitDeath(oldest(found)) {
			return
		}
	}
}

// oldest returns the oldest member. It is likely to live longest, because the members of a busy tree come and go.
func oldest(members []procs.Process) (p procs.Process) {
	for i, m := range members {
		if i == 0 || m.Start < p.Start {
			p = m
		}
	}
	return p
}

// awaitDeath waits until a process is dead, and at least for keptPoll. If it cannot wait for the process, it waits for keptPoll
// only. It returns false when the tree is being ended.
func (t *Tree) awaitDeath(p procs.Process) bool {
	dead := make(chan struct{})
	file := procs.Open(p)
	if file == nil {
		close(dead)
	} else {
		go func() {
			defer close(dead)
			AwaitEnd(file)
			_ = file.Close()
		}()
		defer func() { _ = file.SetReadDeadline(time.Unix(1, 0)) }() // this ends the wait
	}
	rested := make(chan struct{})
	pause := time.AfterFunc(keptPoll, func() { close(rested) })
	defer pause.Stop()
	for _, event := range []chan struct{}{rested, dead} {
		select {
		case <-event:
		case <-t.shorter: // End was called
			return false
		case <-t.done:
			return false
		}
	}
	return true
}
