//go:build linux

package clients

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/execbus/execbus" // makes this binary a warden where it is executed as one
)

// The hosts. All names lead to one address.
const (
	allowed = "allowed.test"
	asked   = "asked.test"
	denied  = "denied.test"
	address = "93.184.216.34"
	// upstream is where a proxy of the user listens, for the test of those.
	upstream = "93.184.216.40:3128"
)

// stageVariable says how far this binary is on its way into the namespace.
const stageVariable = "EXECBUS_CLIENTS_STAGE"

// upstreamVariable is set where the user has a proxy.
const upstreamVariable = "EXECBUS_CLIENTS_UPSTREAM"

func TestMain(m *testing.M) {
	switch os.Getenv(stageVariable) {
	case "":
		os.Exit(isolated())
	case "made":
		furnish()
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go answer(there)
		return here, nil
	}}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each process that this program starts as itself takes a second to exit
	os.Exit(m.Run())
}

// isolated executes this binary again in a network namespace, as the same user.
func isolated() int {
	runtime.LockOSThread() // the end of this thread would be the end of the child
	self, err := os.Executable()
	if err != nil {
		log.Print(err)
		return 1
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), stageVariable+"=made")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	if err := c.Start(); err != nil {
		fmt.Println("skipped: no network namespace can be made here:", err)
		return 0
	}
	if err := c.Wait(); c.ProcessState.ExitCode() < 0 {
		log.Print(err)
		return 1
	}
	return c.ProcessState.ExitCode()
}

// furnish makes the namespace like a machine on the internet: a loopback interface that is up, addresses that are in it without being
// its own, and ports that everybody can have. Then it goes on without the right to do that.
func furnish() {
	err := errorsOf(loopbackUp, localRoute, func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
	})
	if err != nil {
		fmt.Println("skipped: a network namespace cannot be used here:", err)
		os.Exit(0)
	}
	runtime.LockOSThread() // it is this thread's rights that the next program gets
	self, err := os.Executable()
	if err == nil {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err == nil {
		err = os.Setenv(stageVariable, "furnished")
	}
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	log.Fatal(err)
}

func errorsOf(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// localRoute makes 93.184.216.0/24 addresses of this machine: ip route add local 93.184.216.0/24 dev lo. The proxy does not take them for
// the machine's own, because no interface has them.
func localRoute() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	order := binary.NativeEndian
	route := []byte{unix.AF_INET, 24, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	for kind, value := range map[uint16][]byte{unix.RTA_DST: {93, 184, 216, 0}, unix.RTA_OIF: order.AppendUint32(nil, 1)} {
		route = append(order.AppendUint16(order.AppendUint16(route, uint16(4+len(value))), kind), value...)
	}
	message := order.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(route)))
	message = order.AppendUint16(message, unix.RTM_NEWROUTE)
	message = order.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	message = append(append(message, 1, 0, 0, 0, 0, 0, 0, 0), route...)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 512)
	n, err := unix.Read(fd, reply)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("%d bytes: %w", n, err)
	}
	if code := int32(order.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return syscall.Errno(-code)
	}
	return nil
}

// answer is a name server for one connection: every name below test has the address.
func answer(conn net.Conn) {
	defer conn.Close()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, query); err != nil || len(query) < 17 {
			return
		}
		end := 12
		var labels []string
		for query[end] != 0 {
			labels = append(labels, string(query[end+1:end+1+int(query[end])]))
			end += 1 + int(query[end])
		}
		question := query[12 : end+5]
		reply := append(query[:2:2], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
		reply = append(reply, question...)
		switch {
		case labels[len(labels)-1] != "test":
			reply[3] |= 3 // there is no such name
		case query[end+2] == 1: // A
			reply[7] = 1
			reply = append(append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), net.ParseIP(address).To4()...)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// world are the servers, and what they have seen.
type world struct {
	*testing.T
	dir       string // with the certificate ca.pem
	authority *x509.Certificate

	mu   sync.Mutex
	seen map[string]int // requests for a host, and TLS with its name
}

func (w *world) saw(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[host]++
}

func (w *world) requests(host string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[host]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorld starts the servers, on the ports 80 and 443.
func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir(), seen: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/x", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintf(rw, "hello from %s\n", r.Host) })
	w.gitPages(mux)
	w.npmPages(mux)
	w.pipPages(mux)
	w.goPages(mux)
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.saw(r.Host)
		mux.ServeHTTP(rw, r)
	})
	secure := &tls.Config{Certificates: []tls.Certificate{w.certificate()}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		w.saw(hello.ServerName)
		return nil, nil
	}}
	for port, config := range map[string]*tls.Config{"80": nil, "443": secure} {
		listener, err := net.Listen("tcp", address+":"+port)
		must(t, err)
		server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: patience, Handler: handler, TLSConfig: config}
		serve := func() error { return server.Serve(listener) }
		if config != nil {
			serve = func() error { return server.ServeTLS(listener, "", "") }
		}
		done := make(chan struct{})
		go func() { defer close(done); _ = serve() }()
		t.Cleanup(func() { _ = server.Close(); <-done })
	}
	return w
}

// certificate is for all hosts. The authority that vouches for it is in ca.pem, and named where users name theirs.
func (w *world) certificate() tls.Certificate {
	make := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(w, err)
		if by == nil {
			by = key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		must(w, err)
		return der, key
	}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "execbus tests"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, key := make(authority, authority, nil)
	authority, err := x509.ParseCertificate(der)
	must(w, err)
	w.authority = authority
	must(w, os.WriteFile(w.dir+"/ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	leaf, leafKey := make(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: allowed}, DNSNames: []string{allowed, asked, denied},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, authority, key)
	for _, variable := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "NPM_CONFIG_CAFILE"} {
		w.Setenv(variable, w.dir+"/ca.pem")
	}
	return tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: leafKey}
}

// gitPages has a repository, as files.
func (w *world) gitPages(mux *http.ServeMux) {
	if _, err := exec.LookPath("git"); err != nil {
		return
	}
	script := `git init -q work && cd work && echo hello >file && git add file && git -c user.name=a -c user.email=a@b.c commit -qm one && cd .. &&
		git clone -q --bare work repo.git && cd repo.git && git update-server-info`
	command := exec.Command("sh", "-c", script)
	command.Dir, command.Env = w.dir, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+w.dir)
	if out, err := command.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	mux.Handle("/repo.git/", http.StripPrefix("/repo.git", http.FileServer(http.Dir(filepath.Join(w.dir, "repo.git")))))
}

// npmPages has the package hello for npm.
func (w *world) npmPages(mux *http.ServeMux) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for name, text := range map[string]string{"package.json": `{"name":"hello","version":"1.0.0","main":"index.js"}`, "index.js": `module.exports = "hello from npm"`} {
		must(w, archive.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text))}))
		_, err := io.WriteString(archive, text)
		must(w, err)
	}
	must(w, archive.Close())
	must(w, compressed.Close())
	sum := sha512.Sum512(packed.Bytes())
	mux.HandleFunc("/npm/hello", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"name": "hello", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{
			"1.0.0": map[string]any{"name": "hello", "version": "1.0.0", "main": "index.js", "dist": map[string]string{
				"tarball": "https://" + r.Host + "/npm/hello/-/hello-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}}})
	})
	mux.HandleFunc("/npm/hello/-/hello-1.0.0.tgz", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(packed.Bytes()) })
}

// zipped is an archive.
func (w *world) zipped(files map[string]string) []byte {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for name, text := range files {
		file, err := archive.Create(name)
		must(w, err)
		_, err = io.WriteString(file, text)
		must(w, err)
	}
	must(w, archive.Close())
	return packed.Bytes()
}

// pipPages has the package hello for pip.
func (w *world) pipPages(mux *http.ServeMux) {
	wheel := w.zipped(map[string]string{"hello.py": "text = 'hello from pip'\n", "hello-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0.0\n",
		"hello-1.0.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "hello-1.0.0.dist-info/RECORD": ""})
	mux.HandleFunc("/simple/hello/", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, `<a href="/files/hello-1.0.0-py3-none-any.whl">hello-1.0.0-py3-none-any.whl</a>`)
	})
	mux.HandleFunc("/files/hello-1.0.0-py3-none-any.whl", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(wheel) })
}

// goPages has the module a.example/hello, as a module proxy has it.
func (w *world) goPages(mux *http.ServeMux) {
	const module = "module a.example/hello\n"
	packed := w.zipped(map[string]string{"a.example/hello@v1.0.0/go.mod": module, "a.example/hello@v1.0.0/hello.go": "package hello\n\nconst Text = \"hello from go\"\n"})
	for name, content := range map[string][]byte{"v1.0.0.info": []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`), "v1.0.0.mod": []byte(module), "v1.0.0.zip": packed} {
		mux.HandleFunc("/mod/a.example/hello/@v/"+name, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(content) })
	}
}

// trusts makes a store for Java with the authority.
func (w *world) trusts() (path string) {
	path = filepath.Join(w.dir, "trusted")
	if out, err := exec.Command("keytool", "-importcert", "-noprompt", "-storepass", "changeit", "-alias", "tests", "-file", w.dir+"/ca.pem", "-keystore", path).CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return path
}
