package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

const (
	// idleProcesses is how many a server has in the second row: the most without a warning.
	idleProcesses = 60
	// restTime is how long a server has nothing to do before its memory is looked at.
	restTime = time.Second
)

func mcpRestCase() benchCase {
	return benchCase{name: "mcp-rest", about: "resident memory of a server for MCP, without its warden: at rest after a command, and with 60 idle processes",
		metrics: []metric{{name: "at rest", unit: mebibytes, judge: valueMost, limit: 20}, {name: "60 idle processes", unit: mebibytes}},
		run:     measureMCPRest}
}

func measureMCPRest(ctx context.Context, h *harness) ([]value, error) {
	server, remove, err := buildExecbus(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	var resting, loaded []float64
	for range max(h.pairs/3, 1) {
		r, l, err := restOfMCP(ctx, server)
		if err != nil {
			return nil, err
		}
		resting, loaded = append(resting, r), append(loaded, l)
	}
	return []value{single(resting), single(loaded)}, nil
}

// restOfMCP measures one server, in MiB.
func restOfMCP(ctx context.Context, server string) (resting, loaded float64, err error) {
	client, err := startMCP(ctx, server)
	if err != nil {
		return 0, 0, err
	}
	defer client.close()
	if resting, err = client.resident(ctx); err != nil {
		return 0, 0, err
	}
	if err := client.fill(idleProcesses); err != nil {
		return 0, 0, wrap("idle processes", err)
	}
	loaded, err = client.resident(ctx)
	return resting, loaded, err
}

// resident is the server's memory after a rest, in MiB.
func (c *mcpClient) resident(ctx context.Context) (float64, error) {
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	kib, err := residentKiB(strconv.Itoa(c.cmd.Process.Pid))
	return float64(kib) / 1024, err
}

// fill starts processes that wait for input, at the same time.
func (c *mcpClient) fill(count int) error {
	for range count {
		c.id++
		if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec_command","arguments":`+
			`{"cmd":"exec cat","login":false,"tty":true,"yield_time_ms":250}}}`+"\n", c.id); err != nil {
			return err
		}
	}
	for answered := 0; answered < count; {
		line, err := c.out.ReadSlice('\n')
		if err != nil {
			return err
		}
		var answer struct {
			ID     int
			Result struct {
				StructuredContent struct {
					Session int `json:"session_id"`
				}
			}
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return err
		}
		if answer.ID == 0 {
			continue // a notification
		}
		if answer.Result.StructuredContent.Session == 0 {
			return fmt.Errorf("the answer is %s", line)
		}
		answered++
	}
	return nil
}
