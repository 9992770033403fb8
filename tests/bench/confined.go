package main

import (
	"context"
	"os"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// confinedCases compare a confined command with one that is not, both through the same warden.
func confinedCases() []benchCase {
	confined := func(name, about string, tty bool) benchCase {
		return benchCase{name: name, about: about, metrics: []metric{{unit: microseconds, judge: atMost, limit: 1.1}},
			run: func(ctx context.Context, h *harness) ([]value, error) { return compareConfined(ctx, h, tty) }}
	}
	return []benchCase{
		confined("spawn-pty-confined", "/bin/true on a PTY, confined, against plain through the same warden", true),
		confined("spawn-pipes-confined", "/bin/true on pipes, confined, against plain through the same warden", false),
	}
}

// compareConfined lets both ways alternate.
func compareConfined(ctx context.Context, h *harness, tty bool) ([]value, error) {
	plain, err := newSpawns(sandbox.Options{}, tty)
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
	confined.sandbox, err = plain.spawner.Enclose(ctx, ptyio.Confinement{Dir: dir, Least: messages.AssuranceConfined,
		Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true}})
	if err != nil {
		return nil, err
	}
	defer confined.sandbox.Release()
	if _, _, err := confined.once(ctx); err != nil { // which makes what later starts use
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
