package birth

import "golang.org/x/sys/unix"

const mkdir = unix.SYS_MKDIR
