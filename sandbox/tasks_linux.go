package sandbox

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// tasks counts the processes and threads of a pid namespace in its own /proc.
type tasks struct{ proc *os.File }

// tasksOf finds the namespace of an isolated leader. It returns nil if the leader is gone.
func tasksOf(leader int) *tasks {
	proc, err := os.Open(fmt.Sprintf("/proc/%d/root/proc", leader))
	if err != nil {
		return nil
	}
	ours, _ := os.Readlink("/proc/self/ns/pid")
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", leader))
	if err != nil || theirs == ours { // the number belongs to another process
		_ = proc.Close()
		return nil
	}
	return &tasks{proc}
}

// count returns the number of tasks without process 1, which belongs to no command.
func (t *tasks) count() (number int) {
	if _, err := t.proc.Seek(0, io.SeekStart); err != nil {
		return 0
	}
	names, _ := t.proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err != nil || pid == 1 {
			continue
		}
		var stat unix.Stat_t // the two links of an empty directory, and one for each thread
		if unix.Fstatat(int(t.proc.Fd()), name+"/task", &stat, 0) == nil && stat.Nlink > 2 {
			number += int(stat.Nlink) - 2
		}
	}
	return number
}

func (t *tasks) close() { _ = t.proc.Close() }
