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
	"strings"
	"syscall"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

func doorRows() []row {
	more := func(limit float64) []metric { return []metric{{}, {name: "more", judge: moreMost, limit: limit}} }
	all := []row{{name: "mcp-exec", about: "true in a shell: through a server for MCP on standard input and output, and by Session.Exec",
		metrics: more(500), open: throughMCP}}
	for _, way := range []string{"stdio", "websocket"} {
		all = append(all,
			row{name: "remote-exec-" + way, about: "exec-result on an exec-server over " + way + ", and in this process",
				metrics: more(500), open: remoteExecs(way)},
			row{name: "remote-echo-" + way, about: "17 bytes to cat on a raw PTY and back: a child on an exec-server over " + way + ", and one of the warden",
				metrics: more(100), open: remoteEchoes(way)})
	}
	return append(all, row{name: "remote-flood", about: "64 MiB through a PTY: a child on an exec-server over websocket, and one of the warden",
		metrics: floodMetrics(metric{judge: atLeast, limit: 0.9}), open: remoteFloods})
}

// server is "execbus" with a sub-command, on pipes.
type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	raw io.ReadCloser
}

// server builds execbus and starts it.
func (s *scope) server(ctx context.Context, args ...string) *server {
	v := &server{cmd: exec.CommandContext(ctx, filepath.Join(s.build(ctx, "cmd/execbus"), "execbus"), args...)}
	v.cmd.Stderr = os.Stderr
	v.in, v.raw = get(v.cmd.StdinPipe()), get(v.cmd.StdoutPipe())
	v.out = bufio.NewReaderSize(v.raw, batch)
	must(v.cmd.Start())
	s.after(func() {
		_ = v.in.Close()
		_ = v.cmd.Process.Signal(syscall.SIGTERM)
		_ = v.cmd.Wait()
	})
	return v
}

// mcp is a client of a server for MCP.
type mcp struct {
	*server
	id int
}

func (s *scope) mcp(ctx context.Context) *mcp {
	m := &mcp{server: s.server(ctx, "mcp", "--sandbox", "danger-full-access", "--dir", "/", "--view", "raw")} // the oracles know the bytes
	must(m.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`))
	must(m.exec(ctx)) // the first call starts what later ones use
	return m
}

// ask sends a request and waits until it is answered.
func (m *mcp) ask(method, params string) error {
	_, err := m.request(method, params)
	return err
}

// request returns the result.
func (m *mcp) request(method, params string) (result json.RawMessage, err error) {
	m.id++
	if _, err := fmt.Fprintf(m.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", m.id, method, params); err != nil {
		return nil, err
	}
	for {
		text, err := m.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var answer struct {
			ID     int
			Result json.RawMessage
		}
		var failed struct{ IsError bool }
		err = json.Unmarshal(text, &answer)
		switch {
		case err == nil && answer.ID == 0:
			continue // a notification
		case err != nil || json.Unmarshal(answer.Result, &failed) != nil || failed.IsError:
			return nil, fmt.Errorf("the answer is %s", text)
		}
		return answer.Result, nil
	}
}

func (m *mcp) exec(context.Context) error {
	return m.ask("tools/call", `{"name":"exec_command","arguments":{"cmd":"true","login":false}}`)
}

// throughMCP compares two runtimes; that of the server is in another process.
func throughMCP(ctx context.Context, s *scope) pair {
	here := s.runner(ctx, s.session(), 1, messages.ExecCommand{Script: "true", Login: new(false)})
	return pair{bare: here.loop, ours: timed(s.mcp(ctx).exec), turns: s.turns()}
}

// remote is an exec-server in a process of its own, and the spawner of a client.
func (s *scope) remote(ctx context.Context, way string) (v *server, spawner ptyio.Spawner) {
	if way == "stdio" {
		v = s.server(ctx, "serve", "--listen", "stdio")
		spawner = get(client.Connect(ctx, v.raw, v.in, client.Options{}))
	} else {
		v = s.server(ctx, "serve")
		spawner = get(client.Dial(ctx, strings.TrimSpace(get(v.out.ReadString('\n'))), client.Options{}))
	}
	s.after(func() { _ = spawner.Close() })
	return v, spawner
}

// remoteSession is a session whose commands run on an exec-server.
func (s *scope) remoteSession(ctx context.Context, way string) (*server, *execbus.Session) {
	v, spawner := s.remote(ctx, way)
	_, session := s.open(execbus.Options{Spawner: spawner}, execbus.SessionOptions{})
	return v, session
}

func remoteExecs(way string) opener {
	return func(ctx context.Context, s *scope) pair {
		_, there := s.remoteSession(ctx, way)
		return s.against(ctx, s.session(), there)
	}
}

func remoteEchoes(way string) opener {
	return func(ctx context.Context, s *scope) pair {
		_, there := s.remote(ctx, way)
		return pair{bare: s.childEcho(ctx, s.spawner(sandbox.Options{})).loop, ours: s.childEcho(ctx, there).loop, turns: s.echoTurns()}
	}
}

func remoteFloods(ctx context.Context, s *scope) pair {
	_, there := s.remote(ctx, "websocket")
	return floodPair(ctx, childFlood(s.spawner(sandbox.Options{})), childFlood(there))
}
