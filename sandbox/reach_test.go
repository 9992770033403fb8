//go:build linux

package sandbox_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// reach tries to reach each thread of its parent and of the process in $1: by a signal, its environment, its memory and its
// descriptors.
const reach = `for p in $PPID "$1"; do for t in /proc/$p/task/*; do
	kill -0 "${t##*/}" 2>/dev/null && echo "signal to $t"
	for door in environ mem maps; do { true <"$t/$door"; } 2>/dev/null && echo "$door of $t"; done
	for fd in 0 1 2 3 4 5 6 7; do [ -e "$t/fd/$fd" ] && echo "descriptor $fd of $t"; done
done; done; echo tried`

// TestNoConfinedCommandReachesTheWardenOrTheHost: 1,000 times, while others of several kinds are born, and the processors are
// busy. A thread of ours that is in a command's domain, be it for a moment, would be reached by some of them.
func TestNoConfinedCommandReachesTheWardenOrTheHost(t *testing.T) {
	const beside = 8
	for direct, starts := range map[bool]int{false: 1000, true: 200} { // the direct spawner keeps no threads that bear
		t.Run(spawnerName(direct), func(t *testing.T) {
			spawner := newSpawner(t, sandbox.Options{Direct: direct, WithoutNamespaces: true})
			writes := workspace(t.TempDir())
			online := workspace(t.TempDir())
			online.Policy.NetworkAccess = true
			kinds := []ptyio.Enclosure{enclose(t, spawner, writes), enclose(t, spawner, online),
				enclose(t, spawner, ptyio.Confinement{Dir: "/", Least: messages.AssuranceConfined, Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}})}
			if enforced, _ := spawner.Can(ptyio.Launch{Sandbox: kinds[0]}); strings.Contains(enforced.String(), "signals") {
				t.Skipf("skipped: %v", enforced)
			}
			host := strconv.Itoa(os.Getpid())
			if free := reached(t, spawner, nil, host); !strings.Contains(free, "signal to") || !strings.Contains(free, "environ of") || !strings.Contains(free, "descriptor 0 of") {
				t.Errorf("without a sandbox it reaches no more than %s", free)
			}
			defer busy()()
			next := make(chan int)
			var workers sync.WaitGroup
			for range beside {
				workers.Go(func() {
					for i := range next {
						if got := reached(t, spawner, kinds[i%len(kinds)], host); got != "tried" {
							t.Errorf("start %d: %s", i, got)
						}
					}
				})
			}
			for i := range starts {
				next <- i
			}
			close(next)
			workers.Wait()
		})
	}
}

func reached(t *testing.T, spawner ptyio.Spawner, e ptyio.Enclosure, host string) string {
	l := launch(false, "sh", "-c", reach, "sh", host)
	l.Sandbox, l.OpenStdin = e, false
	_, r := run(t, spawner, l)
	r.awaitEnd(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(r.output.String())
}

// busy keeps the processors busy until the function that it returns is called.
func busy() (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() { over.Store(true); all.Wait() }
}
