package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"time"
)

// restCommands is how many commands a host has run before it rests.
const restCommands = 2000

// restPrograms are the hosts: small programs, because most of a resting host's memory are pages of its executable.
var restPrograms = []string{costs + "embedded", costs + "actors", costs + "plain"}

const costs = "github.com/execbus/execbus/tests/cost/"

func restCase() benchCase {
	return benchCase{name: "rest", about: "resident memory of a small host that has run 2,000 commands and rests, beside programs that ran them with os/exec",
		metrics: []metric{{name: "host beyond actors", unit: mebibytes, judge: valueMost, limit: 5}, {name: "warden", unit: mebibytes, judge: valueMost, limit: 8},
			{name: "host", unit: mebibytes}, {name: "with actors only", unit: mebibytes}, {name: "bare Go", unit: mebibytes}}, run: measureRest}
}

func measureRest(ctx context.Context, h *harness) ([]value, error) {
	dir, remove, err := build(ctx, restPrograms...)
	if err != nil {
		return nil, err
	}
	defer remove()
	count := h.some(restCommands, restCommands/10)
	var beyond, wardens []float64
	hosts := make([][]float64, len(restPrograms))
	for range max(h.pairs/3, 1) {
		for i, program := range restPrograms {
			resting, warden, err := restOf(ctx, filepath.Join(dir, path.Base(program)), count)
			if err != nil {
				return nil, wrap(path.Base(program), err)
			}
			hosts[i] = append(hosts[i], resting)
			if i == 0 {
				wardens = append(wardens, warden)
			}
		}
		last := len(wardens) - 1
		beyond = append(beyond, hosts[0][last]-hosts[1][last])
	}
	return []value{single(beyond), single(wardens), single(hosts[0]), single(hosts[1]), single(hosts[2])}, nil
}

// restOf runs a program that runs so many commands, and measures it and its warden, if it has one, after a rest. In MiB.
func restOf(ctx context.Context, program string, commands int) (host, warden float64, err error) {
	cmd := exec.CommandContext(ctx, program, strconv.Itoa(commands))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, 0, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	defer func() {
		_ = stdin.Close()
		if ended := cmd.Wait(); err == nil {
			err = ended
		}
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "resting\n" {
		return 0, 0, fmt.Errorf("it printed %q: %w", line, err)
	}
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	resident, err := residentKiB(pid)
	if err != nil {
		return 0, 0, err
	}
	child, err := wardenPID(pid)
	if err != nil {
		return float64(resident) / 1024, 0, nil
	}
	served, err := residentKiB(child)
	return float64(resident) / 1024, float64(served) / 1024, err
}
