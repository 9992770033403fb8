package network

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// attack is one way out that has to be closed. Nothing but good.test's address may ever be dialled, and what arrives there is for
// good.test.
type attack struct {
	name string
	act  func(r *rig) string // what the program got
	want string              // part of it
	// passes says that good.test is dialled, as the attack begins with something that is allowed.
	passes bool
	// unread says that it is refused before there is a host to record.
	unread bool
}

// hosted attacks a host in all protocols.
func hosted(name, host, want string) []attack {
	bare := strings.Trim(host, "[]")
	return []attack{
		{name: name + ", by CONNECT", act: func(r *rig) string { return r.send("CONNECT " + host + ":443 HTTP/1.1\r\nHost: x\r\n\r\n") }, want: want},
		{name: name + ", in plain HTTP", act: func(r *rig) string { return r.get(host, "") }, want: want},
		{name: name + ", by SOCKS", act: func(r *rig) string { _, code := r.socks(socksNamed(bare, 443)); return fmt.Sprint("code ", code) }, want: "code 2"},
	}
}

func connectTo(target string) func(r *rig) string {
	return func(r *rig) string { return r.send("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n") }
}

func sending(text string) func(r *rig) string { return func(r *rig) string { return r.send(text) } }

func shaking(authority string, config *tls.Config) func(r *rig) string {
	return func(r *rig) string {
		answer, err := r.shake(authority, config, "evil.test")
		return fmt.Sprintf("%s %v", answer, err)
	}
}

// inTunnel sends bytes in a tunnel to good.test.
func inTunnel(authority, text string) func(r *rig) string {
	return func(r *rig) string {
		conn, err := r.tunnel(authority)
		if err != nil {
			return err.Error()
		}
		io.WriteString(conn, text)
		conn.CloseWrite()
		answer, _ := io.ReadAll(conn)
		return "closed after " + string(answer)
	}
}

func get(target, header string) string {
	return "GET " + target + " HTTP/1.1\r\n" + header + "Connection: close\r\n\r\n"
}

// attacks are numbered as the table of attacks is from which they come.
func attacks() []attack {
	var all []attack
	add := func(more ...attack) { all = append(all, more...) }
	one := func(name string, act func(*rig) string, want string) { add(attack{name: name, act: act, want: want}) }
	unread := func(name, text, want string) { add(attack{name: name, act: sending(text), want: want, unread: true}) }
	passing := func(name string, act func(*rig) string, want string) {
		add(attack{name: name, act: act, want: want, passes: true})
	}

	// Addresses.
	add(hosted("1 a public address", evilAddress, "403")...)
	add(hosted("2 a private address", "10.0.0.5", "403")...)
	add(hosted("3 127.0.0.2", "127.0.0.2", "403")...)
	for name, host := range map[string]string{"3 127.1": "127.1", "3 0": "0", "4 decimal": "2130706433", "5 hex": "0x7f000001", "5 hex by parts": "0x7f.0.0.1", "6 octal": "0177.0.0.1"} {
		add(hosted(name, host, "400")...)
	}
	for name, host := range map[string]string{"7 ::1": "[::1]", "8 mapped": "[::ffff:127.0.0.1]", "9 compatible": "[::127.0.0.1]", "10 NAT64": "[64:ff9b::7f00:1]",
		"11 6to4": "[2002:7f00:1::]", "13 ::": "[::]", "13 0.0.0.0": "0.0.0.0", "14 metadata": "169.254.169.254", "14 metadata in IPv6": "[fd00:ec2::254]"} {
		add(hosted(name, host, "403")...)
	}
	unread("12 a zone, by CONNECT", "CONNECT [fe80::1%lo]:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400")
	one("12 a zone, by SOCKS", func(r *rig) string {
		_, code := r.socks(socksNamed("fe80::1%lo", 443))
		return fmt.Sprint("code ", code)
	}, "code 2")
	one("15 an address of this machine", func(r *rig) string {
		r.mu.Lock()
		r.names["other.test"] = []string{"93.184.216.77"}
		r.mu.Unlock()
		r.Proxy.mu.Lock()
		r.own, r.ownSince = []netip.Addr{netip.MustParseAddr("93.184.216.77")}, time.Now().Add(time.Hour)
		r.Proxy.mu.Unlock()
		return r.get("other.test", "")
	}, "other.test leads to 93.184.216.77, a loopback address")

	// Names.
	add(hosted("16 a listed name that leads to a private address", "private.test", "403")...)
	one("17 rebinding between two requests", func(r *rig) string { r.get("rebind.test", ""); return r.get("rebind.test", "") }, "rebind.test leads to 127.0.0.1")
	all[len(all)-1].passes = true
	one("17 rebinding between check and connect", func(r *rig) string {
		r.get("rebind.test", "") // the second answer is private, and must not have been asked for
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Join(r.names["rebind.test"], " ")
	}, "127.0.0.1")
	all[len(all)-1].passes, all[len(all)-1].unread = true, true
	add(hosted("18 a public address and a private one", "mixed.test", "403")...)
	add(hosted("19 a listed name for a forbidden address", "cname.test", "403")...)
	one("20 a name that leads nowhere, by CONNECT", connectTo("nowhere.test:443"), "502")
	one("20 a name that leads nowhere, in plain HTTP", func(r *rig) string { return r.get("nowhere.test", "") }, "502")
	add(hosted("21 a forbidden name with a dot and capitals", "FORBIDDEN.test.", "403")...)
	add(hosted("22 a name that begins like a listed one", "good.test.evil.test", "403")...)
	add(hosted("22 a name that ends like a listed one", "evilgood.test", "403")...)
	add(hosted("23 a twin in another alphabet", "xn--god-8cd.test", "403")...)
	one("23 full-width dots", connectTo("forbidden\u3002test:443"), "403")
	one("23 letters that IDNA maps", connectTo("ⓛocalhost:443"), "403")
	one("23 letters that IDNA maps, by SOCKS", func(r *rig) string {
		_, code := r.socks(socksNamed("ⓛocalhost", 443))
		return fmt.Sprint("code ", code)
	}, "code 2")
	unread("24 percent-encoding, by CONNECT", "CONNECT go%6fd.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "400")
	unread("24 percent-encoding, in plain HTTP", get("http://go%6fd.test/", "Host: x\r\n"), "400")
	one("24 NUL, by SOCKS", func(r *rig) string {
		_, code := r.socks(socksNamed("good.test\x00.evil.test", 443))
		return fmt.Sprint("code ", code)
	}, "code 2")
	unread("24 a tab in the target", "CONNECT good.test\t.evil.test:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "400")
	one("24 a tab, by SOCKS", func(r *rig) string {
		_, code := r.socks(socksNamed("good.test\t", 443))
		return fmt.Sprint("code ", code)
	}, "code 2")
	add(hosted("25 below localhost", "foo.localhost", "403")...)
	one("26 a name of 255 bytes", func(r *rig) string {
		_, code := r.socks(socksNamed(strings.Repeat("a.", 127)+"a", 443))
		return fmt.Sprint("code ", code)
	}, "code 2")
	one("26 an empty name", func(r *rig) string { _, code := r.socks(socksNamed("", 443)); return fmt.Sprint("code ", code) }, "code 2")

	// HTTP. Where a Host header says something else, the host gets its own name.
	passing("27 another Host header", sending(get("http://good.test/", "Host: evil.test\r\n")), "hello from good.test")
	unread("28 a target without a host", get("/", "Host: good.test\r\n"), "400")
	unread("29 two Host headers", get("http://good.test/", "Host: good.test\r\nHost: evil.test\r\n"), "400")
	unread("29 a Host header with a comma", get("http://good.test/", "Host: good.test, evil.test\r\n"), "400")
	one("30 a user before the host", sending(get("http://good.test@evil.test/", "Host: evil.test\r\n")), "400")
	one("30 a user and a password", sending(get("http://good.test:80@evil.test/", "Host: evil.test\r\n")), "400")
	unread("30 a backslash", get(`http://good.test\@evil.test/`, "Host: x\r\n"), "400")
	unread("30 a hash", get("http://good.test#@evil.test/", "Host: x\r\n"), "400")
	one("30 a user, by CONNECT", connectTo("good.test@evil.test:443"), "400")
	smuggled := "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n"
	post := func(header, body string) string {
		return "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n" + header + "\r\n" + body + smuggled
	}
	// What stands behind a body is a request of its own, judged by itself.
	passing("31 length and chunks", sending(post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")), "blocked: no rule allows evil.test:80")
	unread("31 chunked and something else", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), "501")
	unread("31 chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), "501")
	unread("31 two lengths", post("Content-Length: 0\r\nContent-Length: 4\r\n", ""), "400")
	unread("31 a length with a sign", post("Content-Length: +1\r\n", ""), "400")
	passing("31 a chunk extension and a trailer", sending(post("Transfer-Encoding: chunked\r\nTrailer: A\r\n", "1;x=\"\"\r\na\r\n0\r\nA: b\r\n\r\n")), "blocked: no rule allows evil.test:80")
	unread("31 a bare carriage return", get("http://good.test/", "Host: good.test\r\nA: b\rHost: evil.test\r\n"), "400")
	passing("31 lines without carriage returns", sending(strings.ReplaceAll(get("http://good.test/", "Host: good.test\r\n"), "\r\n", "\n")), "hello from good.test")
	unread("32 a folded header", get("http://good.test/", "Host: good.test\r\n\tevil.test\r\n"), "400")
	unread("32 a space before a colon", get("http://good.test/", "Host : good.test\r\n"), "400")
	passing("33 a second request at once", sending("GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n"+smuggled), "blocked: no rule allows evil.test:80")
	passing("34 Host as a header of the connection", sending("GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: close, Host\r\n\r\n"), "hello from good.test")
	passing("35 an upgrade to a websocket", sending("GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"), "HTTP/1.1 200")
	passing("35 an upgrade to HTTP/2", sending("GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nPRI * HTTP/2.0\r\n"), "HTTP/1.1 200")
	passing("35 a server that switches unasked", sending("GET http://good.test/switch HTTP/1.1\r\nHost: good.test\r\n\r\nfree bytes"), "HTTP/1.1 502 ")
	one("36 HTTP/2 at once", sending("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "400")
	passing("36 HTTP/2 in plain text, in a tunnel", inTunnel("good.test:443", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "closed after ")
	passing("37 a redirect", func(r *rig) string {
		answer := r.send(get("http://good.test/redirect", "Host: good.test\r\n"))
		_, location, _ := strings.Cut(answer, "Location: ")
		location, _, _ = strings.Cut(location, "\r\n")
		return r.send(get(location, "Host: evil.test\r\n"))
	}, "blocked: no rule allows evil.test:80")
	one("38 a credential that was made up", func(r *rig) string { return r.get("good.test", "Proxy-Authorization: Basic MTIzNDphYmM=\r\n") }, "403")
	passing("39 HTTP/1.0 without a Host header", sending("GET http://good.test/ HTTP/1.0\r\n\r\n"), "hello from good.test")
	unread("39 HTTP/1.1 without a Host header", get("http://good.test/", ""), "400")
	unread("40 a giant header", get("http://good.test/", "Host: good.test\r\nA: "+strings.Repeat("a", 2*maxHeader)+"\r\n"), "431")

	// CONNECT and TLS.
	tunnelled := func(name, authority string, config *tls.Config) {
		passing(name, shaking(authority, config), "access denied")
	}
	tunnelled("41 another name in TLS", "good.test:443", &tls.Config{ServerName: "evil.test"})
	tunnelled("41 a name in TLS for an address", goodAddress+":443", &tls.Config{ServerName: "evil.test"})
	tunnelled("41 another name where it may be hidden", "hidden.test:443", &tls.Config{ServerName: "evil.test"})
	tunnelled("42 no name in TLS", "good.test:443", &tls.Config{})
	tunnelled("43 an encrypted name", "good.test:443", &tls.Config{ServerName: "evil.test", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfig("good.test")})
	passing("44 another name, in pieces", func(r *rig) string {
		conn, err := r.tunnel("good.test:443")
		if err != nil {
			return err.Error()
		}
		_, err = talkTLS(pieces{conn}, &tls.Config{ServerName: "evil.test"}, "evil.test")
		return err.Error()
	}, "access denied")
	passing("44 a message of 64 KiB", inTunnel("good.test:443", "\x16\x03\x01\x40\x00\x01\x00\xff\xfc"+strings.Repeat("a", 1<<14)), "closed after ")
	passing("44 a message in endless records", inTunnel("good.test:443", strings.Repeat("\x16\x03\x01\x00\x01\x01", 100)), "closed after ")
	passing("45 plain text to 443", inTunnel("good.test:443", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "403 Forbidden")
	passing("45 plain text to 80", inTunnel("good.test:80", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "403 Forbidden")
	passing("45 plain text to an address", inTunnel(goodAddress+":443", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "403 Forbidden")
	passing("45 plain text where the name may be hidden", inTunnel("hidden.test:443", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "403 Forbidden")
	passing("45 plain text, by SOCKS", func(r *rig) string {
		conn, code := r.socks(socksNamed("good.test", 80))
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
		answer, _ := io.ReadAll(conn)
		return fmt.Sprintf("code %d, %s", code, answer)
	}, "code 0, HTTP/1.1 403 Forbidden")
	for _, port := range []string{"22", "25"} {
		one("46 port "+port, connectTo("other.test:"+port), "403")
	}
	for _, target := range []string{"good.test:0", "good.test:99999", "good.test", "good.test:", "good.test:0443", "good.test:443/x"} {
		one("46 "+target, connectTo(target), "400")
	}
	for _, target := range []string{"good.test:+443", "good.test:443:443"} {
		unread("46 "+target, "CONNECT "+target+" HTTP/1.1\r\nHost: x\r\n\r\n", "400")
	}
	passing("47 CONNECT in a tunnel", inTunnel("good.test:80", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "closed after ")
	// 48, another host inside of TLS, nobody sees.
	passing("49 a session of good.test resumed for another name", func(r *rig) string {
		cache := tls.NewLRUClientSessionCache(1)
		r.shake("good.test:443", &tls.Config{ServerName: "good.test", ClientSessionCache: cache}, "good.test")
		_, err := r.shake("good.test:443", &tls.Config{ServerName: "evil.test", ClientSessionCache: cache}, "evil.test")
		return fmt.Sprint(err)
	}, "access denied")
	all[len(all)-1].passes = true
	passing("50 bytes before the 200", sending("CONNECT good.test:443 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), "403 Forbidden")
	passing("50 TLS before the 200", func(r *rig) string {
		var first recorder
		clientHello(&first, "evil.test")
		return r.send("CONNECT good.test:443 HTTP/1.1\r\nHost: x\r\n\r\n" + first.String())
	}, "HTTP/1.1 200 Connection established\r\n\r\n\x15\x03\x01\x00\x02\x02\x31")

	// SOCKS.
	for name, command := range map[string]string{"51 BIND": "\x02", "51 UDP": "\x03"} {
		one(name, func(r *rig) string {
			_, code := r.socks("\x05" + command + "\x00\x01\x5d\xb8\xd8\x22\x00\x50")
			return fmt.Sprint("code ", code)
		}, "code 7")
	}
	unread("52 SOCKS4", "\x04\x01\x00\x50\x5d\xb8\xd8\x22x\x00\r\n\r\n", "400")
	unread("52 SOCKS4a", "\x04\x01\x00\x50\x00\x00\x00\x01x\x00good.test\x00\r\n\r\n", "400")
	for name, address := range map[string]string{"53 a mapped address": "::ffff:127.0.0.1", "53 NAT64": "64:ff9b::7f00:1", "53 metadata": "169.254.169.254", "53 a public address": evilAddress} {
		one(name, func(r *rig) string { _, code := r.socks(socksAddress(address, 443)); return fmt.Sprint("code ", code) }, "code 2")
	}
	unread("54 GSSAPI only", "\x05\x01\x01", "\x05\xff")
	unread("54 no method", "\x05\x00", "\x05\xff")
	unread("54 a password of nobody", "\x05\x02\x00\x02\x01\x041234\x01x", "\x05\x02\x01\x01")
	one("55 everything at once", sending("\x05\x01\x00"+socksNamed("evil.test", 443)+"\x16\x03\x01"), "\x05\x00\x05\x02")
	one("55 a byte at a time", func(r *rig) string {
		conn := r.connect()
		io.WriteString(pieces{conn}, "\x05\x01\x00"+socksNamed("evil.test", 443))
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}, "\x05\x00\x05\x02")
	one("55 an unknown kind of address", func(r *rig) string { _, code := r.socks("\x05\x01\x00\x02abcdef"); return fmt.Sprint("code ", code) }, "code 8")
	one("55 a reserved byte", func(r *rig) string {
		_, code := r.socks("\x05\x01\x01\x01\x5d\xb8\xd8\x22\x00\x50")
		return fmt.Sprint("code ", code)
	}, "code 1")
	return all
}

// pieces writes a byte at a time, each in a packet of its own.
type pieces struct{ net.Conn }

func (p pieces) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := p.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// recorder is a connection that keeps what is written and answers nothing.
type recorder struct {
	net.Conn
	bytes.Buffer
}

// clientHello writes the first message of TLS for a server.
func clientHello(to net.Conn, name string) {
	tls.Client(to, &tls.Config{ServerName: name}).Handshake()
}

func (r *recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (r *recorder) Write(b []byte) (int, error)      { return r.Buffer.Write(b) }
func (r *recorder) Close() error                     { return nil }
func (r *recorder) SetDeadline(time.Time) error      { return nil }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

func TestAttacks(t *testing.T) {
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			if got := a.act(r); !strings.Contains(got, a.want) {
				t.Errorf("%q, want %q", got, a.want)
			}
			if !a.passes && len(r.dialled()) > 0 {
				t.Errorf("it dialled %v", r.dialled())
			}
			for _, address := range r.dialled() {
				if !strings.HasPrefix(address, goodAddress+":") {
					t.Errorf("it dialled %s", address)
				}
			}
			for _, request := range r.requests() {
				if request.Host != "good.test" && request.Host != "rebind.test" || request.TLS != nil && request.TLS.ServerName != "good.test" {
					t.Errorf("the host got a request for %s", request.Host)
				}
				if request.Header.Get("Upgrade") != "" {
					t.Errorf("the host is asked for %s", request.Header.Get("Upgrade"))
				}
			}
			if !a.unread {
				said := r.recorded(1)
				refused := func(c messages.Connection) bool { return !c.Allowed && c.Reason != "" }
				// An attack that the host answers was made harmless; every other one has a record that says why.
				if !slices.ContainsFunc(said, refused) && len(r.requests()) == 0 {
					t.Errorf("no record says why: %+v", said)
				}
			}
		})
	}
}

// Attack 67: an approval is withdrawn while a tunnel and a request are open.
func TestRevokingClosesWhatIsOpen(t *testing.T) {
	r := newRig(t, Options{})
	tunnel, err := r.tunnel("good.test:22")
	if err != nil {
		t.Fatal(err)
	}
	greeting := make([]byte, len("greeting\n"))
	if _, err := io.ReadFull(tunnel, greeting); err != nil {
		t.Fatal(err)
	}
	request := r.connect()
	io.WriteString(request, "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 10\r\n\r\nhalf")
	open := func() int {
		r.Proxy.mu.Lock()
		defer r.Proxy.mu.Unlock()
		return len(r.live)
	}
	for late := time.Now().Add(patience); open() < 2 && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	r.Update(snapshotOf(t, allowed("other.test", "")))
	if rest, err := io.ReadAll(tunnel); len(rest) > 0 || isTimeout(err) {
		t.Errorf("the tunnel went on: %q, %v", rest, err)
	}
	if _, err := io.ReadAll(request); isTimeout(err) {
		t.Error("the request went on")
	}
	for _, record := range r.recorded(2) {
		if !strings.Contains(record.Reason, "it is no longer allowed") || !record.Allowed && record.Protocol == messages.HostTCP {
			t.Errorf("%+v", record)
		}
	}
	if _, err := r.tunnel("good.test:22"); err == nil {
		t.Error("a new tunnel opens")
	}
	// What is still allowed goes on.
	if answer := r.get("other.test", ""); !strings.HasPrefix(answer, "HTTP/1.1 200") {
		t.Error(answer)
	}
}

// Attack 67, between the decision and the first byte: the approval is withdrawn while the host is dialled.
func TestRevokingWhileAHostIsDialled(t *testing.T) {
	var r *rig
	r = newRig(t, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		r.Update(snapshotOf(t, allowed("other.test", "")))
		return r.dial(ctx, network, address)
	}})
	conn, err := r.tunnel("good.test:22")
	if err == nil {
		var rest []byte
		rest, err = io.ReadAll(conn)
		t.Errorf("the tunnel opened: %q, %v", rest, err)
	} else if !strings.Contains(err.Error(), "403 Forbidden") || !strings.Contains(err.Error(), "it is no longer allowed") {
		t.Error(err)
	}
	r.Update(snapshotOf(t, usual...))
	if _, code := r.socks(socksNamed("good.test", 22)); code != socksNotAllowed {
		t.Errorf("code %d", code)
	}
	r.Update(snapshotOf(t, usual...))
	if got := r.get("good.test", ""); !strings.Contains(got, "403") || !strings.Contains(got, "it is no longer allowed") {
		t.Error(got)
	}
	for _, record := range r.recorded(3) {
		if record.Allowed || !strings.Contains(record.Reason, "it is no longer allowed") {
			t.Errorf("%+v", record)
		}
	}
	if len(r.requests()) > 0 {
		t.Error("the host got a request")
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// echConfig is the configuration of an encrypted client hello for some key (RFC 9849).
func echConfig(public string) []byte {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	field := func(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }
	contents := []byte{7, 0, 0x20} // id, X25519
	contents = append(contents, field(key.PublicKey().Bytes())...)
	contents = append(contents, field([]byte{0, 1, 0, 1})...) // HKDF-SHA256, AES-128-GCM
	contents = append(contents, 32, byte(len(public)))
	contents = append(contents, public...)
	contents = append(contents, 0, 0)
	return field(append([]byte{0xfe, 0x0d}, field(contents)...))
}
