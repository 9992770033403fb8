package network

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// upstream is a proxy of a user. It connects every tunnel to one server, and notes what it is asked.
func upstream(t *testing.T, r *rig, secret bool) (at *url.URL, asked chan string) {
	asked = make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked <- request.Method + " " + request.RequestURI + " " + request.Header.Get("Proxy-Authorization")
		if request.Method != http.MethodConnect {
			fmt.Fprint(w, "through the upstream proxy")
			return
		}
		if strings.HasPrefix(request.RequestURI, "other.test") {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		port := request.URL.Port()
		far, err := net.Dial("tcp", r.servers[goodAddress+":"+port])
		if err != nil {
			t.Error(err)
			return
		}
		near, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(near, far)
			near.Close()
		}()
		io.Copy(far, buffered)
		far.Close()
		<-done
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secret {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("me", "secret")
	return at, asked
}

func TestUpstreamProxies(t *testing.T) {
	var at *url.URL
	r := newRig(t, Options{Upstream: func(u *url.URL) (*url.URL, error) {
		if u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" {
			t.Errorf("it asks for %s", u)
		}
		return at, nil
	}})
	at, asked := upstream(t, r, false)
	r.servers[at.Host] = at.Host
	const credential = " Basic bWU6c2VjcmV0"
	if got := r.get("good.test", ""); !strings.HasSuffix(got, "through the upstream proxy") {
		t.Error(got)
	}
	if got := next(t, asked); got != "GET http://good.test/"+credential {
		t.Error(got)
	}
	if got, err := r.shake("good.test:443", &tls.Config{ServerName: "good.test"}, "good.test"); err != nil || !strings.HasSuffix(got, "hello from good.test") {
		t.Errorf("%q, %v", got, err)
	}
	if got := next(t, asked); got != "CONNECT good.test:443"+credential {
		t.Error(got)
	}
	conn, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	if greeting, err := bufio.NewReader(conn).ReadString('\n'); err != nil || greeting != "greeting\n" {
		t.Errorf("%q, %v", greeting, err)
	}
	conn.Close()
	next(t, asked)
	if _, err := r.tunnel("other.test:443"); err == nil || !strings.Contains(err.Error(), "502") || !strings.Contains(err.Error(), "403 Forbidden") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	next(t, asked)
	for _, record := range r.recorded(4) {
		if record.Upstream != "http://me:xxxxx@"+at.Host || record.Address.IsValid() {
			t.Errorf("%+v", record)
		}
	}
	// Our own look at the addresses comes first.
	for _, host := range []string{"private.test", "nowhere.test", "evil.test"} {
		if got := r.get(host, ""); strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%s: %s", host, got)
		}
	}
	at = &url.URL{Scheme: "ftp", Host: "x"}
	if got := r.get("good.test", ""); !strings.Contains(got, "502") || !strings.Contains(got, "its scheme is neither http nor https") {
		t.Error(got)
	}
	if len(asked) > 0 {
		t.Error("the upstream proxy was asked")
	}
}

func TestAnUpstreamProxyWhoseCertificateNobodyKnows(t *testing.T) {
	var at *url.URL
	r := newRig(t, Options{Upstream: func(*url.URL) (*url.URL, error) { return at, nil }})
	at, _ = upstream(t, r, true)
	r.servers[at.Host] = at.Host
	if _, err := r.tunnel("good.test:443"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// The user's certificates hold for the upstream proxy. They are read once in a process, so this test needs one of its own.
func TestAnUpstreamProxyWithTheUsersCertificate(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("certificates come from the system's own store")
	}
	if os.Getenv("SSL_CERT_FILE") == "" || os.Getenv("EXECBUS_TEST_UPSTREAM") == "" {
		server := httptest.NewUnstartedServer(nil)
		server.StartTLS()
		certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		server.Close()
		file := filepath.Join(t.TempDir(), "user.pem")
		if err := os.WriteFile(file, certificate, 0o644); err != nil {
			t.Fatal(err)
		}
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), "SSL_CERT_FILE="+file, "EXECBUS_TEST_UPSTREAM=1")
		if output, err := again.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS") {
			t.Errorf("%v\n%s", err, output)
		}
		return
	}
	var at *url.URL
	r := newRig(t, Options{Upstream: func(*url.URL) (*url.URL, error) { return at, nil }})
	at, _ = upstream(t, r, true)
	r.servers[at.Host] = at.Host
	if got, err := r.shake("good.test:443", &tls.Config{ServerName: "good.test"}, "good.test"); err != nil || !strings.HasSuffix(got, "hello from good.test") {
		t.Errorf("%q, %v", got, err)
	}
	if got := r.get("good.test", ""); !strings.HasSuffix(got, "through the upstream proxy") {
		t.Error(got)
	}
}

// A tunnel through an upstream proxy that is idle holds no buffer, even if the server's first bytes came with the proxy's answer.
func TestTunnelsThroughAnUpstreamProxyHoldNoBuffer(t *testing.T) {
	near, program := pair(t)
	far, server := pair(t)
	runtime.GC()
	runtime.GC() // what the pool has goes with the second one
	made := 0
	old := buffers.New
	buffers.New = func() any { made++; return old() }
	defer func() { buffers.New = old }()
	ended := make(chan error, 2)
	early := &prefixed{far, []byte("early ")}
	never := func() time.Duration { return 0 }
	go func() { _, err := flow(near, early, never, patience); ended <- err }()
	go func() { _, err := flow(early, near, never, patience); ended <- err }()
	io.WriteString(server, "late")
	io.WriteString(program, "hello")
	for from, want := range map[net.Conn]string{program: "early late", server: "hello"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	program.Close()
	server.Close()
	next(t, ended)
	next(t, ended)
	if made > 0 {
		t.Errorf("%d buffers", made)
	}
}

// pair are the two ends of a connection.
func pair(t *testing.T) (a, b net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if a, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// The answer of an upstream proxy is bounded, and so is the time in which it comes.
func TestAnUpstreamProxyWhoseAnswerHasNoEnd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served, sent := make(chan struct{}), 0 // KiB
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for ; err == nil; sent++ {
			_, err = io.WriteString(conn, "A: "+strings.Repeat("a", 1<<10)+"\r\n")
		}
	}()
	r := newRig(t, Options{Upstream: func(*url.URL) (*url.URL, error) { return url.Parse("http://" + listener.Addr().String()) }})
	r.servers[listener.Addr().String()] = listener.Addr().String()
	if _, err := r.tunnel("good.test:443"); err == nil || !strings.Contains(err.Error(), "502") {
		t.Error(err)
	}
	listener.Close()
	if <-served; sent > 64<<10 { // what sockets buffer is much less
		t.Errorf("%d KiB of an answer were read", sent)
	}
}
