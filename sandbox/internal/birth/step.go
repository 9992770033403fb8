package birth

import (
	"strconv"
	"syscall"
)

// Step is one system call of a child. Functions such as Setsid make steps. A step can be used for any number of births, and
// keeps references to its arguments.
type Step struct {
	Name  string
	call  call
	plain func(*plain) // its form for syscall.ForkExec; nil if that has none
}

// Error is the failure of a step. The process has ended, and nothing is left of it.
type Error struct {
	Step  string        // empty if it is not known, as after syscall.ForkExec
	Index int           // in the list; -1 if it is not known
	Errno syscall.Errno // zero if the child was killed in this step
}

func (e *Error) Error() string {
	why := "killed"
	if e.Errno != 0 {
		why = e.Errno.Error()
	}
	if e.Step == "" {
		return why
	}
	return e.Step + " (step " + strconv.Itoa(e.Index) + "): " + why
}

// Unwrap is the errno, if there is one.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
