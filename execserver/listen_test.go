package execserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

func TestAddressesAreUnderstoodOrRefused(t *testing.T) {
	s := newServer(t, Options{})
	for _, address := range []string{DefaultListen, "ws://127.0.0.1:0/", "ws://[::1]:0"} {
		l, err := s.Listen(address, ListenOptions{})
		if err != nil {
			if strings.Contains(address, "::1") {
				t.Logf("skipped %s: %v", address, err)
				continue
			}
			t.Fatal(err)
		}
		if url := l.URL(); !strings.HasPrefix(url, strings.TrimSuffix(strings.TrimSuffix(address, "/"), "0")) || strings.HasSuffix(url, ":0") {
			t.Errorf("%s became %s", address, url)
		}
		l.Close()
	}
	for _, address := range []string{"", "127.0.0.1:0", "http://127.0.0.1:0", "ws://", "ws://localhost:0", "ws://127.0.0.1", "ws://127.0.0.1:x", "ws://127.0.0.1:0/path",
		"ws://127.0.0.1:0?a", "ws://u@127.0.0.1:0", "wss://127.0.0.1:0", "unix://", "unix:relative", "unix://relative", "unix:///nonexistent/dir/s", "ws://192.0.2.1:0", "stdio"} {
		if l, err := s.Listen(address, ListenOptions{Token: "t"}); err == nil {
			t.Errorf("%q became %s", address, l.URL())
			l.Close()
		}
	}
	if _, err := s.Listen("ws://0.0.0.0:0", ListenOptions{}); err == nil || !strings.Contains(err.Error(), "everyone") {
		t.Errorf("got %v", err)
	}
	l, err := s.Listen("ws://0.0.0.0:0", ListenOptions{Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// serving serves until the test ends.
func serving(t *testing.T, l *Listener) {
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- l.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestASocketIsForItsUserAndGoesWithTheServer(t *testing.T) {
	s := newServer(t, Options{})
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	l, err := s.Listen("unix://"+path, ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen("unix://"+path, ListenOptions{}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("got %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket is still there")
		}
	})
	serving(t, l)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	newClient(t, wire.Lines(conn, conn, wire.MaxMessage)).open("")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen("unix://"+file, ListenOptions{}); err == nil {
		t.Error("a file was replaced")
	}
}

func TestAClientOfAnotherUserIsTurnedAway(t *testing.T) {
	if path := os.Getenv("EXECSERVER_TEST_SOCKET"); path != "" { // as the other user
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		lines := wire.Lines(conn, conn, wire.MaxMessage)
		_ = lines.Write(t.Context(), []byte(`{"id":1,"method":"initialize","params":{"clientName":"x"}}`))
		if answer, err := lines.Read(t.Context()); err == nil {
			t.Errorf("got %s", answer)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can be two users")
	}
	dir, err := os.MkdirTemp("", "execserver")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "test"), self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := newServer(t, Options{}).Listen("unix://"+filepath.Join(dir, "s"), ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	serving(t, l)
	for _, path := range []string{dir, filepath.Join(dir, "s")} { // so that only the check of the user can refuse it
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	other := exec.Command(filepath.Join(dir, "test"), "-test.run", "^"+t.Name()+"$")
	other.Dir = dir
	other.Env = []string{"EXECSERVER_TEST_SOCKET=" + filepath.Join(dir, "s")}
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if text, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// issued makes a certificate for 127.0.0.1, signed by an authority or, if that is nil, by itself.
func issued(t *testing.T, authority *tls.Certificate) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: authority == nil, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, signer := template, any(key)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func TestACertificateIsAsGoodAsAToken(t *testing.T) {
	authority := issued(t, nil)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	own := issued(t, &authority)
	s := newServer(t, Options{})
	l, err := s.Listen("ws://0.0.0.0:0", ListenOptions{TLS: &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}})
	if err != nil {
		t.Fatal(err)
	}
	serving(t, l)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(l.URL(), "wss://"))
	url := "wss://127.0.0.1:" + port
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		works        bool
	}{"none": {nil, false}, "of another authority": {[]tls.Certificate{issued(t, nil)}, false}, "right": {[]tls.Certificate{issued(t, &authority)}, true}} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: test.certificates}}
		conn, _, err := wire.DialWebsocket(t.Context(), url, &http.Client{Transport: transport}, nil, wire.MaxMessage)
		if (err == nil) != test.works {
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil {
			newClient(t, conn).open("")
		}
		transport.CloseIdleConnections()
	}
}
