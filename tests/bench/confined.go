package main

import (
	"context"
	"os"
	"time"

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
	return []benchCase{
		isolated("spawn-isolated", "/bin/true on pipes, isolated with the host's network, against plain through the same warden", true, 3.5),
		isolated("spawn-isolated-net", "/bin/true on pipes, isolated with a network namespace, against plain through the same warden", false, 4.5),
		confined("spawn-pty-confined", "/bin/true on a PTY, confined, against plain through the same warden", true),
		confined("spawn-pipes-confined", "/bin/true on pipes, confined, against plain through the same warden", false),
	}
}

// compareConfined alternates between the two ways.
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
	confined := *plain
	least := messages.AssuranceIsolated
	if options.WithoutNamespaces {
		least = messages.AssuranceConfined
	}
	policy.Type, policy.ExcludeSlashTmp, policy.ExcludeTmpdirEnvVar = messages.SandboxWorkspaceWrite, true, true
	confined.sandbox, err = plain.spawner.Enclose(ctx, ptyio.Confinement{Dir: dir, Least: least, Policy: policy})
	if err != nil {
		return nil, err
	}
	defer confined.sandbox.Release()
	if _, _, err := confined.once(ctx); err != nil { // the first one makes what later ones use
		return nil, wrap("confined", err)
	}
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var plains, ours []float64
		for range h.some(200, 40) {
			for s, into := range map[*spawns]*[]float64{plain: &plains, &confined: &ours} {
				took, _, err := s.once(ctx)
				if err != nil {
					return nil, nil, err
				}
				*into = append(*into, float64(took)/float64(time.Microsecond))
			}
		}
		return []float64{median(plains)}, []float64{median(ours)}, nil
	})
}
