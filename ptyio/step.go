package ptyio

import "syscall"

// StepError is an errno of Starter.Start that is known to be of one step on the way to the program.
type StepError struct {
	Step  string // such as "chdir" or "execve"
	Errno syscall.Errno
}

func (e *StepError) Error() string { return e.Step + ": " + e.Errno.Error() }

// Unwrap is the errno.
func (e *StepError) Unwrap() error { return e.Errno }

// aboutProgram reports whether an errno can be the program's: it is that of the execution, or of an unknown step.
func (e *StepError) aboutProgram() bool { return e == nil || e.Step == "execve" }

// aboutDir reports whether it is the directory's.
func (e *StepError) aboutDir() bool { return e != nil && e.Step == "chdir" }
