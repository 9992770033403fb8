package procs

import (
	"bytes"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Unexecuted is a child between its birth and the execution of its program.
type Unexecuted struct {
	PID   int
	start uint64
}

// FindUnexecuted looks among the children of a process for one before exec that is not running: it waits, perhaps for a file system, or is
// stopped. The caller must be allowed to trace both.
func FindUnexecuted(parent int) (child Unexecuted, found bool) {
	ours, err := layout(parent)
	if err != nil {
		return Unexecuted{}, false
	}
	children, _ := Children(parent)                 // of all its threads
	for _, pid := range slices.Backward(children) { // the youngest of a thread comes last
		if isFirst(pid) {
			// Process 1 never executes anything. It waits once it has started its command. Before that it can hang, but only inside
			// the kernel, where it cannot be killed.
			if p, err := Read(pid); err == nil && p.State == 'D' {
				return Unexecuted{p.PID, p.Start}, true
			}
			continue
		}
		theirs, err := layout(pid)
		if err != nil || theirs != ours {
			continue
		}
		if p, err := Read(pid); err == nil && !p.Dead() && p.State != 'R' {
			return Unexecuted{p.PID, p.Start}, true
		}
	}
	return Unexecuted{}, false
}

// isFirst reports whether a process is process 1 of a pid namespace below ours.
func isFirst(pid int) bool {
	var room [2048]byte
	text, err := ReadFile("/proc/"+strconv.Itoa(pid)+"/status", room[:])
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pids := bytes.Fields(line)
	return len(pids) > 1 && string(pids[len(pids)-1]) == "1"
}

// Kill kills exactly this child.
func (n Unexecuted) Kill() error { return Kill(n.PID, n.start) }

// layout returns the addresses of a process's program, stack, arguments and environment. It is equal in two processes only if
// neither has executed anything since one started the other.
func layout(pid int) (at [5]uint64, err error) {
	var room [1024]byte
	text, err := ReadFile("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	if err != nil {
		return at, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 49 {
		return at, errMalformed
	}
	for i, field := range []int{26, 28, 48, 50, 51} { // as proc(5) numbers them; the state is the third
		if at[i], err = strconv.ParseUint(string(fields[field-3]), 10, 64); err != nil {
			return at, errMalformed
		}
	}
	if at[1] == 0 { // this process may not see it
		return at, unix.EPERM
	}
	return at, nil
}
