package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/network"
	"github.com/execbus/execbus/policy/hosts"
)

// served is a server for one test, which handles one connection after the other.
func served(t *testing.T, handle func(*net.TCPConn)) (host, port string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			handle(conn.(*net.TCPConn))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	host, port, _ = net.SplitHostPort(listener.Addr().String())
	return host, port
}

// counts is a server that says how many bytes it was sent, after their end.
func counts(conn *net.TCPConn) {
	n, _ := io.Copy(io.Discard, conn)
	fmt.Fprintf(conn, "%d bytes", n)
}

// proxies is the proxy of a session, which lets commands reach one authority.
func proxies(t *testing.T, authority string) (address string, credential string) {
	t.Helper()
	rules, err := hosts.NewRules([]messages.HostRule{{Host: authority, Protocol: messages.HostTCP, Decision: messages.HostAllow}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := network.New(network.Options{Snapshot: hosts.Snapshot{Rules: rules}})
	served := make(chan error, 1)
	go func() { served <- p.Serve(listener) }()
	t.Cleanup(func() { _ = p.Close(); <-served })
	return listener.Addr().String(), p.Credential(1000).String()
}

// connects calls "execbus connect" where these are the proxy variables.
func connects(t *testing.T, variables map[string]string, in io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for _, name := range []string{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"} {
		t.Setenv(name, variables[name])
	}
	t.Setenv(configVariable, "")
	// A file, because what came from a connection that was cut may be written when the program ends.
	out, failure := os.CreateTemp(t.TempDir(), "out")
	if failure != nil {
		t.Fatal(failure)
	}
	defer out.Close()
	var err bytes.Buffer
	code = run(append([]string{"connect"}, args...), streams{in, out, &err})
	text, failure := os.ReadFile(out.Name())
	if failure != nil {
		t.Fatal(failure)
	}
	return code, string(text), err.String()
}

func TestConnectGoesThroughTheProxy(t *testing.T) {
	host, port := served(t, counts)
	address, credential := proxies(t, host+":"+port)
	other, otherPort := served(t, counts)
	good, socks, nobody := "http://"+credential+"@"+address, "socks5h://"+credential+"@"+address, "http://127.0.0.1:1"
	large := strings.Repeat("0123456789abcdef", 1<<16)
	for name, c := range map[string]struct {
		variables map[string]string
		args      []string
		code      int
		out, err  string
	}{
		"HTTP":                     {map[string]string{"HTTPS_PROXY": good}, []string{host, port}, 0, "1048576 bytes", ""},
		"SOCKS":                    {map[string]string{"ALL_PROXY": socks}, []string{host, port}, 0, "1048576 bytes", ""},
		"SOCKS without credential": {map[string]string{"ALL_PROXY": "socks5://" + address}, []string{host, port}, 0, "1048576 bytes", ""},
		"without a scheme":         {map[string]string{"all_proxy": address}, []string{host, port}, 0, "1048576 bytes", ""},
		"none":                     {nil, []string{host, port}, 0, "1048576 bytes", ""},
		"past it":                  {map[string]string{"HTTPS_PROXY": nobody, "NO_PROXY": "localhost, 127.0.0.1"}, []string{host, port}, 0, "1048576 bytes", ""},
		"the first of variables":   {map[string]string{"https_proxy": good, "HTTPS_PROXY": nobody, "ALL_PROXY": nobody}, []string{host, port}, 0, "1048576 bytes", ""},
		"a flag":                   {map[string]string{"https_proxy": nobody, "no_proxy": "*"}, []string{"--proxy", good, host, port}, 0, "1048576 bytes", ""},
		"denied":                   {map[string]string{"HTTPS_PROXY": good}, []string{other, otherPort}, exitRefused, "", "not allowed: Network access to " + other + ":" + otherPort + " was blocked"},
		"denied by SOCKS":          {map[string]string{"ALL_PROXY": socks}, []string{other, otherPort}, exitRefused, "", "not allowed by the proxy at " + address},
		"another's credential":     {map[string]string{"HTTPS_PROXY": "http://1:2@" + address}, []string{host, port}, exitRefused, "", "credential"},
		"another's, by SOCKS":      {map[string]string{"ALL_PROXY": "socks5h://1:2@" + address}, []string{host, port}, exitFailed, "", "the proxy at " + address},
		"no proxy there":           {map[string]string{"HTTPS_PROXY": nobody}, []string{host, port}, exitFailed, "", "the proxy cannot be reached"},
		"no host there":            {nil, []string{"127.0.0.1", "1"}, exitFailed, "", "127.0.0.1:1: "},
		"a scheme":                 {map[string]string{"ALL_PROXY": "ftp://x"}, []string{host, port}, exitMisused, "", "ALL_PROXY: a proxy cannot be asked by ftp"},
		"a URL":                    {map[string]string{"HTTPS_PROXY": "http://user:secret@%zz"}, []string{host, port}, exitMisused, "", "HTTPS_PROXY is no URL"},
		"no port":                  {nil, []string{host}, exitMisused, "", "name a host and a port"},
		"a port":                   {nil, []string{host, "ssh"}, exitMisused, "", "is no host and port"},
		"port 0":                   {nil, []string{host, "0"}, exitMisused, "", "is no host and port"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, err := connects(t, c.variables, strings.NewReader(large), c.args...)
			if code != c.code || out != c.out || !strings.Contains(err, c.err) || c.err == "" && err != "" || strings.Contains(err, "secret") {
				t.Errorf("%d, %q, %q", code, out, err)
			}
		})
	}
}

// The host may end its direction first, and still gets the rest of the input.
func TestConnectEndsEachDirectionByItself(t *testing.T) {
	rest := make(chan string, 1)
	host, port := served(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "all that it says")
		_ = conn.CloseWrite()
		text, _ := io.ReadAll(conn)
		rest <- string(text)
	})
	address, credential := proxies(t, host+":"+port)
	for _, variables := range []map[string]string{nil, {"HTTPS_PROXY": "http://" + credential + "@" + address}, {"ALL_PROXY": "socks5h://" + credential + "@" + address}} {
		input, typing := io.Pipe()
		shown, output := io.Pipe()
		go func() {
			said, _ := io.ReadAll(shown) // until connect has closed its output
			if string(said) != "all that it says" {
				t.Errorf("it says %q", said)
			}
			_, _ = io.WriteString(typing, "the rest")
			_ = typing.Close()
		}()
		for _, name := range []string{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", configVariable} {
			t.Setenv(name, variables[name])
		}
		var errors bytes.Buffer
		if code := run([]string{"connect", host, port}, streams{input, output, &errors}); code != 0 {
			t.Errorf("%d, %s", code, &errors)
		}
		if got := <-rest; got != "the rest" {
			t.Errorf("%v: the host got %q", variables, got)
		}
	}
}

// A host that is gone ends it, though the input is still open.
func TestConnectEndsWithAHostThatIsGone(t *testing.T) {
	host, port := served(t, func(conn *net.TCPConn) {
		_, _ = io.ReadFull(conn, make([]byte, 1))
		_ = conn.SetLinger(0) // a reset
	})
	input, typing := io.Pipe()
	defer typing.Close()
	go func() { _, _ = io.WriteString(typing, "x") }()
	code, out, err := connects(t, nil, input, host, port)
	if code != exitFailed || out != "" || !strings.Contains(err, "cut") {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	host, port = served(t, func(conn *net.TCPConn) { _, _ = io.ReadFull(conn, make([]byte, 1)) }) // an end
	input, typing = io.Pipe()
	defer typing.Close()
	go func() {
		for {
			if _, err := io.WriteString(typing, "x"); err != nil {
				return
			}
		}
	}()
	if code, out, err := connects(t, nil, input, host, port); code != 0 && !strings.Contains(err, "cut") || out != "" {
		t.Errorf("%d, %q, %q", code, out, err)
	}
}

// A proxy that answers with a page, behind which more comes, or with nothing.
func TestConnectUnderstandsOtherProxies(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<h1>blocked</h1>")
	}))
	t.Cleanup(page.Close)
	if code, _, err := connects(t, map[string]string{"HTTPS_PROXY": page.URL}, strings.NewReader(""), "a.example", "22"); code != exitRefused || !strings.Contains(err, "403 Forbidden") || strings.Contains(err, "h1") {
		t.Errorf("%d, %q", code, err)
	}
	host, port := served(t, func(conn *net.TCPConn) {
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil || request.Method != http.MethodConnect || request.RequestURI != "[2001:db8::1]:22" {
			t.Errorf("%+v, %v", request, err)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nearly bytes")
	})
	if code, out, err := connects(t, map[string]string{"HTTPS_PROXY": host + ":" + port}, strings.NewReader(""), "2001:db8::1", "22"); code != 0 || out != "early bytes" || err != "" {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	host, port = served(t, func(conn *net.TCPConn) { _, _ = io.WriteString(conn, "220 mail.example\r\n") })
	if code, _, err := connects(t, map[string]string{"HTTPS_PROXY": host + ":" + port}, strings.NewReader(""), "a.example", "22"); code != exitFailed || !strings.Contains(err, "the proxy at ") {
		t.Errorf("%d, %q", code, err)
	}
}

func TestNamesPastTheProxy(t *testing.T) {
	for _, c := range []struct {
		list, host string
		is         bool
	}{
		{"", "a.example", false}, {"*", "a.example", true}, {"a.example", "A.Example.", true}, {"example", "a.example", true}, {".example", "a.example", true},
		{"*.example", "a.example", true}, {"ple", "a.example", false}, {"b.example, a.example", "a.example", true}, {"a.example:22", "a.example", true},
		{"a.example:23", "a.example", false}, {"10.0.0.0/8", "10.1.2.3", true}, {"10.0.0.0/8", "11.1.2.3", false}, {"10.1.2.3", "10.1.2.3", true},
		{"2.3", "10.1.2.3", false}, {"::1", "::1", true}, {"[::1]:22", "::1", true}, {"fd00::/8", "fd00::1", true}, {",", "a.example", false}, {".", "a.example", false},
	} {
		if got := past(c.list, c.host, "22"); got != c.is {
			t.Errorf("%q, %s: %v", c.list, c.host, got)
		}
	}
}
