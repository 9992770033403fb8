package host

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/cgroup"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// limitPoll is how often a control group, or a pid namespace, is asked whether it has reached a limit. If an answer takes
// long, it is asked less often, so that the answers take only a part of the time.
const (
	limitPoll = 20 * time.Millisecond
	limitPart = 20
)

// bounds are the limits of one tree that the kernel enforces. ptyio enforces limits on bytes and wall time.
type bounds struct {
	limits  messages.Limits
	group   *cgroup.Group // nil if there is none
	tasks   int           // how many processes and threads the namespace of an isolated leader may have; zero for no bound
	reached func(messages.Limit)
	over    chan struct{}
}

// bind makes the bounds of a start, and makes the start report them. If the start fails, the group has to be removed.
func bind(start *ptyio.Start) (*bounds, error) {
	b := &bounds{limits: start.Limits, reached: start.Reached, over: make(chan struct{})}
	if b.limits.Processes > 0 && !cgroup.Enforces(messages.LimitProcesses) {
		b.tasks = b.limits.Processes
	}
	var err error
	if b.group, err = cgroup.Make(b.limits); err != nil {
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "limits",
			Detail: fmt.Sprintf("no control group can be made for them: %v; leave the limits out", err)}
	}
	if b.group == nil && b.tasks == 0 && b.limits.CPUTime == 0 {
		return b, nil // nothing can be reached
	}
	exited, ended := start.Exited, start.TreeEnded
	start.Exited = func(status messages.ExitStatus, lost error) {
		if limit := b.saw(status); limit != "" {
			b.reached(limit)
		}
		exited(status, lost)
	}
	start.TreeEnded = func(report messages.TreeReport) {
		close(b.over)
		go func() { // dead processes may stay in the group for a moment
			b.group.Remove()
			ended(report)
		}()
	}
	return b, nil
}

// rlimits returns limits that the leader sets for itself and that its children inherit. If no group enforces a limit, each
// process may use as much as the limit.
func (b *bounds) rlimits() (all []tree.Rlimit) {
	set := func(resource int, soft, hard uint64) {
		all = append(all, tree.Rlimit{Resource: resource, Soft: soft, Hard: hard})
	}
	if n := uint64(b.limits.OpenFiles); n > 0 {
		set(unix.RLIMIT_NOFILE, n, n)
	}
	if b.limits.CPUTime > 0 && !b.group.Holds(messages.LimitCPUTime) {
		seconds := uint64((b.limits.CPUTime + time.Second - 1) / time.Second)
		set(unix.RLIMIT_CPU, seconds, seconds+1)
	}
	if n := uint64(b.limits.MemoryBytes); n > 0 && !b.group.Holds(messages.LimitMemory) {
		set(unix.RLIMIT_DATA, n, n)
	}
	return all
}

// watch checks, until the tree is over, whether it has reached a limit. It is called when the leader lives.
func (b *bounds) watch(leader int) {
	if b.group == nil && b.tasks == 0 {
		return
	}
	var inside *tasks
	if b.tasks > 0 {
		inside = tasksOf(leader)
	}
	go func() {
		if inside != nil {
			defer inside.close()
		}
		wait := time.NewTimer(limitPoll)
		defer wait.Stop()
		for {
			select {
			case <-b.over:
				return
			case <-wait.C:
			}
			began := time.Now()
			limit := b.group.Reached()
			if inside != nil && inside.count() > b.tasks {
				limit = messages.LimitProcesses
			}
			if limit != "" {
				b.reached(limit)
				return
			}
			wait.Reset(max(limitPoll, limitPart*time.Since(began)))
		}
	}()
}

// saw returns the limit that ended a leader with this status.
func (b *bounds) saw(status messages.ExitStatus) messages.Limit {
	if status == messages.StatusSignaled(unix.SIGXCPU) && b.limits.CPUTime > 0 {
		return messages.LimitCPUTime
	}
	return b.group.Reached()
}

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
