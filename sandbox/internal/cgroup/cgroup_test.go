//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

const mounts = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / %[1]s/cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /outer %[1]s/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / %[1]s/pids ro,relatime - cgroup cgroup rw,pids
41 31 0:38 / %[1]s/unified rw,relatime - cgroup2 cgroup2 rw
`

const own = "8:pids:/x\n4:memory:/outer/inner\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/user/session\n"

func TestForACommandWithoutLimitsNobodyLooksForGroups(t *testing.T) {
	saved := found
	defer func() { found = saved }()
	found = func() hierarchy {
		t.Error("somebody looked")
		return hierarchy{}
	}
	if g, err := Make(messages.Limits{OutputBytes: 1 << 20, WallTime: time.Minute, OpenFiles: 100}); g != nil || err != nil {
		t.Errorf("%+v, %v", g, err)
	}
}

// groups makes directories that look like groups.
func groups(t *testing.T, dirs ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, dir, "cgroup.procs"), "")
	}
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWhereGroupsOfVersion1AreMade(t *testing.T) {
	root := groups(t, "cpuacct", "memory/inner", "pids") // this process is in a group of pids that does not exist
	p := version1(fmt.Sprintf(mounts, root), own)
	if p.unified || len(p.dirs) != 2 || p.dirs[messages.LimitCPUTime] != root+"/cpuacct" || p.dirs[messages.LimitMemory] != root+"/memory/inner" {
		t.Errorf("%+v", p)
	}
}

func TestWhereGroupsOfVersion2AreMade(t *testing.T) {
	root := groups(t, "unified/user/session")
	if p := version2(fmt.Sprintf(mounts, root), own); len(p.dirs) > 0 {
		t.Errorf("where nothing is handed down: %+v", p)
	}
	write(t, root+"/unified/user/cgroup.subtree_control", "cpu memory pids\n")
	write(t, root+"/unified/user/cgroup.procs", "")
	if p := version2(fmt.Sprintf(mounts, root), own); !p.unified || p.dirs[messages.LimitProcesses] != root+"/unified/user" || p.dirs[messages.LimitMemory] != p.dirs[messages.LimitCPUTime] {
		t.Errorf("beside us: %+v", p)
	}
	write(t, root+"/unified/user/session/cgroup.subtree_control", "memory pids\n")
	if p := version2(fmt.Sprintf(mounts, root), own); p.dirs[messages.LimitProcesses] != root+"/unified/user/session" {
		t.Errorf("below us: %+v", p)
	}
	if err := os.Chmod(root+"/unified/user/session/cgroup.procs", 0o444); err != nil {
		t.Fatal(err)
	}
	if p := version2(fmt.Sprintf(mounts, root), own); os.Geteuid() != 0 && p.dirs[messages.LimitProcesses] != root+"/unified/user" {
		t.Errorf("where processes may not be moved: %+v", p)
	}
}

// hereOrSkip returns a directory in which groups can be made.
func hereOrSkip(t *testing.T) string {
	t.Helper()
	for _, dir := range found().all() {
		return dir
	}
	t.Skip("skipped: no control group can be made here")
	return ""
}

func TestGroupsOfDeadHostsAreRemoved(t *testing.T) {
	dir := hereOrSkip(t)
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{ // whether it stays
		fmt.Sprintf("execbus-%s-%d-1-1", numbers(), dead.ProcessState.Pid()): false,
		fmt.Sprintf("execbus-%s-%d-1-1", numbers(), os.Getpid()):             false, // an earlier process with our pid
		mine() + "77": true,
		fmt.Sprintf("execbus-4711-%d-1-1", os.Getpid()):          true, // of another namespace
		fmt.Sprintf("execbus-something-of-else-%d", os.Getpid()): true,
	}
	for name := range names {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
	}
	removeStale(dir)
	for name, stays := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAGroupIsRemovedWithWhatIsInIt(t *testing.T) {
	hereOrSkip(t)
	g, err := Make(messages.Limits{Processes: 10, MemoryBytes: 1 << 30, CPUTime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	for _, file := range g.Join() {
		if _, err := fmt.Fprint(file, sleeper.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	dirs := g.all()
	if reached := g.Reached(); reached != "" {
		t.Errorf("reached %v", reached)
	}
	g.Remove()
	g.Remove()
	if err := sleeper.Wait(); err == nil {
		t.Error("it lived on")
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}
