package birth

import "golang.org/x/sys/unix"

const mkdir = unix.SYS_MKDIRAT // it has no other
