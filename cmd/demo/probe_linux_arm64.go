package main

import "golang.org/x/sys/unix"

// System calls that wait for descriptors, grouped by how they name them.
var (
	polls   = []int{unix.SYS_PPOLL}
	selects = []int{unix.SYS_PSELECT6}
	epolls  = []int{unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}
)
