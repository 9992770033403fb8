package network

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestPlainRequestsAreForwarded(t *testing.T) {
	r := newRig(t, Options{})
	answer := r.send("POST http://GOOD.test./a?b;c=%zz HTTP/1.1\r\nHost: GOOD.test.\r\nX-Forwarded-For: 1.2.3.4\r\nProxy-Connection: keep-alive\r\nConnection: X-Gone, close\r\nX-Gone: x\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello")
	if !strings.HasPrefix(answer, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(answer, "hello from good.test") {
		t.Errorf("%s", answer)
	}
	seen := r.requests()[0]
	if seen.RequestURI != "/a?b;c=%zz" || seen.Header.Get("X-Forwarded-For") != "1.2.3.4" || seen.ContentLength != 5 {
		t.Errorf("the host got %s with %v", seen.RequestURI, seen.Header)
	}
	for _, name := range []string{"Proxy-Connection", "X-Gone", "Upgrade", "User-Agent"} {
		if seen.Header.Get(name) != "" {
			t.Errorf("the host got %s: %s", name, seen.Header.Get(name))
		}
	}
	record := r.recorded(1)[0]
	if !record.Allowed || record.Host != "good.test" || record.Port != 80 || record.Protocol != messages.HostHTTP || record.Address.String() != goodAddress+":80" ||
		record.By != "allow good.test" || record.Reason != "" || record.Sent == 0 || record.Received == 0 {
		t.Errorf("%+v", record)
	}
}

func TestTunnelsForTLS(t *testing.T) {
	r := newRig(t, Options{})
	answer, err := r.shake("Good.test:443", &tls.Config{ServerName: "good.test"}, "good.test")
	if err != nil || !strings.HasSuffix(answer, "hello from good.test") {
		t.Errorf("%q, %v", answer, err)
	}
	record := r.recorded(1)[0]
	if !record.Allowed || record.Host != "good.test" || record.Port != 443 || record.Protocol != messages.HostHTTPS || record.Address.String() != goodAddress+":443" ||
		record.Sent < 300 || record.Received < 300 || record.Reason != "" {
		t.Errorf("%+v", record)
	}
	// An address needs no name in TLS.
	if answer, err := r.shake(goodAddress+":443", &tls.Config{}, "good.test"); err != nil || !strings.HasSuffix(answer, "hello from good.test") {
		t.Errorf("%q, %v", answer, err)
	}
	// What is suggested where the name is missing is to let it be hidden.
	if _, err := r.shake("good.test:443", &tls.Config{}, "good.test"); err == nil {
		t.Error("TLS without a name passes")
	}
	if record := r.recordOf(func(c messages.Connection) bool { return !c.Allowed }); record.Suggestion == nil || !record.Suggestion.HiddenName || !strings.Contains(record.Reason, "TLS names no server") {
		t.Errorf("%+v", record)
	}
	if answer, err := r.shake("hidden.test:443", &tls.Config{}, "hidden.test"); err != nil || !strings.HasSuffix(answer, "hello from hidden.test") {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestTunnelsForPlainTCP(t *testing.T) {
	r := newRig(t, Options{})
	conn, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	talks(t, conn)
	conn, code := r.socks(socksNamed("good.test", 22))
	if code != socksDone {
		t.Fatalf("code %d", code)
	}
	talks(t, conn)
	for _, record := range r.recorded(2) {
		if record.Protocol != messages.HostTCP || record.Sent != 6 || record.Received != int64(len("greeting\n")+6) || !record.Allowed {
			t.Errorf("%+v", record)
		}
	}
}

// talks hears the greeting first, and then an echo, and both ends close.
func talks(t *testing.T, conn io.ReadWriter) {
	t.Helper()
	greeting := make([]byte, len("greeting\n"))
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != "greeting\n" {
		t.Errorf("%q, %v", greeting, err)
	}
	io.WriteString(conn, "hello\n")
	conn.(interface{ CloseWrite() error }).CloseWrite()
	if rest, err := io.ReadAll(conn); string(rest) != "hello\n" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestTunnelsBySOCKS(t *testing.T) {
	r := newRig(t, Options{})
	for _, request := range []string{socksNamed("good.test", 443), socksAddress(goodAddress, 443), socksAddress("::ffff:"+goodAddress, 443), socksNamed(goodAddress, 443)} {
		conn, code := r.socks(request)
		if code != socksDone {
			t.Errorf("%q: code %d", request, code)
			continue
		}
		config := &tls.Config{}
		if strings.Contains(request, "good.test") {
			config.ServerName = "good.test"
		}
		if answer, err := talkTLS(conn, config, "good.test"); err != nil || !strings.HasSuffix(answer, "hello from good.test") {
			t.Errorf("%q: %q, %v", request, answer, err)
		}
		conn.Close()
	}
}

func TestRefusalsInJSON(t *testing.T) {
	r := newRig(t, Options{})
	for host, want := range map[string][3]string{
		"evil.test":      {"not_allowed", "blocked-by-allowlist", "A rule that allows evil.test:80 over http would permit it."},
		"private.test":   {"not_allowed_local", "blocked-by-allowlist", "private.test leads to 10.0.0.5, a private address"},
		"forbidden.test": {"denied", "blocked-by-denylist", "a rule forbids forbidden.test:80"},
	} {
		response, err := http.ReadResponse(reader(r.get(host, "")), nil)
		if err != nil {
			t.Fatal(err)
		}
		var said struct {
			Status, Host, Reason, Decision, Source, Protocol, Message string
			Port                                                      int
		}
		if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != 403 || response.Header.Get("X-Proxy-Error") != want[1] || said.Reason != want[0] || said.Host != host || said.Port != 80 ||
			said.Status != "blocked" || said.Decision != "deny" || said.Protocol != "http" || !strings.Contains(said.Message, want[2]) {
			t.Errorf("%s: %v %+v", host, response.Header, said)
		}
	}
	if _, err := r.tunnel("evil.test:443"); err == nil || !strings.Contains(err.Error(), "403 Forbidden: Network access to evil.test:443 was blocked") {
		t.Error(err)
	}
	if len(r.dialled()) > 0 {
		t.Errorf("it dialled %v", r.dialled())
	}
	for _, record := range r.recorded(4) {
		if record.Allowed || record.Reason == "" || record.Host != "forbidden.test" && record.Suggestion == nil || record.Host == "forbidden.test" && record.By == "" {
			t.Errorf("%+v", record)
		}
	}
}

func TestServersThatDoNotAnswer(t *testing.T) {
	r := newRig(t, Options{Snapshot: snapshotOf(t, allowed("good.test:1000", ""))})
	if answer := r.get("good.test:1000", ""); !strings.HasPrefix(answer, "HTTP/1.1 502 ") || !strings.Contains(answer, "good.test cannot be reached") {
		t.Errorf("%s", answer)
	}
	if _, err := r.tunnel("good.test:1000"); err == nil || !strings.Contains(err.Error(), "502 Bad Gateway: good.test cannot be reached") {
		t.Error(err)
	}
	if _, code := r.socks(socksNamed("good.test", 1000)); code != socksHostUnreachable {
		t.Errorf("code %d", code)
	}
	for _, record := range r.recorded(3) {
		if record.Allowed || !strings.Contains(record.Reason, "cannot be reached") || record.Suggestion != nil {
			t.Errorf("%+v", record)
		}
	}
}

func TestCredentialsNameProcesses(t *testing.T) {
	r := newRig(t, Options{})
	password, _ := r.Credential(1234).Password()
	basic := func(name, password string) string {
		request, _ := http.NewRequest("GET", "/", nil)
		request.SetBasicAuth(name, password)
		return request.Header.Get("Authorization")
	}
	get := func(header string) string {
		return r.get("good.test", header)
	}
	if answer := get("Proxy-Authorization: " + basic("1234", password) + "\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200") {
		t.Error(answer)
	}
	if _, has := r.requests()[0].Header["Proxy-Authorization"]; has {
		t.Error("the credential got out")
	}
	conn := r.connect()
	io.WriteString(conn, "\x05\x02\x00\x02\x01\x041234\x20"+password+socksNamed("good.test", 22))
	answer := make([]byte, 2+2+10)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer[:5]) != "\x05\x02\x01\x00\x05" {
		t.Errorf("%q, %v", answer, err)
	}
	conn.Close()
	for _, record := range r.recorded(2) {
		if record.Process != 1234 {
			t.Errorf("%+v", record)
		}
	}
	// One of another process, of another proxy, twice, or in another form is none.
	other, _ := New(Options{}).Credential(1234).Password()
	for _, header := range []string{basic("1235", password), basic("1234", other), basic("1234", ""), "Bearer " + password, "Basic !", basic("1234", password) + "\r\nProxy-Authorization: " + basic("1234", password)} {
		if answer := get("Proxy-Authorization: " + header + "\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 403") {
			t.Errorf("%s: %s", header, answer)
		}
	}
	conn = r.connect()
	io.WriteString(conn, "\x05\x01\x02\x01\x041235\x20"+password)
	conn.CloseWrite()
	if answer, _ := io.ReadAll(conn); string(answer) != "\x05\x02\x01\x01" {
		t.Errorf("%q", answer)
	}
}

func TestTheAddressIsMadeSureOf(t *testing.T) {
	ctx := contextWith(t, netip.MustParseAddrPort("93.184.216.34:443"))
	for address, same := range map[string]bool{"93.184.216.34:443": true, "[::ffff:93.184.216.34]:443": true, "93.184.216.34:80": false, "127.0.0.1:443": false, "[fe80::1%lo]:443": false, "x": false} {
		if err := sameAddress(ctx, "tcp", address, nil); (err == nil) != same {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestStats(t *testing.T) {
	r := newRig(t, Options{})
	r.get("good.test", "")
	r.get("evil.test", "")
	r.recorded(2)
	if s := r.Stats(); s.Allowed != 1 || s.Refused != 1 || s.Asked != 0 || s.Questions != 0 {
		t.Errorf("%+v", s)
	}
}

// With the system's resolver and its own dialer the proxy reaches a server of this machine, if a rule names that.
func TestTheSystemsResolverAndDialer(t *testing.T) {
	at := echo(t)
	_, port, _ := strings.Cut(at, ":")
	r := newRig(t, Options{Snapshot: snapshotOf(t, allowed(at, messages.HostTCP)), Resolver: net.DefaultResolver, Dial: (&net.Dialer{ControlContext: sameAddress}).DialContext})
	conn, err := r.tunnel(at)
	if err != nil {
		t.Fatal(err)
	}
	talks(t, conn)
	if _, err := r.tunnel("localhost:" + port); err == nil || !strings.Contains(err.Error(), "localhost is this machine") {
		t.Error(err)
	}
	r.Update(snapshotOf(t, allowed("localhost:"+port, messages.HostTCP)))
	conn, err = r.tunnel("localhost:" + port)
	if err != nil {
		t.Skipf("localhost cannot be looked up here: %v", err)
	}
	talks(t, conn)
}
