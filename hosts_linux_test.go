package execbus_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// site is a server on the host's loopback.
func site(t testing.TB) (authority string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "the page") }))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// online is a session whose commands may talk to the hosts that rules name.
func online(t testing.TB, rt *execbus.Runtime, policy messages.NetworkPolicy) *execbus.Session {
	t.Helper()
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
	}
	return openSession(t, rt, execbus.SessionOptions{Dir: t.TempDir(),
		Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true, Network: &policy}})
}

func allowed(authority string, protocol messages.HostProtocol) messages.NetworkPolicy {
	return messages.NetworkPolicy{Hosts: []messages.HostRule{{Host: authority, Protocol: protocol, Decision: messages.HostAllow}}}
}

// fetch asks the proxy for a page, in bash alone.
const fetch = `fetch() {
	credential=${http_proxy#http://}; credential=${credential%@*}; proxy=${http_proxy##*@}
	exec 3<>"/dev/tcp/${proxy%:*}/${proxy##*:}" || return
	printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\nConnection: close\r\n\r\n' "$1" "$1" "$(printf %s "$credential" | base64 -w0)" >&3
	cat <&3
}; `

// fetched runs a command that fetches pages.
func fetched(t testing.TB, session *execbus.Session, script string) *messages.RunResult {
	t.Helper()
	result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"bash", "-c", fetch + script}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestACommandTalksToTheHostsThatItMayTalkTo(t *testing.T) {
	m := newMeter()
	rt, may, other := newRuntime(t, execbus.Options{MeterProvider: m.meters(), TracerProvider: m.tracers()}), site(t), site(t)
	session := online(t, rt, allowed(may, messages.HostHTTP))
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindNetworkConnection}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	result := fetched(t, session, fmt.Sprintf("fetch %s; fetch %s; fetch %s; fetch example.com", may, other, other))
	said := string(result.Stdout)
	if !strings.Contains(said, "the page") || strings.Count(said, "403 Forbidden") != 3 || strings.Count(said, `"reason":"not_allowed_local"`) != 2 {
		t.Errorf("it said %s, %s", said, result.Stderr)
	}
	var blocked []string
	for _, c := range result.BlockedHosts {
		if c.Process != result.Process || c.Suggestion == nil && strings.HasPrefix(c.Host, "example") {
			t.Errorf("%+v", c)
		}
		blocked = append(blocked, fmt.Sprintf("%s:%d", c.Host, c.Port))
	}
	if want := other + " example.com:80"; strings.Join(blocked, " ") != want {
		t.Errorf("the result names %v as blocked, want %s", blocked, want)
	}
	passed, sent, received := 0, int64(0), int64(0)
	for range 4 {
		e, err := events.Next(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		c := e.(messages.NetworkConnection)
		if c.Session != session.ID() || c.Process != result.Process || c.Connection.Process != result.Process {
			t.Errorf("%+v", c)
		}
		sent, received = sent+c.Connection.Sent, received+c.Connection.Received
		if c.Connection.Allowed {
			if passed++; c.Connection.Address.String() != may || c.Connection.Received == 0 || c.Connection.By == "" {
				t.Errorf("%+v", c.Connection)
			}
		}
	}
	if passed != 1 {
		t.Errorf("%d connections passed", passed)
	}
	if err := rt.Shutdown(patient(t)); err != nil { // everything is counted then
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.counts, func(name string, _ int64) bool { return !strings.HasPrefix(name, "execbus.network") })
	if want := map[string]int64{"execbus.network.connections allowed=true protocol=http": 1, "execbus.network.connections allowed=false protocol=http": 3,
		"execbus.network.bytes direction=sent": sent, "execbus.network.bytes direction=received": received}; sent == 0 || !maps.Equal(m.counts, want) {
		t.Errorf("the counts are %v, want %v", m.counts, want)
	}
}

// The newest policy holds for commands that run.
func TestARuleThatIsTakenBackEndsWhatItAllowed(t *testing.T) {
	server := listen(t)
	session := online(t, newRuntime(t, execbus.Options{}), allowed(server.Addr().String(), messages.HostTCP))
	before := allowed(server.Addr().String(), messages.HostTCP)
	for name, policy := range map[string]*messages.NetworkPolicy{"no hosts": {}, "no network": nil} {
		t.Run(name, func(t *testing.T) {
			sandboxed := func(network *messages.NetworkPolicy) {
				t.Helper()
				policy := &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, Network: network}
				if err := session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Sandbox: policy}); err != nil {
					t.Fatal(err)
				}
			}
			sandboxed(&before)
			started, far := opened(t, session, server, "cat <&3; echo over")
			sandboxed(policy)
			if n, err := far.Read(make([]byte, 1)); err == nil {
				t.Errorf("%d bytes came", n)
			}
			status, err := started.Wait(patient(t))
			if err != nil || status != messages.StatusExited(0) {
				t.Errorf("%v, %v", status, err)
			}
		})
	}
}

// What a command's own environment says beside proxies is kept, before what that of the host says.
func TestTheEnvironmentOfACommandIsKeptBesideItsProxy(t *testing.T) {
	t.Setenv("SSL_CERT_FILE", "/host.pem")
	session := online(t, newRuntime(t, execbus.Options{}), messages.NetworkPolicy{})
	result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"/bin/sh", "-c", "echo $SSL_CERT_FILE; echo $JAVA_TOOL_OPTIONS; echo $HTTP_PROXY"},
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"SSL_CERT_FILE": "/own.pem", "JAVA_TOOL_OPTIONS": "-Xmx1g", "HTTP_PROXY": "http://elsewhere.example:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if said := string(result.Stdout); !strings.HasPrefix(said, "/own.pem\n-Xmx1g -Dhttp.proxyHost=127.0.0.1 ") || strings.Contains(said, "elsewhere") {
		t.Error(said)
	}
}

// A command that makes connections as fast as it can ends no subscription of a host that is slow.
func TestACommandCannotEndASubscriptionByItsConnections(t *testing.T) {
	session := online(t, newRuntime(t, execbus.Options{}), messages.NetworkPolicy{})
	events, err := session.Events(execbus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"bash", "-c", `proxy=${http_proxy##*@}
		exec 3<>"/dev/tcp/${proxy%:*}/${proxy##*:}"
		for i in {1..5000}; do printf 'GET http://x.example/ HTTP/1.1\r\nHost: x\r\n\r\n'; done >&3 &
		grep -c '^HTTP/1.1 403' <&3 -m 5000`}})
	if err != nil || strings.TrimSpace(string(result.Stdout)) != "5000" {
		t.Fatalf("%s %s, %v", result.Stdout, result.Stderr, err)
	}
	connections := 0
	for {
		e, err := events.Next(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case messages.NetworkConnection:
			connections++
		case messages.Gap:
			connections += e.Connections
		case messages.ExecEnded:
			if connections < 5000 {
				t.Errorf("%d connections", connections)
			}
			return
		}
	}
}

func TestHostsOfAPolicyAreCheckedWhenItIsSet(t *testing.T) {
	rt := newRuntime(t, execbus.Options{})
	bad := func() *messages.SandboxPolicy {
		policy := allowed("2130706433", "")
		return &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, Network: &policy}
	}
	_, err := rt.OpenSession(execbus.SessionOptions{Dir: t.TempDir(), Sandbox: bad()})
	if !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
	session := openSession(t, rt, execbus.SessionOptions{Dir: t.TempDir()})
	if err := session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Sandbox: bad()}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

// A policy about hosts that cannot be held runs nothing.
func TestACommandWithHostsIsRefusedWhereItCannotBeIsolated(t *testing.T) {
	for _, options := range []sandbox.Options{{Direct: true}, {WithoutNamespaces: true}} {
		spawner, err := sandbox.New(options)
		if err != nil {
			t.Fatal(err)
		}
		policy := allowed("example.com", "")
		session := openSession(t, newRuntime(t, execbus.Options{Spawner: spawner}), execbus.SessionOptions{Dir: t.TempDir(), LeastAssurance: messages.AssuranceNone,
			Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly, Network: &policy}})
		if _, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"true"}}); !errors.Is(err, messages.ErrUnsupported) || !strings.Contains(err.Error(), "named hosts") {
			t.Errorf("%+v: %v", options, err)
		} else if typed, _ := errors.AsType[*messages.Error](err); typed.Enforceable != "" {
			t.Errorf("%+v: a least assurance of %s would not accept it", options, typed.Enforceable)
		}
	}
}

// tunnel opens a tunnel to a port for plain TCP, and then runs more.
const tunnel = `proxy=${http_proxy##*@}; credential=${http_proxy#http://}
	exec 3<>"/dev/tcp/${proxy%:*}/${proxy##*:}"
	printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\n\r\n' "$1" "$1" "$(printf %s "${credential%@*}" | base64 -w0)" >&3; `

// opened starts a command with a tunnel, and returns the far end.
func opened(t testing.TB, session *execbus.Session, server net.Listener, more string) (*execbus.Process, net.Conn) {
	t.Helper()
	started, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", tunnel + more, "bash", server.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	far, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return started, far
}

// listen is a server that says nothing by itself.
func listen(t testing.TB) net.Listener {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// What a process has open ends with it, even if the other side never closes, and so does what a session has open.
func TestTunnelsEndWithTheirProcessAndTheirSession(t *testing.T) {
	server := listen(t)
	for name, end := range map[string]func(*execbus.Session, *execbus.Process) error{
		"exit": func(*execbus.Session, *execbus.Process) error { return nil },
		"terminated": func(_ *execbus.Session, p *execbus.Process) error {
			_, err := p.Terminate(patient(t))
			return err
		},
		"session": func(s *execbus.Session, _ *execbus.Process) error { return s.Close(patient(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			session := online(t, newRuntime(t, execbus.Options{}), allowed(server.Addr().String(), messages.HostTCP))
			more := "read -r line <&3; read -r line <&3; printf x >&3; " // bytes that it has not read would end the tunnel anyway
			if name != "exit" {
				more += "exec sleep 1000"
			}
			events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindNetworkConnection}})
			if err != nil {
				t.Fatal(err)
			}
			defer events.Close()
			process, far := opened(t, session, server, more)
			if _, err := far.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if err := end(session, process); err != nil {
				t.Fatal(err)
			}
			if n, err := far.Read(make([]byte, 1)); err == nil {
				t.Errorf("%d bytes came", n)
			}
			if name == "session" {
				return
			}
			e, err := events.Next(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			if c := e.(messages.NetworkConnection).Connection; c.Process != process.ID() || !c.Allowed || c.Address.String() != server.Addr().String() {
				t.Errorf("%+v", c)
			}
		})
	}
}

// A process that lives on is told of a blocked host once; its end names all of them.
func TestABlockedHostIsToldOnce(t *testing.T) {
	session := online(t, newRuntime(t, execbus.Options{}), messages.NetworkPolicy{})
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	first, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", fetch +
		"fetch one.example >/dev/null; echo first; read -r; fetch two.example >/dev/null; fetch one.example >/dev/null"},
		OpenStdin: true, Yield: new(patience), Until: &messages.Until{Pattern: "first"}})
	if err != nil {
		t.Fatal(err)
	}
	then, err := session.Write(patient(t), messages.WriteStdin{Process: first.Process, Bytes: []byte("\n"), Yield: new(patience)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := events.Next(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range [][]messages.Connection{first.BlockedHosts, then.BlockedHosts, e.(messages.ExecEnded).BlockedHosts} {
		var names []string
		for _, c := range got {
			names = append(names, c.Host)
		}
		if want := []string{"one.example", "two.example", "one.example two.example"}[i]; strings.Join(names, " ") != want {
			t.Errorf("%d: %v, want %s", i, names, want)
		}
	}
}
