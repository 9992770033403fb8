package main

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// confinedCases compare a command in a sandbox with one that has none. Both go through the same warden.
func confinedCases() []benchCase {
	confined := func(name, about string, tty bool) benchCase {
		return benchCase{name: name, about: about, metrics: []metric{{unit: microseconds, judge: atMost, limit: 1.1}},
			run: func(ctx context.Context, h *harness) ([]value, error) {
				return compareConfined(ctx, h, tty, sandbox.Options{WithoutNamespaces: true}, messages.SandboxPolicy{})
			}}
	}
	isolated := func(name, about string, network bool, limit float64) benchCase {
		return benchCase{name: name, about: about, metrics: []metric{{unit: microseconds, judge: atMost, limit: limit}},
			run: func(ctx context.Context, h *harness) ([]value, error) {
				return compareConfined(ctx, h, false, sandbox.Options{}, messages.SandboxPolicy{NetworkAccess: network})
			}}
	}
	cases := []benchCase{
		isolated("spawn-isolated", "/bin/true on pipes, isolated with the host's network, against plain through the same warden", true, 3.5),
		isolated("spawn-isolated-net", "/bin/true on pipes, isolated with a network namespace, against plain through the same warden", false, 4.5),
		confined("spawn-pty-confined", "/bin/true on a PTY, confined, against plain through the same warden", true),
		confined("spawn-pipes-confined", "/bin/true on pipes, confined, against plain through the same warden", false),
	}
	// These come last: the kernel removes their namespaces after they have ended, on processors that others then lack.
	if path, err := exec.LookPath("bwrap"); err == nil {
		wrapped := func(name, about string, network bool) benchCase {
			return benchCase{name: name, about: about, metrics: []metric{{unit: microseconds}},
				run: func(ctx context.Context, h *harness) ([]value, error) {
					return compareBubblewrap(ctx, h, path, network)
				}}
		}
		cases = append(cases, wrapped("spawn-bubblewrap", "spawn-isolated with bubblewrap instead of our sandbox", true),
			wrapped("spawn-bubblewrap-net", "spawn-isolated-net with bubblewrap instead of our sandbox", false))
	}
	return cases
}

func compareConfined(ctx context.Context, h *harness, tty bool, options sandbox.Options, policy messages.SandboxPolicy) ([]value, error) {
	plain, err := newSpawns(options, tty)
	if err != nil {
		return nil, err
	}
	defer plain.close()
	dir, err := os.MkdirTemp("", "bench-confined-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	least := messages.AssuranceIsolated
	if options.WithoutNamespaces {
		least = messages.AssuranceConfined
	}
	confined, err := plain.inside(ctx, dir, least, policy)
	if err != nil {
		return nil, err
	}
	defer confined.sandbox.Release()
	return alternate(ctx, h, plain, confined)
}

func compareBubblewrap(ctx context.Context, h *harness, path string, network bool) ([]value, error) {
	plain, err := newSpawns(sandbox.Options{}, false)
	if err != nil {
		return nil, err
	}
	defer plain.close()
	dir, err := os.MkdirTemp("", "bench-bubblewrap-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	wrapped := *plain
	wrapped.argv = bubblewrapped(path, dir, network)
	if _, _, err := wrapped.once(ctx); err != nil {
		return nil, wrap("bubblewrap", err)
	}
	return alternate(ctx, h, plain, &wrapped)
}

// alternate alternates between two ways of a start.
func alternate(ctx context.Context, h *harness, bare, ours *spawns) ([]value, error) {
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		ways, took := [2]*spawns{bare, ours}, [2][]float64{}
		for range h.some(200, 40) {
			for _, i := range rand.Perm(len(ways)) { // what ends beside a start must not always be the same
				t, _, err := ways[i].once(ctx)
				if err != nil {
					return nil, nil, err
				}
				took[i] = append(took[i], micros(t))
			}
		}
		return []float64{median(took[0])}, []float64{median(took[1])}, nil
	})
}

// inside returns the same starts in a sandbox that lets them write in one directory.
func (s *spawns) inside(ctx context.Context, dir string, least messages.Assurance, policy messages.SandboxPolicy) (*spawns, error) {
	policy.Type, policy.ExcludeSlashTmp, policy.ExcludeTmpdirEnvVar = messages.SandboxWorkspaceWrite, true, true
	confined := *s
	var err error
	if confined.sandbox, err = s.spawner.Enclose(ctx, ptyio.Confinement{Dir: dir, Least: least, Policy: policy}); err != nil {
		return nil, err
	}
	if _, _, err := confined.once(ctx); err != nil { // the first one makes what later ones use
		confined.sandbox.Release()
		return nil, wrap("confined", err)
	}
	return &confined, nil
}

// bubblewrapped is a command line that isolates about as much as we do, without Landlock and seccomp.
func bubblewrapped(path, dir string, network bool) []string {
	argv := []string{path, "--ro-bind", "/", "/", "--bind", dir, dir, "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--unshare-pid",
		"--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--die-with-parent"}
	if !network {
		argv = append(argv, "--unshare-net")
	}
	return append(argv, program)
}
