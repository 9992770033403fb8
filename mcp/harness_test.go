package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds each wait for something that must happen.
const patience = time.Minute

// untrusted returns options with which every command needs an answer.
func untrusted() Options {
	return Options{Session: execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}}
}

func newServer(t *testing.T, options Options) *Server {
	t.Helper()
	return serverOf(t, expect.Runtime(t), options)
}

func serverOf(t *testing.T, runtime *execbus.Runtime, options Options) *Server {
	t.Helper()
	options.Session.NoLoginShell = true // a login shell reads files of this machine, which can be slow
	if options.Session.Dir == "" {
		options.Session.Dir = t.TempDir()
	}
	server, err := NewServer(runtime, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// peer is a client that speaks in lines.
type peer struct {
	t        *testing.T
	in       *io.PipeWriter
	lines    chan string // what the server said
	returned chan error  // what ServeStream returned
}

func dial(t *testing.T, options Options) *peer {
	t.Helper()
	server := newServer(t, options)
	input, in := io.Pipe()
	out, output := io.Pipe()
	p := &peer{t: t, in: in, lines: make(chan string, 1024), returned: make(chan error, 1)}
	go func() { p.returned <- server.ServeStream(context.Background(), input, output); _ = output.Close() }()
	go func() {
		defer close(p.lines)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 4*MaxMessage)
		for scanner.Scan() {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		p.hangUp()
		for range p.lines { // until everything has ended
		}
	})
	return p
}

// greet does the handshake of a protocol version with sessions.
func (p *peer) greet(version, capabilities string) {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"test","version":"1"}}}`, version, capabilities)
	p.answer(`"hello"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (p *peer) send(format string, values ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", values...); err != nil {
		p.t.Fatal(err)
	}
}

// call calls a tool.
func (p *peer) call(id int, tool, arguments string) {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

// hangUp ends the input and waits for the server.
func (p *peer) hangUp() {
	_ = p.in.Close()
	select {
	case err := <-p.returned:
		p.returned <- err
		if err != nil {
			p.t.Error(err)
		}
	case <-time.After(patience):
		p.t.Error("the server does not end")
	}
}

// line returns the server's next line.
func (p *peer) line() string {
	p.t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-time.After(patience):
		p.t.Fatal("the server says nothing")
		return ""
	}
}

// message is a message from the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result struct {
		Content []struct {
			Text string `json:"text"`
			URI  string `json:"uri"`
		} `json:"content"`
		Structured map[string]any `json:"structuredContent"`
		IsError    bool           `json:"isError"`
		Resources  []struct{ URI string }
		Contents   []struct{ Text string }
		Meta       map[string]any `json:"_meta"`
	} `json:"result"`
}

func (m message) text() string {
	if len(m.Result.Content) == 0 {
		return ""
	}
	return m.Result.Content[0].Text
}

// next returns the next message that is not a notification.
func (p *peer) next() message {
	p.t.Helper()
	for {
		line := p.line()
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			p.t.Fatalf("the server says %q: %v", line, err)
		}
		if m.Method == "" || m.ID != nil {
			return m
		}
	}
}

// answer waits for the answer to one request. It drops the answers to others.
func (p *peer) answer(id string) message {
	p.t.Helper()
	for {
		if m := p.next(); string(m.ID) == id {
			return m
		}
	}
}

// start starts a command that prints "ready" and keeps running. It returns the session ID.
func (p *peer) start(id int, arguments string) int {
	p.t.Helper()
	p.call(id, "exec_command", arguments)
	m := p.answer(fmt.Sprint(id))
	session, running := m.Result.Structured["session_id"].(float64)
	if !running {
		p.t.Fatalf("it has ended: %s", m.text())
	}
	p.ready(1_000_000, int(session), "ready")
	return int(session)
}

// ready waits until the output of a process contains a text. The calls have the ids from first on.
func (p *peer) ready(first, session int, text string) {
	p.t.Helper()
	id := first
	expect.Eventually(p.t, text, func() bool {
		p.call(id, "read_output", fmt.Sprintf(`{"session_id":%d}`, session))
		m := p.answer(fmt.Sprint(id))
		id++
		return strings.Contains(m.text(), text)
	})
}

// connect connects the library's client to a server over a stream.
func connect(t *testing.T, options Options, client *sdk.Client, version string) *sdk.ClientSession {
	t.Helper()
	return attach(t, newServer(t, options), client, version)
}

func attach(t *testing.T, server *Server, client *sdk.Client, version string) *sdk.ClientSession {
	t.Helper()
	input, in := io.Pipe()
	out, output := io.Pipe()
	returned := make(chan error, 1)
	go func() { returned <- server.ServeStream(context.Background(), input, output); _ = output.Close() }()
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		if err := <-returned; err != nil {
			t.Error(err)
		}
	})
	return session
}

// call calls a tool through the library's client.
func call(t *testing.T, session *sdk.ClientSession, tool string, arguments map[string]any) *sdk.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func textOf(result *sdk.CallToolResult) string { return result.Content[0].(*sdk.TextContent).Text }
