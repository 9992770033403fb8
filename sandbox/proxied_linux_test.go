//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// listeners gets the listeners in the networks of commands.
type listeners chan net.Listener

func (l listeners) confinement(dir string) ptyio.Confinement {
	c := workspace(dir)
	c.Proxy = func(listener net.Listener) { l <- listener }
	return c
}

// serve answers connections with a line each, as a proxy would. What a command says shows whether it was reached.
func serve(listener net.Listener, lines ...string) {
	for _, line := range lines {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = fmt.Fprintln(conn, line)
		_ = conn.Close()
	}
}

// reads is bash that reads a line from a port of its loopback.
var reads = fmt.Sprintf(`read line <>/dev/tcp/%s/%d && echo "$line"`, ptyio.ProxyAddress().Addr(), ptyio.ProxyAddress().Port())

func TestTheProxyOfACommandListensInItsNetworkOnly(t *testing.T) {
	if ptyio.ProxyAddress().Port() != confine.ProxyPort {
		t.Fatalf("commands are told %v, and the proxy listens on %d", ptyio.ProxyAddress(), confine.ProxyPort)
	}
	made := make(listeners, 2)
	spawner, e := isolating(t, made.confinement(t.TempDir()))
	reached := make(chan error, 1)
	var address string
	go func() {
		listener := <-made
		address = listener.Addr().String()
		conn, err := net.Dial("tcp", ptyio.ProxyAddress().String())
		if reached <- err; err == nil {
			_ = conn.Close()
		}
		serve(listener, "one", "two", "three")
	}()
	if got := said(t, spawner, e, false, reads+`; echo "${EXECBUS_SANDBOX_NETWORK_DISABLED-unset}"; `+reads); got != "one\nunset\ntwo" {
		t.Errorf("the command said %q", got)
	}
	if err := <-reached; err == nil || address != ptyio.ProxyAddress().String() {
		t.Errorf("it listens on %v, and from outside of the network the address gives %v", address, err)
	}
	if got := said(t, spawner, e, false, reads); got != "three" {
		t.Errorf("another command of the policy said %q", got)
	}
	if len(made) != 0 {
		t.Error("the second command got a network of its own")
	}
}

func TestAListenerClosesWhenNoCommandCanReachIt(t *testing.T) {
	made := make(listeners, 2)
	spawner, e := isolating(t, made.confinement(t.TempDir()))
	l := bash(false, "read line; "+reads)
	l.Sandbox, l.OpenStdin, l.Merged = e, true, true
	child, r := run(t, spawner, l)
	e.Release()
	listener := <-made
	go serve(listener, "still there") // the policy is gone, and the command is not
	child.Write([]byte("\n"), time.Time{}, func(ptyio.Taken, error) {})
	r.awaitEnd(t)
	if conn, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it gives %v, %v when the command has ended", conn, err)
	}
	if !strings.Contains(r.output.String(), "still there") {
		t.Errorf("the command said %q", r.output.String())
	}
}

func TestListenersCloseWithTheirWarden(t *testing.T) {
	made := make(listeners, 2)
	spawner, e := isolating(t, made.confinement(t.TempDir()))
	if got := said(t, spawner, e, false, "echo ran"); got != "ran" {
		t.Fatal(got)
	}
	listener := <-made
	if err := spawner.Close(); err != nil {
		t.Error(err)
	}
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// What is wider than named hosts needs no proxy.
func TestACommandWithAllOfTheNetworkHasNoProxy(t *testing.T) {
	made := make(listeners, 1)
	c := made.confinement(t.TempDir())
	spawner, e := isolating(t, c)
	wider, err := e.Widen(t.Context(), messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true}}, c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer wider.Release()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go serve(server, "the host's")
	got := said(t, spawner, wider, false, `read line <>/dev/tcp/127.0.0.1/$1 && echo "$line"`, fmt.Sprint(server.Addr().(*net.TCPAddr).Port))
	if got != "the host's" || len(made) != 0 {
		t.Errorf("it said %q, and %d listeners were made", got, len(made))
	}
	more, err := e.Widen(t.Context(), messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{t.TempDir()}}}, c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer more.Release()
	go func() { serve(<-made, "its own") }()
	if got := said(t, spawner, more, false, reads); got != "its own" {
		t.Errorf("with more files it said %q", got)
	}
}

// Where nothing can be isolated, a proxy would be one way out of many.
func TestNamedHostsNeedIsolation(t *testing.T) {
	for name, options := range map[string]sandbox.Options{"direct": {Direct: true}, "without namespaces": {WithoutNamespaces: true}} {
		for _, least := range []messages.Assurance{"", messages.AssuranceConfined, messages.AssuranceNone} {
			spawner := newSpawner(t, options)
			c := make(listeners).confinement(t.TempDir())
			c.Least = least
			e, err := spawner.Enclose(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			l := launch(false, "true")
			l.Sandbox = e
			_, err = spawner.Spawn(t.Context(), l)
			e.Release()
			wantUnsupported(t, err, name, "named hosts")
		}
	}
}

func wantUnsupported(t testing.TB, err error, name, text string) {
	t.Helper()
	if told, is := errors.AsType[*messages.Error](err); !is || told.Code != messages.ErrUnsupported || !strings.Contains(told.Detail, text) {
		t.Errorf("%s: %v", name, err)
	}
}

// A program that ignores the proxy reaches nothing, whatever it tries.
func TestNothingButTheProxyCanBeReached(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 here")
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	made := make(listeners, 1)
	dir := t.TempDir()
	path := dir + "/outside"
	hidden, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	abstract, err := net.Listen("unix", "@execbus-"+fmt.Sprint(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	spawner, e := isolating(t, made.confinement(dir))
	got := said(t, spawner, e, false, `python3 - "$@" <<'END'
import ctypes, errno, os, socket, sys
port, path, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def attempt(what, do):
    try:
        do()
    except Exception:
        return
    print("got out:", what)
def tcp(address, port, family=socket.AF_INET):
    with socket.socket(family) as s:
        s.settimeout(5)
        s.connect((address, port))
def udp(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((address, port))
        s.send(b"x")
        s.settimeout(5)
        s.recv(1)
def unix(address):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)
attempt("the host's loopback", lambda: tcp("127.0.0.1", port))
attempt("an address", lambda: tcp("192.0.2.1", 443))
attempt("an address in IPv6", lambda: tcp("2001:db8::1", 443, socket.AF_INET6))
attempt("metadata", lambda: tcp("169.254.169.254", 80))
attempt("UDP", lambda: udp("192.0.2.1", 443))
attempt("DNS", lambda: udp("127.0.0.53", 53))
attempt("a name", lambda: socket.getaddrinfo("example.com", 443))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
for family in ("AF_PACKET", "AF_VSOCK", "AF_ALG"): # netlink shows the network of the commands and no other
    attempt(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_SEQPACKET if family == "AF_ALG" else socket.SOCK_RAW if family != "AF_VSOCK" else socket.SOCK_STREAM))
attempt("a socket by path", lambda: unix(path))
attempt("a socket without a path", lambda: unix("\0" + name))
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
attempt("io_uring", lambda: check(libc.syscall(425, 1, ctypes.create_string_buffer(256))))
for flag, what in ((0x40000000, "network"), (0x10000000, "user")):
    attempt("a new namespace: " + what, lambda: check(libc.unshare(flag)))
attempt("another namespace", lambda: check(libc.setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0)))
attempt("ptrace of process 1", lambda: check(libc.ptrace(16, 1, 0, 0)))
attempt("the proxy's port", lambda: socket.create_server(("127.0.0.1", 61080)))
for fd in os.listdir("/proc/self/fd"):
    if os.path.exists("/proc/self/fd/" + fd) and os.readlink("/proc/self/fd/" + fd).startswith("socket:"):
        print("got out: a socket of others,", fd)
print("over")
END`, fmt.Sprint(server.Addr().(*net.TCPAddr).Port), path, "execbus-"+fmt.Sprint(os.Getpid()))
	<-made
	if got != "over" {
		t.Error(got)
	}
}
