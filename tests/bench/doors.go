package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func mcpCase() benchCase {
	return benchCase{name: "mcp-exec", about: "true in a shell: through a server for MCP on standard input and output, and through Session.Exec",
		metrics: []metric{{unit: microseconds}, {name: "more", unit: microseconds, judge: valueMost, limit: 500}},
		run:     compareMCP}
}

// compareMCP alternates between the two ways. Each has a runtime of its own; the server's is in another process.
func compareMCP(ctx context.Context, h *harness) ([]value, error) {
	runtime, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	defer shutDown(runtime)
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		return nil, err
	}
	server, remove, err := buildExecbus(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	client, err := startMCP(ctx, server)
	if err != nil {
		return nil, err
	}
	defer client.close()
	turns := h.some(200, 40)
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		var inside, outside []float64
		for range turns {
			began := time.Now()
			result, err := session.Exec(ctx, messages.ExecCommand{Script: "true", Login: new(false)})
			if err != nil || result.Running {
				return nil, nil, fmt.Errorf("inside: %v, %v", result, err)
			}
			inside = append(inside, micros(time.Since(began)))
			began = time.Now()
			if err := client.call(`{"cmd":"true","login":false}`); err != nil {
				return nil, nil, wrap("through MCP", err)
			}
			outside = append(outside, micros(time.Since(began)))
		}
		in, out := median(inside), median(outside)
		return []float64{in, in}, []float64{out, out - in}, nil
	})
}

// mcpClient is a client that speaks in lines with a server in a process of its own.
type mcpClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

// buildExecbus builds the server.
func buildExecbus(ctx context.Context) (path string, remove func(), err error) {
	dir, remove, err := build(ctx, "github.com/execbus/execbus/cmd/execbus")
	return filepath.Join(dir, "execbus"), remove, err
}

// build builds programs into a directory. They are not part of this program, which links much that they do not need.
func build(ctx context.Context, packages ...string) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "bench"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	build := exec.CommandContext(ctx, "go", append([]string{"build", "-o", dir + "/"}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the static binaries that people get
	if out, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("the programs to measure cannot be built: %w\n%s", err, out)
	}
	return dir, remove, nil
}

func startMCP(ctx context.Context, server string) (_ *mcpClient, err error) {
	c := &mcpClient{cmd: exec.CommandContext(ctx, server, "mcp", "--sandbox", "danger-full-access", "--dir", "/")}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 1<<16)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if err := c.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`); err != nil {
		c.close()
		return nil, err
	}
	return c, c.call(`{"cmd":"true","login":false}`) // the first call starts what later ones use
}

func (c *mcpClient) close() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

func (c *mcpClient) call(arguments string) error {
	return c.ask("tools/call", `{"name":"exec_command","arguments":`+arguments+`}`)
}

// ask waits for the answer to one request.
func (c *mcpClient) ask(method, params string) error {
	c.id++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params); err != nil {
		return err
	}
	line, err := c.out.ReadSlice('\n')
	if err != nil {
		return err
	}
	var answer struct {
		ID     int
		Result *struct{ IsError bool }
	}
	if err := json.Unmarshal(line, &answer); err != nil || answer.ID != c.id || answer.Result == nil || answer.Result.IsError {
		return fmt.Errorf("the answer is %s", line)
	}
	return nil
}
