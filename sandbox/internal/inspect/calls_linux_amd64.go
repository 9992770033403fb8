package inspect

import "golang.org/x/sys/unix"

// kinds are the system calls that wait until there is something to read.
var kinds = map[uint64]kind{
	unix.SYS_READ: reading, unix.SYS_READV: reading,
	unix.SYS_POLL: polling, unix.SYS_PPOLL: polling,
	unix.SYS_SELECT: selecting, unix.SYS_PSELECT6: selecting,
	unix.SYS_EPOLL_WAIT: watching, unix.SYS_EPOLL_PWAIT: watching, unix.SYS_EPOLL_PWAIT2: watching,
}

// sysPoll is the number of the call whose time to wait is a number of milliseconds, and no pointer.
const sysPoll = unix.SYS_POLL
