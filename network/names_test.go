package network

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

var standing = netip.MustParsePrefix("198.18.0.0/15")

// ask asks the resolver of a proxy. Its answer must be one to the question.
func askName(t testing.TB, p *Proxy, name string, kind dnsmessage.Type, class dnsmessage.Class) (answers []netip.Addr, code dnsmessage.RCode) {
	t.Helper()
	question := dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: class}
	query, err := (&dnsmessage.Message{Header: dnsmessage.Header{ID: 77, RecursionDesired: true}, Questions: []dnsmessage.Question{question}}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	var answer dnsmessage.Message
	if err := answer.Unpack(p.answerQuery(query, []uint16{80, 443, 22})); err != nil {
		t.Fatal(err)
	}
	if answer.ID != 77 || !answer.Response || len(answer.Questions) != 1 || answer.Questions[0] != question {
		t.Errorf("%s: %+v", name, answer)
	}
	for _, a := range answer.Answers {
		if a.Header.Name != question.Name || a.Header.TTL > 1 {
			t.Errorf("%+v", a)
		}
		answers = append(answers, netip.AddrFrom4(a.Body.(*dnsmessage.AResource).A))
	}
	return answers, answer.RCode
}

func TestNamesGetAnAddressIfTheyMayBeConnectedTo(t *testing.T) {
	r := newRig(t, Options{})
	for name, exists := range map[string]bool{"good.test.": true, "GOOD.test.": true, "hidden.test.": true, "private.test.": true, "evil.test.": false, "forbidden.test.": false,
		"good.test.evil.test.": false, "x.good.test.": false, "localhost.": false, "127.0.0.1.": false, "93.184.216.34.": false, "2130706433.": false, "0x7f.1.": false, ".": false} {
		answers, code := askName(t, r.Proxy, name, dnsmessage.TypeA, dnsmessage.ClassINET)
		if want := map[bool]dnsmessage.RCode{true: dnsmessage.RCodeSuccess, false: dnsmessage.RCodeNameError}[exists]; code != want || len(answers) == 1 != exists {
			t.Errorf("%s: %v, %v", name, answers, code)
		}
		if exists && !standing.Contains(answers[0]) {
			t.Errorf("%s: %v", name, answers)
		}
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeTXT, dnsmessage.TypeALL, dnsmessage.TypeMX, dnsmessage.TypeNS, 65} {
			if answers, other := askName(t, r.Proxy, name, kind, dnsmessage.ClassINET); len(answers) > 0 || other != code {
				t.Errorf("%s %v: %v, %v", name, kind, answers, other)
			}
		}
	}
	if _, code := askName(t, r.Proxy, "good.test.", dnsmessage.TypeA, dnsmessage.ClassCHAOS); code != dnsmessage.RCodeNotImplemented {
		t.Error(code)
	}
	for _, c := range r.recorded(1) {
		if c.Allowed || c.Reason == "" || c.Host == "good.test" {
			t.Errorf("%+v", c)
		}
		if c.Host == "evil.test" && (c.Port != 443 || c.Suggestion == nil || c.Suggestion.Host != "evil.test:443") {
			t.Errorf("%+v", c)
		}
	}
	// What is asked about has an address, too: the question is put for a connection.
	r.Update(hosts.Snapshot{Default: messages.HostsAsked})
	if answers, _ := askName(t, r.Proxy, "evil.test.", dnsmessage.TypeA, dnsmessage.ClassINET); len(answers) != 1 {
		t.Error(answers)
	}
	if len(r.dialled()) > 0 || len(r.names["rebind.test"]) != 2 {
		t.Error("a query went further")
	}
}

// Whatever is no query is not answered.
func TestNoQuery(t *testing.T) {
	p := New(Options{})
	query, _ := (&dnsmessage.Message{Header: dnsmessage.Header{Response: true}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("a."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}).Pack()
	for _, bytes := range [][]byte{nil, query, query[:12], []byte(strings.Repeat("\xc0", 100)), make([]byte, 12)} {
		if answer := p.answerQuery(bytes, []uint16{80}); answer != nil {
			t.Errorf("%q: %q", bytes, answer)
		}
	}
}

// An address stands for one host only. It is given again when all others have been.
func TestAddressesOfNamesAreBounded(t *testing.T) {
	p := New(Options{})
	host := func(i int) hosts.Host {
		h, err := hosts.Parse(fmt.Sprintf("h%d.test", i))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := p.addressOf(host(0))
	seen := map[netip.Addr]bool{first: true}
	for i := 1; i < 3*maxNames; i++ {
		address := p.addressOf(host(i))
		if seen[address] || !standing.Contains(address) {
			t.Fatalf("%v", address)
		}
		seen[address] = true
		if at, known := p.hostAt(address); !known || at != host(i) {
			t.Fatalf("%v stands for %v", address, at)
		}
		if again := p.addressOf(host(0)); again != first { // it is asked about again and again
			t.Fatalf("%v was %v", again, first)
		}
	}
	if n := len(p.named.addresses); n != maxNames || len(p.named.hosts) != n || len(p.named.recent) != n {
		t.Errorf("%d names, %d addresses, %d in order", n, len(p.named.hosts), len(p.named.recent))
	}
	if _, known := p.hostAt(netip.MustParseAddr("198.18.0.2")); known {
		t.Error("the oldest has not lost its address")
	}
	p.named.given = 1<<17 - 2
	if address := p.addressOf(host(-1)); address.String() != "198.18.0.1" && standing.Contains(address) {
		t.Error(address)
	}
}

// What names are served by ends with the sockets, or with the proxy.
func TestServingNamesEnds(t *testing.T) {
	for _, ending := range []string{"sockets", "proxy"} {
		p := New(Options{Snapshot: snapshotOf(t, usual...)})
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() { defer close(served); p.ServeNames(packets, []net.Listener{listener}) }()
		// Nobody's name leads to the address itself: such a connection is closed.
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Error(err)
		}
		conn.Close()
		if ending == "proxy" {
			p.Close()
		} else {
			packets.Close()
			listener.Close()
		}
		next(t, served)
		p.Close()
		p.ServeNames(packets, nil) // a proxy that has ended serves nothing
	}
}

// FuzzQuery sends anything as a query. Only good.test has an address.
func FuzzQuery(f *testing.F) {
	for _, name := range []string{"good.test.", "evil.test.", "a.b.c.d.e.", "."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeALL} {
			query, _ := (&dnsmessage.Message{Header: dnsmessage.Header{ID: 1}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}).Pack()
			f.Add(query)
		}
	}
	p := New(Options{Snapshot: snapshotOf(f, allowed("good.test", ""))})
	f.Fuzz(func(t *testing.T, query []byte) {
		bytes := p.answerQuery(query, []uint16{80, 443})
		if bytes == nil {
			return
		}
		var answer dnsmessage.Message
		if err := answer.Unpack(bytes); err != nil {
			t.Fatalf("%q: %v", bytes, err)
		}
		good := len(answer.Questions) == 1 && strings.EqualFold(strings.TrimSuffix(answer.Questions[0].Name.String(), "."), "good.test")
		if len(answer.Answers) > 0 && !good || len(p.named.hosts) > 1 || len(bytes) > len(query)+64 {
			t.Errorf("%q: %+v", query, answer)
		}
	})
}
