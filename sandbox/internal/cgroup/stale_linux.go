package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/execbus/execbus/sandbox/internal/procs"
)

// prefix begins the names of all our groups. The pid namespace, the pid and the start of the host follow, and a number.
const prefix = "execbus-"

// mine returns the beginning of the names of this process's groups.
func mine() string {
	begun, _ := procs.Begun(os.Getpid())
	return fmt.Sprintf("%s%s-%d-%d-", prefix, numbers(), os.Getpid(), begun)
}

// numbers names the pid namespace. A pid means nothing without it.
func numbers() string {
	link, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
}

// removeStale removes the groups of dead hosts. A process that still lives in one has outlived its warden, and is killed.
func removeStale(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if orphaned(entry.Name()) {
			remove(filepath.Join(dir, entry.Name()), time.Now().Add(removeWait))
		}
	}
}

// orphaned reports whether a name belongs to a group whose host was in our namespace and is dead.
func orphaned(name string) bool {
	rest, ours := strings.CutPrefix(name, prefix+numbers()+"-")
	fields := strings.Split(rest, "-")
	if !ours || len(fields) != 3 {
		return false
	}
	pid, err := strconv.Atoi(fields[0])
	begun, err2 := strconv.ParseUint(fields[1], 10, 64)
	if err != nil || err2 != nil {
		return false
	}
	now, err := procs.Begun(pid)
	return err != nil || now != begun
}
