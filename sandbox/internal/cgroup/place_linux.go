package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The controllers.
const (
	pids    = "pids"
	memory  = "memory"
	cpuacct = "cpuacct" // in version 2 every group counts it
)

// place is where groups can be made: one directory for all controllers in version 2, one for each in version 1.
type place struct {
	unified bool
	dirs    map[string]string // by controller
}

// ErrNone says that there is no place for a controller.
var ErrNone = errors.New("no control group can be made here")

// found finds, once, the place where groups can be made, and removes the groups that dead hosts have left there.
var found = sync.OnceValue(func() place {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	p := unified(string(mounts), string(own))
	if len(p.dirs) == 0 {
		p = separate(string(mounts), string(own))
	}
	for _, dir := range p.all() {
		sweep(dir)
	}
	return p
})

func (p place) all() []string {
	var dirs []string
	for _, dir := range p.dirs {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

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

// unified finds a group of version 2 that hands its controllers down, and in which this process may make others: its own
// group, or the parent of that.
func unified(mountinfo, own string) place {
	p := place{unified: true, dirs: map[string]string{}}
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
			handed, _ := os.ReadFile(dir + "/cgroup.subtree_control")
			controllers := strings.Fields(string(handed))
			if slices.Contains(controllers, pids) && slices.Contains(controllers, memory) {
				p.dirs[pids], p.dirs[memory], p.dirs[cpuacct] = dir, dir, dir
				return p
			}
		}
	}
	return p
}

// separate finds the groups of version 1.
func separate(mountinfo, own string) place {
	p := place{dirs: map[string]string{}}
	groups := groupsOf(own)
	for _, m := range mountsOf(mountinfo) {
		for _, controller := range []string{pids, memory, cpuacct} {
			if m.kind != "cgroup" || !slices.Contains(m.options, controller) {
				continue
			}
			if dir := m.below(groups[controller]); mayMake(dir) {
				p.dirs[controller] = dir
			}
		}
	}
	return p
}

// mayMake reports whether this process may make a group in a directory, and move processes out of it.
func mayMake(dir string) bool {
	return unix.Access(dir, unix.W_OK) == nil && unix.Access(dir+"/cgroup.procs", unix.W_OK) == nil
}
