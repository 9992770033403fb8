//go:build linux

package clients

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// patience is what only a defect makes a test wait for.
const patience = time.Minute

// client is a program that talks to a host. Its script is for bash, in an empty directory; $1 is the host.
type client struct {
	name   string
	needs  string // programs
	script string
	says   string // after it was served
	// ignores says that it does not use the proxy, so that it reaches nothing, and no record tells of it.
	ignores bool
	// byName says that it does not use the proxy, but asks for a name, which the stub resolver of the sandbox knows if it may be allowed.
	byName bool
	// nameless says that it shows no credential, so that an event tells of what was denied, without a process, and the result does not.
	nameless bool
}

const (
	pythonGet   = `import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())`
	pythonPlain = `import socket, sys; s = socket.create_connection((sys.argv[1], 80), 10); s.sendall(b"GET /x HTTP/1.0\r\nHost: " + sys.argv[2].encode() + b"\r\n\r\n"); print(s.recv(4096).decode())`
	javaGet     = `public class Get { public static void main(String[] a) throws Exception {
		System.out.println(new String(new java.net.URL(a[0]).openStream().readAllBytes())); } }`
	goGet = `GOENV=off GOTOOLCHAIN=local GOSUMDB=off GOFLAGS=-modcacherw GOPATH=$PWD/go GOCACHE=$PWD/cache GOPROXY=https://$1/mod go mod download -json a.example/hello@v1.0.0 &&
		cat go/pkg/mod/a.example/hello@v1.0.0/hello.go`
)

var clients = []client{
	{name: "curl", needs: "curl", script: `curl -sS --fail "http://$1/x"`, says: "hello from "},
	{name: "curl over TLS", needs: "curl", script: `curl -sS --fail "https://$1/x"`, says: "hello from "},
	{name: "curl by SOCKS", needs: "curl", script: `https_proxy= HTTPS_PROXY= curl -sS --fail "https://$1/x"`, says: "hello from "},
	{name: "wget", needs: "wget", script: `wget -qO- --tries=1 "http://$1/x"`, says: "hello from "},
	{name: "wget over TLS", needs: "wget", script: `wget -qO- --tries=1 --ca-certificate="$SSL_CERT_FILE" "https://$1/x"`, says: "hello from "},
	{name: "git over TLS", needs: "git", script: `git clone -q "https://$1/repo.git" into && cat into/file`, says: "hello"},
	{name: "npm", needs: "npm", script: `npm install --registry "https://$1/npm/" --fetch-retries=0 --no-audit --no-fund --no-update-notifier --cache "$PWD/cache" hello &&
		node -e 'console.log(require("hello"))'`, says: "hello from npm"},
	{name: "pip", needs: "python3 pip", script: `python3 -m pip download --disable-pip-version-check --retries 0 --no-deps --no-cache-dir -i "https://$1/simple" hello &&
		PYTHONPATH=hello-1.0.0-py3-none-any.whl python3 -c 'import hello; print(hello.text)'`, says: "hello from pip"},
	{name: "go", needs: "go", script: goGet, says: "hello from go"},
	{name: "python", needs: "python3", script: `python3 -c '` + pythonGet + `' "http://$1/x"`, says: "hello from "},
	{name: "python over TLS", needs: "python3", script: `python3 -c '` + pythonGet + `' "https://$1/x"`, says: "hello from "},
	{name: "Java", needs: "java javac", script: `java -XX:TieredStopAtLevel=1 -cp "$CLASSES" Get "http://$1/x"`, says: "hello from ", nameless: true},
	{name: "Java over TLS", needs: "java javac keytool", script: `java -XX:TieredStopAtLevel=1 -cp "$CLASSES" Get "https://$1/x"`, says: "hello from ", nameless: true},
	{name: "python without the variables, by address", needs: "python3", script: `python3 -c '` + pythonPlain + `' ` + address + ` "$1"`, says: "hello from ", ignores: true},
	{name: "curl without the variables, by address", needs: "curl", script: `curl -sS --fail --noproxy '*' --connect-to "$1::` + address + `:" "http://$1/x"`, says: "hello from ", ignores: true},
	{name: "python without the variables", needs: "python3", script: `python3 -c '` + pythonPlain + `' "$1" "$1"`, says: "200 OK", byName: true},
	{name: "curl over TLS without the variables", needs: "curl", script: `curl -sS --fail --noproxy '*' "https://$1/x"`, says: "hello from ", byName: true},
	{name: "Java without the variables", needs: "java javac", script: `env -u JAVA_TOOL_OPTIONS java -XX:TieredStopAtLevel=1 -cp "$CLASSES" Get "http://$1/x"`, says: "hello from ", byName: true},
}

// person says yes to every question, once.
type person struct {
	mu    sync.Mutex
	about []string
}

// Approve implements execbus.Approver.
func (p *person) Approve(_ context.Context, q messages.Question) (messages.Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	about := q.Text()
	if q.Host != nil {
		about = q.Host.Host
	}
	p.about = append(p.about, about)
	return messages.Decision{Kind: messages.DecisionApproved}, nil
}

// questions are what the person was asked about since the last time.
func (p *person) questions() (about []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	about, p.about = p.about, nil
	return about
}

// online is a session whose commands may talk to the allowed host, and about another one the person is asked.
func online(t *testing.T, p *person) (session *execbus.Session, dir string) {
	t.Helper()
	dir = t.TempDir()
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
	}
	rt, err := execbus.Start(execbus.Options{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	session, err = rt.OpenSession(execbus.SessionOptions{Dir: dir, LeastAssurance: messages.AssuranceIsolated, Approver: p, Sandbox: &messages.SandboxPolicy{
		Type: messages.SandboxWorkspaceWrite, Network: &messages.NetworkPolicy{Hosts: []messages.HostRule{
			{Host: allowed, Decision: messages.HostAllow}, {Host: asked, Decision: messages.HostPrompt}}}}})
	must(t, err)
	return session, dir
}

// run runs a client's script in an empty directory, which is its home, too.
func run(t *testing.T, session *execbus.Session, within, script, host string, set map[string]string) *messages.RunResult {
	t.Helper()
	dir, err := os.MkdirTemp(within, "")
	must(t, err)
	set["HOME"], set["TMPDIR"] = dir, dir
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := session.Run(ctx, messages.RunCommand{Argv: []string{"bash", "-c", script, "bash", host}, Dir: dir, Environment: &messages.EnvironmentPolicy{Set: set}})
	must(t, err)
	return result
}

func TestClients(t *testing.T) {
	w := newWorld(t)
	p := &person{}
	session, dir := online(t, p)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			set := c.prepare(t, w)
			may := run(t, session, dir, c.script, allowed, set)
			if served := strings.Contains(string(may.Stdout), c.says) && may.Status == messages.StatusExited(0); served == c.ignores || len(may.BlockedHosts) > 0 {
				t.Errorf("the allowed host: %v, %s %s, blocked %v", may.Status, may.Stdout, may.Stderr, may.BlockedHosts)
			}
			if about := p.questions(); about != nil {
				t.Errorf("the person was asked about %v", about)
			}
			approved := run(t, session, dir, c.script, asked, set)
			if served := strings.Contains(string(approved.Stdout), c.says) && approved.Status == messages.StatusExited(0); served == c.ignores || len(approved.BlockedHosts) > 0 {
				t.Errorf("the host that is asked about: %v, %s %s, blocked %v", approved.Status, approved.Stdout, approved.Stderr, approved.BlockedHosts)
			}
			if about := p.questions(); c.ignores != (len(about) == 0) || !c.ignores && (about[0] != asked || len(about) > 1) {
				t.Errorf("the person was asked about %v", about)
			}
			events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindNetworkConnection}})
			must(t, err)
			defer events.Close()
			mayNot := run(t, session, dir, c.script, denied, set)
			if mayNot.Status == messages.StatusExited(0) || strings.Contains(string(mayNot.Stdout), c.says) || w.requests(denied) > 0 {
				t.Errorf("the denied host: %v, %s %s; it was reached %d times", mayNot.Status, mayNot.Stdout, mayNot.Stderr, w.requests(denied))
			}
			told := slices.ContainsFunc(mayNot.BlockedHosts, refused)
			if told == (c.ignores || c.byName || c.nameless) {
				t.Errorf("the result tells of %v", mayNot.BlockedHosts)
			}
			if !c.ignores && !c.byName { // a name that is denied is not found
				one := messages.Connection{Allowed: true}
				for one.Allowed { // those of the run before may end late
					event, err := events.Next(t.Context())
					must(t, err)
					one = event.(messages.NetworkConnection).Connection
				}
				if !refused(one) || (one.Process == 0) != c.nameless {
					t.Errorf("the event tells of %+v", one)
				}
			}
			said, _, _ := strings.Cut(strings.TrimSpace(string(mayNot.Stderr)), "\n\tat ")
			t.Logf("denied, it says: %s", said[max(0, len(said)-300):])
		})
	}
}

// refused reports whether a connection to the denied host was refused, with the rule that would allow it.
func refused(c messages.Connection) bool {
	return c.Host == denied && !c.Allowed && c.Suggestion != nil
}

// prepare skips a client that is not installed, and makes what it needs. It returns variables for it.
func (c client) prepare(t *testing.T, w *world) map[string]string {
	for program := range strings.FieldsSeq(c.needs) {
		_, err := exec.LookPath(program)
		if program == "pip" {
			err = exec.Command("python3", "-m", "pip", "--version").Run()
		}
		if err != nil {
			t.Skipf("skipped: %s is not installed: %v", program, err)
		}
	}
	set := map[string]string{}
	if strings.HasPrefix(c.name, "Java") {
		set["CLASSES"] = t.TempDir()
		source := filepath.Join(set["CLASSES"], "Get.java")
		must(t, os.WriteFile(source, []byte(javaGet), 0o644))
		if out, err := exec.Command("javac", "-d", set["CLASSES"], source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if c.name == "Java over TLS" {
		set["JAVA_TOOL_OPTIONS"] = "-Djavax.net.ssl.trustStore=" + w.trusts() + " -Djavax.net.ssl.trustStorePassword=changeit"
	}
	return set
}

// What the user has to go through, commands go through behind the proxy that decides: it is asked only for what is allowed.
func TestTheUsersOwnProxy(t *testing.T) {
	if os.Getenv(upstreamVariable) == "" {
		self, err := os.Executable()
		must(t, err)
		c := exec.CommandContext(t.Context(), self, "-test.run=^TestTheUsersOwnProxy$", "-test.v")
		c.Env = append(os.Environ(), upstreamVariable+"=1", "HTTP_PROXY=http://me:secret@"+upstream, "HTTPS_PROXY=http://me:secret@"+upstream, "NO_PROXY=")
		out, err := c.CombinedOutput()
		if strings.Contains(string(out), "SKIP") {
			t.Skipf("%s", out)
		}
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	w, asked := newWorld(t), userProxy(t)
	session, dir := online(t, &person{})
	for scheme, want := range map[string]string{"http": "GET http://" + allowed + "/x", "https": "CONNECT " + allowed + ":443"} {
		script := `curl -sS --fail "` + scheme + `://$1/x"`
		may := run(t, session, dir, script, allowed, map[string]string{})
		if !strings.Contains(string(may.Stdout), "hello from "+allowed) {
			t.Errorf("%s: %v, %s %s", scheme, may.Status, may.Stdout, may.Stderr)
		}
		if got := <-asked; got != want {
			t.Errorf("%s: the user's proxy is asked %s, want %s", scheme, got, want)
		}
		mayNot := run(t, session, dir, script, denied, map[string]string{})
		if mayNot.Status == messages.StatusExited(0) || w.requests(denied) > 0 || len(asked) > 0 {
			t.Errorf("%s: %v, %s; %d questions to the user's proxy", scheme, mayNot.Status, mayNot.Stdout, len(asked))
		}
		if variables := run(t, session, dir, "env", allowed, map[string]string{}); strings.Contains(string(variables.Stdout), "secret") {
			t.Error("the command sees the user's proxy")
		}
	}
}

// userProxy is a proxy that asks for a password, and tells what it is asked.
func userProxy(t *testing.T) (asked chan string) {
	asked = make(chan string, 10)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host }}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked <- fmt.Sprintf("%s %s", r.Method, r.RequestURI)
		if r.Header.Get("Proxy-Authorization") != "Basic bWU6c2VjcmV0" {
			http.Error(rw, "who are you?", http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect {
			forward.ServeHTTP(rw, r)
			return
		}
		far, err := net.Dial("tcp", address+":443")
		if err != nil {
			t.Error(err)
			return
		}
		near, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
		both.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
		both.Wait()
	})}
	// The rest of this process has no use for the variables, and the reverse proxy would go to itself.
	forward.Transport = &http.Transport{}
	listener, err := net.Listen("tcp", upstream)
	must(t, err)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return asked
}
