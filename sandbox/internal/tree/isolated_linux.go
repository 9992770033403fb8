package tree

import (
	"encoding/binary"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// soon is how long after the leader's exit process 1 has to find that nothing else is left, and to end. After that the tree
// counts as one with background children.
const soon = 20 * time.Millisecond

// isolated belongs to a tree whose root is process 1 of a pid namespace. No process leaves the namespace, and all of them
// die with process 1.
type isolated struct {
	reports *os.File // reports of process 1
	leader  int      // the command's pid; zero if it was gone before we saw it
}

// BeginIsolated begins the birth of a leader in namespaces, as Begin does. It ignores Program, Argv, Env, Dir and Files of the
// spec: the launch has them. Reports is our end of the pipe to which the launch reports.
func (f *Forest) BeginIsolated(spec Spec, launch birth.Namespaced, reports *os.File) (*Tree, error) {
	f.forking.Lock()
	defer f.forking.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	t := f.newTree()
	t.isolated = &isolated{reports: reports}
	t.roots = t.adopted
	t.list = f.listOf(unix.Gettid())
	t.earliest = procs.BootTicks()
	var err error
	t.list.undisturbed(func() {
		var child *birth.Child
		if child, err = birth.BeginNamespaced(launch); err != nil {
			return
		}
		spec.Program, spec.Argv, spec.Env, spec.Dir, spec.Files = "", nil, nil, "", nil
		f.enter(t, spec, child)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Undisturbed calls a function that starts and reaps children of this thread that are not leaders. Outside Undisturbed they would
// be taken for orphans of trees.
func (f *Forest) Undisturbed(do func() error) (err error) {
	f.listOf(unix.Gettid()).undisturbed(func() { err = do() })
	return err
}

// found notes the pid of the leader: the first child of process 1. Process 1 does not reap it before it is released.
func (i *isolated) found(first int) {
	if children, err := procs.Children(first); err == nil && len(children) > 0 {
		i.leader = children[0]
	}
}

// await reads reports until that of the leader's exit. If the reports end before, the leader was killed with process 1.
func (i *isolated) await() Status {
	for {
		var record [16]byte // a birth.Record
		_, err := io.ReadFull(i.reports, record[:])
		status := syscall.WaitStatus(binary.NativeEndian.Uint64(record[8:]))
		switch {
		case err != nil:
			return Status{Signaled, int(unix.SIGKILL)}
		case binary.NativeEndian.Uint64(record[:]) == 0: // it has begun
		case status.Exited():
			return Status{Exited, status.ExitStatus()}
		default:
			return Status{Signaled, int(status.Signal())}
		}
	}
}

// watchIsolated is Watch for an isolated tree. The exit is reported at once: process 1 ends if nothing is left.
func (t *Tree) watchIsolated() {
	status := t.isolated.await()
	close(t.exited)
	t.spec.Exited(status)
	_ = t.pidfd.SetReadDeadline(time.Now().Add(soon))
	AwaitEnd(t.pidfd)
	_ = t.pidfd.SetReadDeadline(time.Time{})
	t.endRest()
}

// others returns the members except process 1, which belongs to no command.
func (t *Tree) others() (others []procs.Process) {
	for _, p := range t.members() {
		if t.isolated == nil || p.PID != t.pid {
			others = append(others, p)
		}
	}
	return others
}

// adopted returns the children of process 1: it has got those of members that have died since the walk began there.
func (t *Tree) adopted() (found []procs.Process, settled bool) {
	children, err := procs.Children(t.pid)
	for _, pid := range children {
		if p, err := procs.Read(pid); err == nil && !p.Dead() {
			found = append(found, p)
		}
	}
	return found, err == nil
}

// firstDead reports whether process 1 is dead. Then all others are dead, too.
func (t *Tree) firstDead() (dead bool) {
	p, err := procs.Read(t.pid) // it is our child, and is reaped only when the tree is forgotten
	return err != nil && !procs.Scarce(err) || err == nil && p.Dead()
}

// killFirst kills process 1; the kernel then kills all others.
func (t *Tree) killFirst(until time.Time) []Survivor {
	t.members() // to count them
	for !t.firstDead() {
		_ = unix.Kill(t.pid, unix.SIGKILL) // our own child
		t.awaitEmpty(time.Now().Add(killAgain))
		if t.hopeless(until, nil) {
			return t.giveUp(nil)
		}
	}
	return nil
}

// close closes the resources that an isolated tree holds until its end.
func (t *Tree) close() {
	if t.isolated == nil {
		return
	}
	_ = t.isolated.reports.Close()
	if t.pidfd != nil {
		_ = t.pidfd.Close()
	}
}
