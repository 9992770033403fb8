//go:build linux

package sandbox_test

import (
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/proc"
)

// leadsTo reports whether one of the descriptors of a process leads to a file.
func leadsTo(pid int, file string) bool {
	return slices.ContainsFunc(proc.Descriptors(pid), func(d string) bool { return strings.HasSuffix(d, " "+file) })
}

// diagnosing returns the sockets for sock_diag that this process has open, such as "socket:[12]".
func diagnosing() (found []string) {
	for _, d := range proc.Descriptors(os.Getpid()) {
		number, file, _ := strings.Cut(d, " ")
		fd, err := strconv.Atoi(number)
		if err != nil || !strings.HasPrefix(file, "socket:") {
			continue
		}
		domain, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		protocol, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
		if domain == unix.AF_NETLINK && protocol == unix.NETLINK_SOCK_DIAG {
			found = append(found, file)
		}
	}
	return found
}

// asked reports whether a netlink socket in the network of a process was used: then the kernel lists it there.
func asked(t *testing.T, pid int, socket string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/net/netlink")
	if err != nil {
		t.Skip("skipped: the system does not list netlink sockets: ", err)
	}
	for row := range strings.Lines(string(table)) { // sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
		if fields := strings.Fields(row); len(fields) == 10 && "socket:["+fields[9]+"]" == socket {
			return true
		}
	}
	return false
}

// The host has one socket in a network of commands, by which it asks who listens there. Nobody else has it, and it goes with the network.
func TestTheHostAsksInTheNetworkOfCommands(t *testing.T) {
	probe, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		t.Skip("skipped: the system has no netlink sockets for sock_diag: ", err)
	}
	_ = unix.Close(probe)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it closes what is forgotten
	for name, c := range map[string]ptyio.Confinement{"without a proxy": workspace(t.TempDir()), "with a proxy": listeners(nil).confinement(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			if c.Proxy != nil {
				c.Proxy = func(listener net.Listener) { _ = listener.Close() }
			}
			spawner, e := isolating(t, c)
			script := `ls -1 /proc/self/fd | tr '\n' ' '; echo said; read line`
			var children []ptyio.Child
			var records []*recorder
			for range 2 {
				l := bash(false, script)
				l.Sandbox, l.OpenStdin, l.Merged = e, true, true
				child, r := run(t, spawner, l)
				r.await(t, "its descriptors", func() bool { return strings.Contains(r.output.String(), "said") })
				if got := strings.Fields(r.output.String()); !slices.Equal(got, []string{"0", "1", "2", "3", "said"}) { // 3 is what ls reads
					t.Errorf("a command has the descriptors %v", got)
				}
				children, records = append(children, child), append(records, r)
			}
			found := diagnosing()
			if len(found) != 1 {
				t.Fatalf("in the network of two commands the host has %v", found)
			}
			socket := found[0]
			if asked(t, children[0].PID(), socket) {
				t.Error("it was asked who listens though nobody wanted to know")
			}
			if found, err := children[1].(ptyio.Inquirer).Listeners(); err != nil || len(found) > 0 {
				t.Errorf("%v, %v", found, err)
			}
			if !asked(t, children[0].PID(), socket) {
				t.Error("it was not asked")
			}
			first := proc.Look(children[0].PID()).Parent
			for who, pid := range map[string]int{"the warden": proc.Look(first).Parent, "process 1": first, "a command": children[0].PID()} {
				switch {
				case len(proc.Descriptors(pid)) == 0:
					t.Logf("skipped: the descriptors of %s (%d) are not shown to this user", who, pid)
				case leadsTo(pid, socket):
					t.Errorf("%s has it, too: %v", who, proc.Descriptors(pid))
				}
			}
			e.Release()
			for i, child := range children {
				if !leadsTo(os.Getpid(), socket) {
					t.Error("it was closed while a command runs")
				}
				child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
				records[i].awaitEnd(t)
			}
			eventually(t, "the socket is closed", func() bool { return !leadsTo(os.Getpid(), socket) })
		})
	}
}
