package ptyio

import "syscall"

// StepError is an errno of Starter.Start, with the step of the start that failed.
type StepError struct {
	Step  string // such as "chdir" or "execve"
	Errno syscall.Errno
}

func (e *StepError) Error() string { return e.Step + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *StepError) Unwrap() error { return e.Errno }

// aboutProgram reports whether the errno may concern the program: the step is the execution, or is not known.
func (e *StepError) aboutProgram() bool { return e == nil || e.Step == "execve" }

// aboutDir reports whether the errno concerns the directory.
func (e *StepError) aboutDir() bool { return e != nil && e.Step == "chdir" }
