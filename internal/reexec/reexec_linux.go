// Package reexec says whether this program can be executed again, to become a process of another kind.
//
//	if why := reexec.CannotExecute(); why == "" {
//		err := syscall.Exec(reexec.Self, []string{"execbus-warden"}, env)
//	}
//
// # What you must not assume
//
// That the program can be executed because no reason against it is known: the kernel decides.
package reexec

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Self is the executable of this process, even if it has been deleted or replaced since.
const Self = "/proc/self/exe"

// CannotExecute says why this process must not be executed again, before it is tried; it is empty if no reason is known. In
// a library inside of another program /proc/self/exe is that program, and under the dynamic loader it is the loader.
func CannotExecute() (why string) {
	info, err := os.Stat(Self)
	if err != nil {
		return "its executable cannot be found: " + err.Error()
	}
	if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 || hasCapabilities(Self) {
		return "its executable gives rights, which the host may have dropped"
	}
	path, err := os.Readlink(Self)
	if err != nil {
		return ""
	}
	code, inode, known := codeFile()
	if stat, ok := info.Sys().(*syscall.Stat_t); known && code != path && (!ok || inode != stat.Ino) {
		return fmt.Sprintf("this code lies in %s, and the process executes %s", code, path)
	}
	return ""
}

func hasCapabilities(path string) bool {
	size, err := unix.Getxattr(path, "security.capability", nil)
	return err == nil && size > 0
}

// codeFile is the file from which this code was loaded.
func codeFile() (path string, inode uint64, known bool) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return "", 0, false
	}
	defer maps.Close()
	here := uint64(reflect.ValueOf(codeFile).Pointer())
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 { // anonymous memory
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		low, errLow := strconv.ParseUint(from, 16, 64)
		high, errHigh := strconv.ParseUint(to, 16, 64)
		if errLow != nil || errHigh != nil || here < low || here >= high {
			continue
		}
		inode, _ = strconv.ParseUint(fields[4], 10, 64)
		_, path, _ = strings.Cut(lines.Text(), " "+fields[4]+" ")
		return strings.TrimLeft(path, " "), inode, true
	}
	return "", 0, false
}
