package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// idleCommands sleep while more are started.
const idleCommands = 10

func idleCase() benchCase {
	return benchCase{name: "idle-isolated", about: "private memory of isolated commands that sleep while 1,000 more are started (100 with -quick)",
		metrics: []metric{
			{name: "its process 1", unit: kibibytes, judge: valueMost, limit: 256},
			{name: "the command", unit: kibibytes},
		}, run: measureIdle}
}

func measureIdle(ctx context.Context, h *harness) ([]value, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may look at the memory of process 1")
	}
	s, err := newSpawns(sandbox.Options{}, false)
	if err != nil {
		return nil, err
	}
	defer s.close()
	dir, err := os.MkdirTemp("", "bench-idle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if s, err = s.inside(ctx, dir, messages.AssuranceIsolated, messages.SandboxPolicy{}); err != nil {
		return nil, err
	}
	defer s.sandbox.Release()
	var idle []ptyio.Child
	for range idleCommands {
		child, err := s.spawner.Spawn(ctx, ptyio.Launch{Argv: []string{"/bin/sleep", "1000"}, Env: environment(), Dir: "/", Sandbox: s.sandbox, Events: func(ptyio.Event) {}})
		if err != nil {
			return nil, err
		}
		defer child.EndTree(0)
		idle = append(idle, child)
	}
	for range h.some(1000, 100) {
		if _, _, err := s.once(ctx); err != nil {
			return nil, err
		}
	}
	var firsts, commands []float64
	for _, child := range idle {
		first, command, err := privateKiB(child.PID())
		if err != nil {
			return nil, err
		}
		firsts, commands = append(firsts, float64(first)), append(commands, float64(command))
	}
	return []value{single(firsts), single(commands)}, nil
}

// privateKiB is the private memory of the process 1 above a command, and of the command.
func privateKiB(command int) (first, own int, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", command))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0, 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", parent))
	if err != nil || !strings.Contains(string(status), "\t1\nNSpgid") {
		return 0, 0, fmt.Errorf("the parent of process %d is not process 1 of its namespace: %w", command, err)
	}
	for pid, private := range map[int]*int{parent: &first, command: &own} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, 0, err
		}
		*private = procField(string(text), "Private_Clean:") + procField(string(text), "Private_Dirty:")
	}
	return first, own, nil
}
