//go:build linux

package sandbox_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/tests/proc"
)

// The observer uses only the kernel's list of processes, and nothing of ours. It recognises processes by a token on their
// command line.

func newToken() string { return fmt.Sprintf("100000.%09d", rand.IntN(1e9)) }

type seenProcess struct {
	pid, parent int
	state       byte
	argv        []string
}

func (p seenProcess) String() string {
	return fmt.Sprintf("%d (parent %d, %c) %.80q", p.pid, p.parent, p.state, p.argv)
}

func (p seenProcess) isWarden() bool { return len(p.argv) > 0 && p.argv[0] == "execbus-warden" }

// look reads one process; ok is false for one that is gone or a zombie.
func look(pid int) (p seenProcess, ok bool) {
	seen := proc.Look(pid)
	if seen == (proc.Process{}) {
		return p, false
	}
	return seenProcess{pid, seen.Parent, seen.State, proc.Arguments(pid)}, seen.Alive()
}

// observe lists the living processes whose command line contains token.
func observe(token string) []seenProcess {
	entries, _ := os.ReadDir("/proc")
	var found []seenProcess
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if p, ok := look(pid); ok && strings.Contains(strings.Join(p.argv, " "), token) {
			found = append(found, p)
		}
	}
	return found
}

// sleepers returns the living processes that are exactly "sleep token".
func sleepers(token string) []seenProcess {
	return slices.DeleteFunc(observe(token), func(p seenProcess) bool { return !slices.Equal(p.argv, []string{"sleep", token}) })
}

// orphans returns those whose parent is a warden.
func orphans(token string) []seenProcess {
	return slices.DeleteFunc(sleepers(token), func(p seenProcess) bool {
		parent, _ := look(p.parent)
		return !parent.isWarden()
	})
}

// wardenAbove finds the warden above a process. A process that is just being executed may itself look like a warden.
func wardenAbove(pid int) int {
	for {
		p, ok := look(pid)
		if !ok || p.parent <= 1 {
			return 0
		}
		if parent, _ := look(p.parent); parent.isWarden() {
			return p.parent
		}
		pid = p.parent
	}
}

// children counts the living children of a process, and the dead ones that it has not reaped.
func children(pid int) (living, dead int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, ok := look(child)
		switch {
		case p.parent != pid:
		case ok:
			living++
		default:
			dead++
		}
	}
	return living, dead
}

// patience bounds every wait of these tests. Only a defect makes a wait last that long.
const patience = time.Minute

// eventually polls for a condition that only the kernel knows.
func eventually(t testing.TB, what string, condition func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !condition() {
		if time.Since(begin) > patience {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begin)
}

func noneLeft(t testing.TB, token string) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		left := observe(token)
		if len(left) == 0 {
			return time.Since(begin)
		}
		if time.Since(begin) > patience {
			t.Fatalf("still alive: %v", left)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
