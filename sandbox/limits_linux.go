package sandbox

import (
	"fmt"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/cgroup"
	"github.com/execbus/execbus/sandbox/internal/isolate"
)

// limited adds the limits of a launch to its enforcement, or says which one cannot be enforced.
func limited(e messages.Enforcement, l messages.Limits) (messages.Enforcement, error) {
	l.OutputBytes, l.WallTime = 0, 0 // ptyio enforces them
	if set := l.Set(); len(set) > 0 && birth.Refused() != nil {
		return e, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "limit " + string(set[0]), Detail: "the kernel lets no child share " +
			"its parent's memory, as under a user-mode emulator, so none can limit itself; commands run here with --sandbox danger-full-access and without this limit"}
	}
	e.Mechanisms, e.Missing = slices.Clone(e.Mechanisms), slices.Clone(e.Missing)
	if l.Processes > 0 && !cgroup.Enforces(messages.LimitProcesses) {
		if e.Level != messages.AssuranceIsolated || isolate.ProbeTasks() != nil {
			return e, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "limit " + string(messages.LimitProcesses),
				Detail: "it needs a control group, and none can be made here, or isolation on Linux 6.14 or newer; " +
					"run the command in a sandbox that isolates it, delegate a group, as systemd-run --user -p Delegate=yes does, or leave the limit out"}
		}
		e.Mechanisms = append(e.Mechanisms, "pid_max of the namespace")
		e.Missing = append(e.Missing, messages.Missing{What: "an exact limit for processes", Why: fmt.Sprintf(
			"no control group can be made here; the kernel refuses more than %d to %d", l.Processes, l.Processes+300)})
	}
	const groups, each = "control groups", "limits of each process"
	for _, bound := range []struct {
		limit messages.Limit
		set   bool
		what  string
	}{{messages.LimitProcesses, l.Processes > 0, ""}, {messages.LimitMemory, l.MemoryBytes > 0, "memory"}, {messages.LimitCPUTime, l.CPUTime > 0, "CPU time"}} {
		switch {
		case !bound.set, bound.what == "" && !cgroup.Enforces(bound.limit):
		case cgroup.Enforces(bound.limit):
			e.Mechanisms = appendOnce(e.Mechanisms, groups)
		default:
			e.Mechanisms = appendOnce(e.Mechanisms, each)
			e.Missing = append(e.Missing, messages.Missing{What: "a limit for the " + bound.what + " of all processes together",
				Why: "no control group can be made here; each process may use as much"})
		}
	}
	if l.OpenFiles > 0 {
		e.Mechanisms = appendOnce(e.Mechanisms, each)
	}
	return e, nil
}

func appendOnce(list []string, word string) []string {
	if slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}
