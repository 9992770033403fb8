package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// controllers are the names of those that hold the limits. In version 2 every group counts CPU time, without a controller.
var controllers = map[messages.Limit]string{messages.LimitProcesses: "pids", messages.LimitMemory: "memory", messages.LimitCPUTime: "cpuacct"}

// hierarchy is where groups can be made: one directory for all limits in version 2, one for each in version 1.
type hierarchy struct {
	unified bool
	dirs    map[messages.Limit]string
}

// found finds, once, where groups can be made, and removes the groups that dead hosts have left there.
var found = sync.OnceValue(func() hierarchy {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	h := version2(string(mounts), string(own))
	if len(h.dirs) == 0 {
		h = version1(string(mounts), string(own))
	}
	for _, dir := range h.all() {
		removeStale(dir)
	}
	return h
})

func (h hierarchy) all() []string { return slices.Compact(slices.Sorted(maps.Values(h.dirs))) }

// mount is a line of mountinfo for control groups.
type mount struct {
	root, point, kind string
	options           []string
}

func mountsOf(mountinfo string) (all []mount) {
	for line := range strings.Lines(mountinfo) {
		head, tail, _ := strings.Cut(line, " - ")
		fields, more := strings.Fields(head), strings.Fields(tail)
		if len(fields) < 5 || len(more) < 3 || more[0] != "cgroup" && more[0] != "cgroup2" {
			continue
		}
		all = append(all, mount{root: fields[3], point: fields[4], kind: more[0], options: strings.Split(more[2], ",")})
	}
	return all
}

// below returns the path of a group inside a mount.
func (m mount) below(group string) string {
	relative, err := filepath.Rel(m.root, group)
	if err != nil || relative == ".." || strings.HasPrefix(relative, "../") {
		return m.point
	}
	return filepath.Join(m.point, relative)
}

// groupsOf returns the groups of this process, by controller. The group of version 2 has no name.
func groupsOf(own string) map[string]string {
	groups := map[string]string{}
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 {
			for controller := range strings.SplitSeq(fields[1], ",") {
				groups[controller] = fields[2]
			}
		}
	}
	return groups
}

// version2 finds a group of version 2 that hands its controllers down, and in which this process may make others: its own
// group, or the parent of that.
func version2(mountinfo, own string) hierarchy {
	h := hierarchy{unified: true, dirs: map[messages.Limit]string{}}
	group, in := groupsOf(own)[""]
	for _, m := range mountsOf(mountinfo) {
		if m.kind != "cgroup2" || !in {
			continue
		}
		dir := m.below(group)
		for _, dir := range []string{dir, filepath.Dir(dir)} {
			if !strings.HasPrefix(dir, m.point) || !mayMake(dir) {
				continue
			}
			text, _ := os.ReadFile(dir + "/cgroup.subtree_control")
			handed := strings.Fields(string(text))
			if slices.Contains(handed, "pids") && slices.Contains(handed, "memory") {
				for limit := range controllers {
					h.dirs[limit] = dir
				}
				return h
			}
		}
	}
	return h
}

// version1 finds the groups of version 1.
func version1(mountinfo, own string) hierarchy {
	h := hierarchy{dirs: map[messages.Limit]string{}}
	groups := groupsOf(own)
	for _, m := range mountsOf(mountinfo) {
		for limit, controller := range controllers {
			if m.kind != "cgroup" || !slices.Contains(m.options, controller) {
				continue
			}
			if dir := m.below(groups[controller]); mayMake(dir) {
				h.dirs[limit] = dir
			}
		}
	}
	return h
}

// mayMake reports whether this process may make a group in a directory, and move processes out of it.
func mayMake(dir string) bool {
	return unix.Access(dir, unix.W_OK) == nil && unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil
}
