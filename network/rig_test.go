package network

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience is what only a defect makes a test wait for.
const patience = time.Minute

// rig is a proxy with hosts of its own: names, addresses, and servers that stand for them.
type rig struct {
	testing.TB
	*Proxy
	address string

	mu      sync.Mutex
	names   map[string][]string // each lookup takes the first; the last stays
	servers map[string]string   // where an address of the internet really is
	dials   []string
	records []messages.Connection
	changed chan struct{}   // closed with each record
	seen    []*http.Request // by the web servers
}

// Addresses of the hosts.
const (
	goodAddress = "93.184.216.34"
	evilAddress = "93.184.216.66"
)

// usual are the rules of most tests.
var usual = []messages.HostRule{
	allowed("good.test", ""), allowed("other.test", ""), allowed("private.test", ""), allowed("mixed.test", ""), allowed("rebind.test", ""), allowed("nowhere.test", ""),
	allowed("cname.test", ""), allowed("good.test:22", messages.HostTCP),
	{Host: "forbidden.test", Decision: messages.HostForbid}, {Host: "93.184.216.99", Decision: messages.HostForbid},
	{Host: "hidden.test", Decision: messages.HostAllow, HiddenName: true}, allowed(goodAddress, ""),
}

func allowed(host string, protocol messages.HostProtocol) messages.HostRule {
	return messages.HostRule{Host: host, Protocol: protocol, Decision: messages.HostAllow}
}

func snapshotOf(t testing.TB, rules ...messages.HostRule) hosts.Snapshot {
	t.Helper()
	read, err := hosts.NewRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	return hosts.Snapshot{Rules: read}
}

// newRig makes a proxy whose hosts are web servers, one for TLS and one for plain text, and an echo.
func newRig(t testing.TB, options Options) *rig {
	r := &rig{TB: t, changed: make(chan struct{}), servers: map[string]string{}, names: map[string][]string{
		"good.test": {goodAddress}, "other.test": {goodAddress}, "hidden.test": {goodAddress}, "evil.test": {evilAddress}, "forbidden.test": {evilAddress},
		"private.test": {"10.0.0.5"}, "mixed.test": {goodAddress + " fd00::1"}, "rebind.test": {goodAddress, "127.0.0.1"}, "cname.test": {"93.184.216.99"},
	}}
	web := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		io.Copy(io.Discard, request.Body)
		r.mu.Lock()
		r.seen = append(r.seen, request)
		r.mu.Unlock()
		if request.URL.Path == "/redirect" {
			http.Redirect(w, request, "http://evil.test/", http.StatusFound)
			return
		}
		if request.URL.Path == "/switch" {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			io.Copy(conn, conn)
			return
		}
		fmt.Fprintf(w, "hello from %s", request.Host)
	})
	plain, secret := httptest.NewServer(web), httptest.NewUnstartedServer(web)
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secret.Close)
	r.servers[goodAddress+":80"] = plain.Listener.Addr().String()
	r.servers[goodAddress+":443"] = secret.Listener.Addr().String()
	r.servers[goodAddress+":22"] = echo(t)
	if options.Snapshot.Rules == nil {
		options.Snapshot = snapshotOf(t, usual...)
	}
	if options.Resolver == nil {
		options.Resolver = r
	}
	if options.Dial == nil {
		options.Dial = r.dial
	}
	options.Record = r.record
	r.Proxy = New(options)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(listener) }()
	t.Cleanup(func() {
		r.Close()
		if err := <-served; err != nil {
			t.Errorf("the proxy served until %v", err)
		}
	})
	return r
}

// echo is a server that greets and then sends back what it gets.
func echo(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				io.WriteString(conn, "greeting\n")
				io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); group.Wait() })
	return listener.Addr().String()
}

// LookupNetIP implements Resolver.
func (r *rig) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, whole := strings.CutSuffix(name, ".")
	if !whole {
		r.Errorf("%s could be completed with the domains that the machine searches", name)
	}
	answers := r.names[name]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if len(answers) > 1 {
		r.names[name] = answers[1:]
	}
	var all []netip.Addr
	for text := range strings.FieldsSeq(answers[0]) {
		all = append(all, netip.MustParseAddr(text))
	}
	return all, nil
}

func (r *rig) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	r.dials = append(r.dials, address)
	real, found := r.servers[address]
	r.mu.Unlock()
	if !found {
		return nil, fmt.Errorf("there is no server at %s", address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, real)
}

func (r *rig) record(record messages.Connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
	close(r.changed)
	r.changed = make(chan struct{})
}

// recorded waits for n records.
func (r *rig) recorded(n int) []messages.Connection {
	r.Helper()
	late := time.After(patience)
	for {
		r.mu.Lock()
		records, changed := slices.Clone(r.records), r.changed
		r.mu.Unlock()
		if len(records) >= n {
			return records
		}
		select {
		case <-changed:
		case <-late:
			r.Fatalf("there are %d records, want %d: %+v", len(records), n, records)
		}
	}
}

// recordOf waits for a record. Tunnels that end at the same time are recorded in any order.
func (r *rig) recordOf(wanted func(messages.Connection) bool) messages.Connection {
	r.Helper()
	for n := 1; ; n++ {
		if record := r.recorded(n)[n-1]; wanted(record) {
			return record
		}
	}
}

func (r *rig) dialled() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.dials)
}

func (r *rig) requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// connect connects to the proxy.
func (r *rig) connect() *net.TCPConn {
	r.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn.(*net.TCPConn)
}

// send sends bytes and returns all that is answered until the proxy closes, which a request has to ask for. (To close one's own
// side would be to hang up.)
func (r *rig) send(text string) string {
	r.Helper()
	conn := r.connect()
	io.WriteString(conn, text)
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r.Errorf("the proxy did not close after %q and %q", text, answer)
	}
	return string(answer)
}

// get requests the page of a host.
func (r *rig) get(host, header string) string {
	r.Helper()
	return r.send("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + header + "\r\n")
}

// tunnel opens a tunnel by CONNECT.
func (r *rig) tunnel(authority string) (*net.TCPConn, error) {
	r.Helper()
	conn := r.connect()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	// One byte at a time, so that nothing behind the header is read.
	response, err := http.ReadResponse(bufio.NewReaderSize(oneByte{conn}, 16), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	return conn, nil
}

type oneByte struct{ io.Reader }

func (o oneByte) Read(b []byte) (int, error) { return o.Reader.Read(b[:min(len(b), 1)]) }

// shake makes a tunnel and a TLS handshake in it, and a request to a host.
func (r *rig) shake(authority string, config *tls.Config, host string) (string, error) {
	r.Helper()
	conn, err := r.tunnel(authority)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return talkTLS(conn, config, host)
}

func talkTLS(conn net.Conn, config *tls.Config, host string) (string, error) {
	config.InsecureSkipVerify = true
	secure := tls.Client(conn, config)
	if err := secure.Handshake(); err != nil {
		return "", err
	}
	fmt.Fprintf(secure, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	answer, err := io.ReadAll(secure)
	return string(answer), err
}

// socks opens a tunnel by SOCKS, and returns the code of the reply.
func (r *rig) socks(request string) (*net.TCPConn, byte) {
	r.Helper()
	conn := r.connect()
	io.WriteString(conn, "\x05\x01\x00"+request)
	answer := make([]byte, 12)
	if n, err := io.ReadFull(conn, answer); err != nil {
		r.Errorf("the answer ends after %d bytes: %v", n, err)
		return conn, 255
	}
	return conn, answer[3]
}

func socksNamed(name string, port int) string {
	return "\x05\x01\x00\x03" + string([]byte{byte(len(name))}) + name + string([]byte{byte(port >> 8), byte(port)})
}

func socksAddress(text string, port int) string {
	raw := netip.MustParseAddr(text).AsSlice()
	kind := map[int]string{4: "\x01", 16: "\x04"}[len(raw)]
	return "\x05\x01\x00" + kind + string(raw) + string([]byte{byte(port >> 8), byte(port)})
}

func reader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

func contextWith(t *testing.T, address netip.AddrPort) context.Context {
	return context.WithValue(t.Context(), checkedAddress{}, address)
}
