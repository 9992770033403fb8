//go:build linux

package warden

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/proc"
)

// stopAll stops all children of a process except this one, and the grandchildren, again and again until its input ends. It tries this
// because newborns are not confined yet, and a stopped newborn holds up its start. Then it reports how many signals it sent. It does
// not return.
func stopAll(parent string) {
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	hits := 0
	fmt.Println("up")
	for !over.Load() {
		for _, child := range childrenOf(parent) {
			for _, pid := range append(childrenOf(child), child) {
				if number, _ := strconv.Atoi(pid); number != os.Getpid() && unix.Kill(number, unix.SIGSTOP) == nil {
					hits++
				}
			}
		}
	}
	fmt.Println("hits", hits)
	os.Exit(0)
}

// childrenOf lists the children of all threads of a process.
func childrenOf(parent string) (children []string) {
	lists, _ := filepath.Glob("/proc/" + parent + "/task/*/children")
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, child := range bytes.Fields(text) {
			children = append(children, string(child))
		}
	}
	return children
}

// While one command tries to stop all children of the warden, other commands start as usual.
func TestNewbornsCannotBeStopped(t *testing.T) {
	for _, level := range []messages.Assurance{messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: level == messages.AssuranceConfined})
			must(t, err)
			t.Cleanup(func() { must(t, spawner.Close()) })
			e, err := spawner.Enclose(t.Context(), ptyio.Confinement{Dir: t.TempDir(), Least: level,
				Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}})
			must(t, err)
			t.Cleanup(e.Release)
			if enforced, err := spawner.Can(ptyio.Launch{Sandbox: e}); err != nil || strings.Contains(enforced.String(), "signals") {
				t.Skipf("skipped: %v, %v", enforced, err)
			}
			victim, ended := begin(t, spawner, ptyio.Launch{Argv: []string{"sleep", "1000"}})
			warden := strconv.Itoa(proc.Look(victim.PID()).Parent)
			self, err := os.Executable()
			must(t, err)
			attacker := func(e ptyio.Enclosure, meanwhile func()) string {
				child, said := begin(t, spawner, ptyio.Launch{Argv: []string{self, roleStop, warden}, OpenStdin: true, Sandbox: e})
				meanwhile()
				child.CloseStdin(func(error) {})
				return said()
			}
			if said := attacker(nil, func() { untilStopped(t, victim.PID()) }); said == "up\nhits 0" {
				t.Errorf("without a sandbox it stops nothing: %s", said)
			}
			victim.EndTree(0)
			ended()
			if said := attacker(e, func() {
				for i := range 100 {
					_, said := begin(t, spawner, ptyio.Launch{Argv: []string{"echo", "fine"}, Sandbox: []ptyio.Enclosure{nil, e}[i%2]})
					if got := said(); got != "fine" {
						t.Errorf("start %d: %s", i, got)
					}
				}
			}); said != "up\nhits 0" {
				t.Error(said)
			}
		})
	}
}

func untilStopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); proc.Look(pid).State != 'T'; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not stopped")
		}
	}
}
