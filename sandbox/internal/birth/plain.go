package birth

import "syscall"

// plain is a launch in the form that syscall.ForkExec takes.
type plain struct {
	path string
	argv []string
	attr syscall.ProcAttr
}

// forkExec makes the steps in the order of syscall.ForkExec, if it can. The pidfd is -1 where there is none.
func forkExec(steps []Step) (pid, pidfd int, err error) {
	pidfd = -1
	sys := &syscall.SysProcAttr{}
	wantPIDFD(sys, &pidfd)
	p := plain{attr: syscall.ProcAttr{Sys: sys}}
	for i, step := range steps {
		if step.plain == nil {
			return 0, -1, &Error{Step: step.Name, Index: i, Errno: syscall.ENOSYS}
		}
		step.plain(&p)
	}
	pid, err = syscall.ForkExec(p.path, p.argv, &p.attr)
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return 0, -1, &Error{Index: -1, Errno: errno}
	}
	return pid, pidfd, nil
}

func setsid(p *plain) { p.attr.Sys.Setsid = true }

func controllingTTY(fd int) func(*plain) {
	return func(p *plain) { p.attr.Sys.Setctty, p.attr.Sys.Ctty = true, fd }
}

func files(fds []int) func(*plain) {
	return func(p *plain) {
		for _, fd := range fds {
			p.attr.Files = append(p.attr.Files, uintptr(fd)) // ForkExec closes -1
		}
	}
}

func chdir(path string) func(*plain) { return func(p *plain) { p.attr.Dir = path } }

func execute(path string, argv, env []string) func(*plain) {
	return func(p *plain) { p.path, p.argv, p.attr.Env = path, argv, env }
}
