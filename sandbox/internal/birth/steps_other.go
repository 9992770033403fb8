//go:build !linux

package birth

import "syscall"

// call is empty: there is no clone of our own here.
type call struct{}

func wantPIDFD(*syscall.SysProcAttr, *int) {}

// Start starts a process. There are no pidfds here, so pidfd is -1.
func Start(steps []Step) (pid, pidfd int, err error) { return forkExec(steps) }

// Setsid makes a session of its own.
func Setsid() Step { return Step{Name: "setsid", plain: setsid} }

// ControllingTTY gives the session a terminal: the descriptor of that number, after Files.
func ControllingTTY(fd int) Step {
	return Step{Name: "controlling terminal", plain: controllingTTY(fd)}
}

// Files gives the process these descriptors, numbered from 0; -1 leaves a number closed.
func Files(fds []int) []Step { return []Step{{Name: "files", plain: files(fds)}} }

// Chdir changes the directory.
func Chdir(path string) Step { return Step{Name: "chdir", plain: chdir(path)} }

// Execve executes the program. It is the last step.
func Execve(path string, argv, env []string) Step {
	return Step{Name: "execve", plain: execute(path, argv, env)}
}
