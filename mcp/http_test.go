package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/tests/expect"
)

// bearer adds a token to requests.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// listen serves over HTTP with the token "secret".
func listen(t *testing.T, options Options) (*Server, string) {
	t.Helper()
	server := newServer(t, options)
	front := httptest.NewServer(server.Handler(HTTPOptions{Token: "secret"}))
	t.Cleanup(func() {
		server.Close()
		front.CloseClientConnections()
		front.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return server, front.URL
}

func reach(t *testing.T, url string, client *sdk.Client, version string) *sdk.ClientSession {
	t.Helper()
	transport := &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{"secret"}}, MaxRetries: -1}
	session, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func TestOverHTTP(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			_, url := listen(t, untrusted())
			session := reach(t, url, person(says("approved", "")), version)
			result := call(t, session, "exec_command", map[string]any{"cmd": "echo ready; exec cat", "tty": true, "yield_time_ms": 250})
			structured, _ := result.StructuredContent.(map[string]any)
			id, running := structured["session_id"].(float64)
			if !running {
				t.Fatal(textOf(result))
			}
			result = call(t, session, "write_stdin", map[string]any{"session_id": id, "chars": "moin\n\u0004", "yield_time_ms": 30_000})
			expect.Contains(t, textOf(result), "moin\r\n")
			if result = call(t, session, "list_processes", nil); result.IsError {
				t.Error(textOf(result))
			}
		})
	}
}

// Clients of a protocol with sessions see only their own processes, which end with the session.
func TestSessionsOverHTTPAreApart(t *testing.T) {
	server, url := listen(t, Options{})
	plain := func() *sdk.Client { return sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil) }
	one, other := reach(t, url, plain(), "2025-11-25"), reach(t, url, plain(), "2025-11-25")
	file := filepath.Join(t.TempDir(), "pid")
	call(t, one, "exec_command", map[string]any{"cmd": "echo $$ > " + file + "; exec sleep 60", "yield_time_ms": 250})
	pid := pidOf(t, file)
	expect.Contains(t, textOf(call(t, one, "list_processes", nil)), "Processes: 1")
	expect.Contains(t, textOf(call(t, other, "list_processes", nil)), "Processes: 0")
	result := call(t, one, "exec_command", map[string]any{"cmd": "exec sleep 60", "yield_time_ms": 250})
	id := result.StructuredContent.(map[string]any)["session_id"]
	waiting := make(chan struct{})
	go func() { // a call that waits forever must not keep the session
		defer close(waiting)
		_, _ = one.CallTool(context.Background(), &sdk.CallToolParams{Name: "write_stdin", Arguments: map[string]any{"session_id": id, "no_timeout": true}})
	}()
	expect.Contains(t, textOf(call(t, one, "list_processes", nil)), "Processes: 2")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer secret")
	request.Header.Set("Mcp-Session-Id", one.ID())
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("%v, %v", response, err)
	}
	_ = response.Body.Close()
	<-waiting
	expect.Eventually(t, "the session is over", func() bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		return len(server.conversations) == 1
	})
	if !gone(pid) {
		t.Error("the process lives")
	}
	expect.Contains(t, textOf(call(t, other, "list_processes", nil)), "Processes: 0")
}

// Over HTTP a client of the protocol without sessions cancels a call by ending its request.
func TestARequestThatEndsCancelsItsCall(t *testing.T) {
	_, url := listen(t, Options{})
	session := reach(t, url, sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil), "2026-07-28")
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = session.CallTool(ctx, &sdk.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": "echo $$ > " + file + "; exec sleep 60"}})
	}()
	pid := pidOf(t, file)
	cancel()
	<-done
	expect.Eventually(t, "the command ends", func() bool { return gone(pid) })
}

func TestRequestsThatAreRefused(t *testing.T) {
	_, url := listen(t, Options{})
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for _, test := range []struct {
		name, body string
		header     map[string]string
		code       int
	}{
		{"no token", hello, map[string]string{"Authorization": ""}, 401},
		{"a wrong token", hello, map[string]string{"Authorization": "Bearer secre"}, 401},
		{"a token of another kind", hello, map[string]string{"Authorization": "Basic secret"}, 401},
		{"another site's page", hello, map[string]string{"Origin": "https://example.com", "Sec-Fetch-Site": "cross-site"}, 403},
		{"another host", hello, map[string]string{"Host": "example.com"}, 403},
		{"no JSON", "junk", nil, 400},
		{"deep nesting", strings.Repeat("[", 1_000_000), nil, 400},
		{"too much", `"` + strings.Repeat("x", MaxMessage) + `"`, nil, 413},
		{"an unknown session", hello, map[string]string{"Mcp-Session-Id": "guessed"}, 404},
		{"no session", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"true"}}}`, nil, 200},
		{"everything in order", hello, nil, 200},
		{"another way to write it", hello, map[string]string{"Authorization": "bearer secret"}, 200},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(test.body)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("Authorization", "Bearer secret")
		for name, value := range test.header {
			if request.Header.Set(name, value); name == "Host" {
				request.Host = value
			}
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(test.name, err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(test.name, err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.code {
			t.Errorf("%s: %d %.200s", test.name, response.StatusCode, body)
		}
		if test.name == "no session" && !strings.Contains(string(body), "error") {
			t.Errorf("%s: %s", test.name, body)
		}
	}
}

// A request that is refused is answered before its body has come, and its connection ends.
func TestTheBodyOfAStrangerIsNotWaitedFor(t *testing.T) {
	_, url := listen(t, Options{})
	for name, head := range map[string]string{"401": "", "403": "Authorization: Bearer secret\r\nSec-Fetch-Site: cross-site\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"+head+"\r\n{"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 "+name) || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got %q, %v", name, answer, err)
		}
	}
}

func TestAServerHasSoManyClients(t *testing.T) {
	_, url := listen(t, Options{})
	var refused error
	for i := 0; i <= maxConversations && refused == nil; i++ {
		client := sdk.NewClient(&sdk.Implementation{Name: fmt.Sprint(i), Version: "1"}, nil)
		transport := &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{"secret"}}, MaxRetries: -1, DisableStandaloneSSE: true}
		session, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
		if refused = err; err == nil {
			t.Cleanup(func() { _ = session.Close() })
		} else if i != maxConversations {
			t.Errorf("client %d is refused: %v", i, err)
		}
	}
	if refused == nil {
		t.Error("one more is served")
	}
}
