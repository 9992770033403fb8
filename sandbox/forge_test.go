//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// forge sets the limits that the environment names, as far as the kernel allows it, and stays.
func forge() {
	runtime.LockOSThread()
	if os.Getenv("RIGHTS") == "" {
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		must(unix.Capset(&head, &none[0]))
	}
	target, _ := strconv.Atoi(os.Getenv("TARGET")) // zero means this process
	for name, resource := range map[string]int{"TIME": unix.RLIMIT_RTTIME, "LOCKS": unix.RLIMIT_LOCKS} {
		var limit unix.Rlimit
		if n, _ := fmt.Sscanf(os.Getenv(name), "%d,%d", &limit.Cur, &limit.Max); n == 2 {
			fmt.Println(name, unix.Prlimit(target, resource, &limit, nil))
		}
	}
	fmt.Println("forged")
	time.Sleep(time.Hour)
}

// tree is a child that waits, or whose daemon forges limits after a line of input.
type tree struct {
	child  ptyio.Child
	record *recorder
	token  string // of the daemon
}

func plant(t *testing.T, spawner ptyio.Spawner) tree {
	t.Helper()
	token := newToken()
	l := bash(false, `read env; (env $env setsid "$1" `+token+` </dev/null &); read x`, self(t))
	l.Env = environment(roleVariable + "=forger")
	child, record := run(t, spawner, l)
	return tree{child, record, token}
}

// forge starts the daemon, which is then younger than all trees, and waits until it has forged what it can.
func (f tree) forge(t *testing.T, env ...string) {
	t.Helper()
	f.child.Write([]byte(strings.Join(env, " ")+"\n"), time.Now().Add(patience), func(ptyio.Taken, error) {})
	f.record.awaitOutput(t, "forged")
	eventually(t, "the daemon has lost its parent", func() bool { return f.daemon() != 0 })
}

// daemon returns the pid of the tree's daemon once its parent is the warden; zero if there is none.
func (f tree) daemon() int {
	for _, p := range observe(f.token) {
		if parent, _ := look(p.parent); len(p.argv) == 2 && p.argv[1] == f.token && parent.isWarden() {
			return p.pid
		}
	}
	return 0
}

func (f tree) end(t *testing.T) messages.TreeReport {
	t.Helper()
	f.child.EndTree(0)
	return f.record.awaitEnd(t)
}

// limits returns the limits that mark the tree, in the form that forge reads.
func (f tree) limits(t *testing.T) (time, locks string) {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(f.child.PID()) + "/limits")
	if err != nil {
		t.Fatal(err)
	}
	find := func(title string) string {
		found := regexp.MustCompile(title + ` +(\d+) +(\d+)`).FindSubmatch(text)
		if found == nil {
			t.Skip("no marks here")
		}
		return fmt.Sprintf("%s,%s", found[1], found[2])
	}
	return find("Max realtime timeout"), find("Max file locks")
}

func clean(r messages.TreeReport) bool { return r.Airtight && len(r.Survivors) == 0 }

// names reports whether a report claims nothing and names one process that lives.
func names(r messages.TreeReport, pid int) bool {
	return !r.Airtight && len(r.Survivors) == 1 && r.Survivors[0].PID == pid
}

func TestAForgedMarkDeceivesNobody(t *testing.T) {
	const none = "0,0"
	for _, c := range []struct {
		name   string
		forge  func(time, locks string) []string // of the younger tree
		others bool                              // older trees, or still younger ones, may be the daemon's, too
	}{
		{"that of a younger tree", func(time, locks string) []string { return []string{"TIME=" + time, "LOCKS=" + locks} }, false},
		{"half of it", func(time, _ string) []string { return []string{"TIME=" + time} }, false},
		{"none", func(_, _ string) []string { return []string{"TIME=" + none, "LOCKS=" + none} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			spawner := newSpawner(t, sandbox.Options{})
			older, forger, victim, younger := plant(t, spawner), plant(t, spawner), plant(t, spawner), plant(t, spawner)
			time, locks := victim.limits(t)
			forger.forge(t, c.forge(time, locks)...)
			daemon := forger.daemon()
			for _, other := range []tree{older, younger} {
				if report := other.end(t); clean(report) == c.others || c.others && !names(report, daemon) {
					t.Errorf("a tree that has nothing to do with it: %+v", report)
				}
			}
			if report := forger.end(t); !names(report, daemon) || forger.daemon() == 0 {
				t.Errorf("the forger's tree, whose daemon lives on: %+v", report)
			}
			if report := victim.end(t); forger.daemon() != 0 || !clean(report) || report.Ended == 0 {
				t.Errorf("the last tree that the daemon may belong to: %+v", report)
			}
		})
	}
}

func TestAnOlderTreesMarkCannotBeTaken(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	victim, forger := plant(t, spawner), plant(t, spawner)
	time, locks := victim.limits(t)
	forger.forge(t, "TIME="+time, "LOCKS="+locks)
	forger.record.awaitOutput(t, "TIME operation not permitted")
	if report := victim.end(t); clean(report) || forger.daemon() == 0 {
		t.Errorf("the victim, which the daemon may belong to since it has lowered a limit: %+v", report)
	}
	if report := forger.end(t); !clean(report) || forger.daemon() != 0 {
		t.Errorf("the forger: %+v", report)
	}
}

// A command may lower the limits of the warden. Later children then do not get their marks.
func TestAWardenWithoutItsLimitsClaimsLess(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{})
	first := plant(t, spawner)
	first.forge(t, "TARGET="+strconv.Itoa(wardenAbove(first.child.PID())), "TIME=7,7", "LOCKS=7,7")
	second := plant(t, spawner)
	if time, locks := second.limits(t); time != "7,7" || locks != "7,7" {
		t.Skip("this warden may raise its limits again")
	}
	second.forge(t)
	daemon := second.daemon()
	if report := second.end(t); !names(report, daemon) || second.daemon() == 0 {
		t.Errorf("a tree without limits of its own: %+v", report)
	}
	if report := first.end(t); !clean(report) || second.daemon() != 0 {
		t.Errorf("the last one: %+v", report)
	}
}

// A process that may raise limits can take any mark, but is found out if it is older than the tree.
func TestAPrivilegedForgerIsFoundOutByItsAge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can raise limits")
	}
	spawner := newSpawner(t, sandbox.Options{})
	forger := plant(t, spawner)
	forger.forge(t, "RIGHTS=1")
	daemon, begun := forger.daemon(), bootTick(t)
	eventually(t, "the clock that tells ages has ticked", func() bool { return bootTick(t) > begun })
	victim := plant(t, spawner)
	time, locks := victim.limits(t)
	for resource, value := range map[int]string{unix.RLIMIT_RTTIME: time, unix.RLIMIT_LOCKS: locks} {
		var limit unix.Rlimit
		if _, err := fmt.Sscanf(value, "%d,%d", &limit.Cur, &limit.Max); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(daemon, resource, &limit, nil); err != nil {
			t.Skip("no right to raise limits: ", err)
		}
	}
	if report := forger.end(t); clean(report) && forger.daemon() != 0 {
		t.Errorf("a forger lives: %+v", report)
	}
	victim.end(t)
	noneLeft(t, forger.token)
}

// bootTick returns the unit of time in which the kernel gives ages.
func bootTick(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano() / 1e7
}
