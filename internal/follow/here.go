package follow

import (
	"fmt"
	"os"
	"syscall"
)

// Here returns the working directory as the kernel has it. A program that came into it by a path which a command has replaced is
// somewhere else than its user thinks, and only PWD tells: Here returns an error, too, if PWD is set and leads elsewhere, or here
// through a loose link.
func Here() (dir string, err error) {
	dir, err = syscall.Getwd() // os.Getwd trusts PWD
	pwd := os.Getenv("PWD")
	if err != nil || pwd == "" {
		return dir, err
	}
	here, err := Path(dir)
	if err != nil {
		return dir, err
	}
	here.Close()
	said, err := Path(pwd)
	if err != nil {
		return dir, fmt.Errorf("the working directory is %q, but PWD is %q, which leads nowhere", dir, pwd)
	}
	said.Close()
	if link := said.Loose(); link != nil {
		return dir, fmt.Errorf("the working directory is %q, but PWD is %q and crosses the symbolic link %q to %q, which a command may have made", dir, pwd,
			link.Path, link.Target)
	}
	if len(said.Below) > 0 || said.Device != here.Device || said.Inode != here.Inode {
		return dir, fmt.Errorf("the working directory is %q, but PWD is %q, which leads elsewhere", dir, pwd)
	}
	return dir, nil
}
