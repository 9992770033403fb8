package hosts

import (
	"net/netip"
	"strings"
	"testing"
	"unicode"

	"github.com/execbus/execbus/messages"
)

func TestHostsHaveOneSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com.": "example.com", "bücher.example": "xn--bcher-kva.example", "BÜCHER.example": "xn--bcher-kva.example",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "XN--BCHER-KVA.example": "xn--bcher-kva.example",
		"example。com": "example.com", "ｅｘａｍｐｌｅ．com": "example.com", "ⓛocalhost": "localhost", "my_bucket.example": "my_bucket.example",
		"r3---sn.example": "r3---sn.example", "0x7g.example": "0x7g.example", "127.0.0.1": "127.0.0.1", "１２７.0.0.1": "127.0.0.1",
		"::1": "::1", "[::1]": "::1", "[0:0:0:0:0:0:0:1]": "::1", "::ffff:127.0.0.1": "127.0.0.1", "[::ffff:7f00:1]": "127.0.0.1",
		"1.example": "1.example", "127.0.0.1.": "127.0.0.1",
	} {
		if host, err := Parse(text); err != nil || host.String() != want {
			t.Errorf("%q is %q, %v, want %q", text, host, err, want)
		}
	}
	for _, text := range []string{
		"", ".", "..", "a..b", ".a", "a b", "a\tb", "a\x00b", "a/b", "a%2eb", "a@b", "a?b", "a#b", `a\b`, "a,b", "*", "*.a", "-a.b", "a-.b",
		"2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "0", "127.0.0.01", "1.2.3.4.5", "256.1.1.1", "a.1", "a.0x", "a.0x1f", "１２７.1",
		"0X7F000001", "[127.0.0.1]", "[::1", "::1]", "[a]", "fe80::1%lo", "[fe80::1%25lo]", "::1%", "a:80", "xn--a", "xn--\u00fc", "xn--example-.com", "ex\u00adample.com.\u200d",
		"a.\u202ecom", "аррӏе\u0000", strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 127) + "bc", "\xff",
	} {
		if host, err := Parse(text); err == nil {
			t.Errorf("%q is %q, want an error", text, host)
		}
	}
}

// A command chooses the name that a rule is proposed for. The name that stands for all private addresses in rules is one, too.
func TestTheSmallestRuleAllowsOneHost(t *testing.T) {
	for _, text := range []string{"private", "PRIVATE.", "a.private", "example.com", "10.0.0.1", "localhost"} {
		host, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		smallest := Smallest(host, 443, messages.HostHTTPS)
		rules, err := NewRules([]messages.HostRule{smallest})
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"private", "a.private", "b.a.private", "example.com", "a.example.com", "10.0.0.1", "10.0.0.2", "192.168.1.1", "fd00::1", "localhost"} {
			h, err := Parse(other)
			if err != nil {
				t.Fatal(err)
			}
			for _, addresses := range [][]netip.Addr{nil, {netip.MustParseAddr("192.168.1.7")}} {
				v := Snapshot{Rules: rules}.Decide(Request{Host: h, Port: 443, Protocol: messages.HostHTTPS, Addresses: addresses})
				if allowed := v.Action == Allow; allowed != (h == host && addresses == nil) {
					t.Errorf("%v: %s at %v: %+v", smallest, other, addresses, v)
				}
			}
		}
	}
}

func FuzzHostsHaveOneSpelling(f *testing.F) {
	for _, seed := range []string{"example.com", "bücher.example", "127.0.0.1", "[::1]", "0x7f.1", "xn--bcher-kva", "１２７.0.0.1", "a。b", "*.a:1", "10.0.0.0/8"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(host.String()); err != nil || again != host {
			t.Errorf("%q is %q, and that is %q, %v", text, host, again, err)
		}
		if strings.IndexFunc(host.String(), func(r rune) bool { return r > unicode.MaxASCII || unicode.IsUpper(r) || unicode.IsSpace(r) || r < ' ' }) >= 0 {
			t.Errorf("%q is %q", text, host)
		}
		if same, port, err := ParseAuthority(host.Authority(443)); err != nil || same != host || port != 443 {
			t.Errorf("%q is %q, %d, %v", host.Authority(443), same, port, err)
		}
		if rule := Smallest(host, 443, messages.HostHTTPS); Check(rule) != nil {
			t.Errorf("%v is no rule", rule)
		} else if rules, _ := NewRules([]messages.HostRule{rule}); ClassOf(host.address) == Public {
			if v := (Snapshot{Rules: rules}).Decide(Request{Host: host, Port: 443, Protocol: messages.HostHTTPS}); v.Action != Allow && !host.local() {
				t.Errorf("%v does not allow %q: %+v", rule, host, v)
			}
		}
	})
}

func TestAuthorities(t *testing.T) {
	for text, want := range map[string]string{"Example.com:443": "example.com:443", "[::1]:80": "[::1]:80", "1.2.3.4:65535": "1.2.3.4:65535"} {
		host, port, err := ParseAuthority(text)
		if err != nil || host.Authority(port) != want {
			t.Errorf("%q is %q, %v", text, host.Authority(port), err)
		}
	}
	for _, text := range []string{"", "a", ":80", "a:", "a:0", "a:99999", "a:080", "a:+80", "a:-1", "a:8 0", "a:http", "::1:80", "[::1]", "[::1]80", "a:80:80", "a@b:80", "a:80/x", "a:٨٠"} {
		if host, port, err := ParseAuthority(text); err == nil {
			t.Errorf("%q is %q, want an error", text, host.Authority(port))
		}
	}
}

func TestClassesOfAddresses(t *testing.T) {
	for text, want := range map[string]Class{
		"8.8.8.8": Public, "2606:4700::1111": Public, "64:ff9b::808:808": Public, "2002:808:808::1": Public, "172.15.0.1": Public, "172.32.0.1": Public,
		"10.1.2.3": Private, "172.16.0.1": Private, "192.168.1.1": Private, "100.64.0.1": Private, "198.18.0.1": Private, "203.0.113.9": Private,
		"240.0.0.1": Private, "fc00::1": Private, "fd12::1": Private, "fec0::1": Private, "2001:db8::1": Private, "2001::1": Private, "100::1": Private,
		"64:ff9b:1::1": Private, "64:ff9b::a00:1": Private, "2002:c0a8:101::": Private, "4000::1": Private,
		"127.0.0.1": Loopback, "127.9.9.9": Loopback, "::1": Loopback, "::ffff:127.0.0.1": Loopback, "::127.0.0.1": Loopback, "64:ff9b::7f00:1": Loopback, "2002:7f00:1::": Loopback,
		"169.254.1.1": LinkLocal, "fe80::1": LinkLocal, "fe80::1%lo": LinkLocal, "2002:a9fe:101::": LinkLocal,
		"169.254.169.254": Metadata, "fd00:ec2::254": Metadata, "100.100.100.200": Metadata, "168.63.129.16": Metadata, "::ffff:169.254.169.254": Metadata, "64:ff9b::a9fe:a9fe": Metadata,
		"224.0.0.1": Multicast, "255.255.255.255": Multicast, "ff02::1": Multicast,
		"0.0.0.0": Unspecific, "0.1.2.3": Unspecific, "::": Unspecific,
	} {
		if got := ClassOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func allow(host string, protocol messages.HostProtocol) messages.HostRule {
	return messages.HostRule{Host: host, Protocol: protocol, Decision: messages.HostAllow}
}

func TestPatternsThatCannotBeRead(t *testing.T) {
	for _, host := range []string{"", "*", "**", "*.*.a", "a.*", "*a.b", "*.10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "fe80::/10%lo", "http://a", "a/b", "a:0", "a:x", "127.1", "*.", "private:x", "a b"} {
		if err := Check(allow(host, "")); err == nil {
			t.Errorf("%q is a pattern", host)
		}
	}
	for _, host := range []string{"*.a", "**.a:8443", "10.0.0.0/8", "10.0.0.0/8:22", "[fd00::]/8", "[fd00::/8]:443", "fd00::/8", "private", "private:22", "::1", "[::1]:80", " a ", "*.bücher.example"} {
		if err := Check(allow(host, "")); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// everyRule is what the decision table is about.
var everyRule = []messages.HostRule{
	allow("good.test", ""), allow("*.below.test", ""), allow("**.both.test", ""), allow("port.test:8443", messages.HostHTTPS),
	allow("plain.test", messages.HostHTTP), allow("ssh.test:22", messages.HostTCP),
	{Host: "hidden.test", Decision: messages.HostAllow, HiddenName: true},
	{Host: "evil.both.test", Decision: messages.HostForbid, Justification: "it is evil"},
	{Host: "asked.both.test", Decision: messages.HostPrompt, Justification: "think"},
	{Host: "noplain.test", Protocol: messages.HostHTTP, Decision: messages.HostForbid}, allow("noplain.test", ""),
	{Host: "1.2.3.0/24", Decision: messages.HostForbid}, allow("1.2.0.0/16", ""), allow("2606:4700::1111", ""),
	allow("10.1.0.0/16", ""), allow("192.168.0.7:8080", messages.HostHTTP), allow("127.0.0.1:8000", messages.HostHTTP), allow("127.0.0.0/8:9000", messages.HostHTTP),
	allow("169.254.169.254", ""), allow("fe80::/10", ""), allow("0.0.0.0", ""), allow("224.0.0.1", ""),
}

// The decision table: every row is a request, and what becomes of it without and with the default to ask.
func TestDecisions(t *testing.T) {
	rules, err := NewRules(everyRule)
	if err != nil {
		t.Fatal(err)
	}
	grants := []Grant{
		{ID: "g1", Host: Host{name: "granted.test"}, Port: 443, Protocol: messages.HostHTTPS, Session: true},
		{ID: "g2", Host: Host{name: "once.test"}, Port: 443, Protocol: messages.HostHTTPS, Process: 1000},
		{ID: "g3", Host: Host{name: "evil.both.test"}, Port: 443, Protocol: messages.HostHTTPS, Session: true},
		{ID: "g4", Host: Host{address: netip.MustParseAddr("10.9.9.9")}, Port: 443, Protocol: messages.HostHTTPS, Session: true},
		{ID: "g5", Host: Host{name: "asked.both.test"}, Port: 80, Protocol: messages.HostHTTP, Session: true},
		{ID: "g6", Host: Host{name: "granted.test"}, Port: 2222, Protocol: messages.HostTCP, Session: true},
	}
	const tunnel = messages.HostProtocol("")
	const http, https, tcp = messages.HostHTTP, messages.HostHTTPS, messages.HostTCP
	for _, row := range []struct {
		at        string
		protocol  messages.HostProtocol
		addresses string
		deny, ask string // action, or reason of a denial, and protocol of a tunnel
	}{
		// names
		{"good.test:443", tunnel, "", "allow https", "allow https"},
		{"GOOD.test.:80", http, "", "allow", "allow"},
		{"good.test:8443", tunnel, "", "not_allowed https", "ask https"},
		{"good.test:22", tunnel, "", "not_allowed tcp", "ask tcp"},
		{"a.good.test:443", tunnel, "", "not_allowed https", "ask https"},
		{"xgood.test:443", tunnel, "", "not_allowed https", "ask https"},
		{"good.test.evil:443", tunnel, "", "not_allowed https", "ask https"},
		{"below.test:443", tunnel, "", "not_allowed https", "ask https"},
		{"a.b.below.test:443", tunnel, "", "allow https", "allow https"},
		{"xbelow.test:443", tunnel, "", "not_allowed https", "ask https"},
		{"both.test:443", tunnel, "", "allow https", "allow https"},
		{"a.both.test:443", tunnel, "", "allow https", "allow https"},
		{"port.test:8443", tunnel, "", "allow https", "allow https"},
		{"port.test:443", tunnel, "", "not_allowed https", "ask https"},
		{"port.test:8443", http, "", "not_allowed", "ask"},
		{"plain.test:80", http, "", "allow", "allow"},
		{"plain.test:80", tunnel, "", "not_allowed https", "ask https"},
		{"ssh.test:22", tunnel, "", "allow tcp", "allow tcp"},
		{"ssh.test:443", tunnel, "", "not_allowed https", "ask https"},
		// strictness
		{"evil.both.test:443", tunnel, "", "denied https", "denied https"},
		{"evil.both.test:12345", tunnel, "", "denied https", "denied https"},
		{"evil.both.test:22", tunnel, "", "denied tcp", "denied tcp"},
		{"asked.both.test:443", tunnel, "", "ask https", "ask https"},
		{"asked.both.test:80", http, "", "allow", "allow"},
		{"noplain.test:80", http, "", "denied", "denied"},
		{"noplain.test:443", tunnel, "", "allow https", "allow https"},
		// grants
		{"granted.test:443", tunnel, "", "allow https", "allow https"},
		{"granted.test:80", http, "", "not_allowed", "ask"},
		{"granted.test:2222", tunnel, "", "allow tcp", "allow tcp"},
		{"once.test:443", tunnel, "", "not_allowed https", "ask https"},
		{"10.9.9.9:443", tunnel, "", "not_allowed_local https", "not_allowed_local https"},
		// what names lead to
		{"good.test:443", https, "8.8.8.8", "allow", "allow"},
		{"good.test:443", https, "8.8.8.8 10.0.0.1", "not_allowed_local", "not_allowed_local"},
		{"good.test:443", https, "10.1.0.1", "allow", "allow"},
		{"good.test:443", https, "127.0.0.1", "not_allowed_local", "not_allowed_local"},
		{"good.test:443", https, "1.2.3.4", "denied", "denied"},
		{"good.test:443", https, "9.9.9.9", "not_allowed_local", "not_allowed_local"}, // our own
		{"granted.test:443", https, "192.168.0.1", "not_allowed_local", "not_allowed_local"},
		// addresses
		{"8.8.8.8:443", tunnel, "", "not_allowed https", "ask https"},
		{"1.2.3.4:443", tunnel, "", "denied https", "denied https"},
		{"1.2.4.4:443", tunnel, "", "allow https", "allow https"},
		{"[2606:4700::1111]:443", tunnel, "", "allow https", "allow https"},
		{"10.1.9.9:443", tunnel, "", "allow https", "allow https"},
		{"10.1.9.9:8080", tunnel, "", "not_allowed_local https", "not_allowed_local https"},
		{"10.2.9.9:443", tunnel, "", "not_allowed_local https", "not_allowed_local https"},
		{"192.168.0.7:8080", http, "", "allow", "allow"},
		{"127.0.0.1:8000", http, "", "allow", "allow"},
		{"[::ffff:127.0.0.1]:8000", http, "", "allow", "allow"},
		{"127.0.0.2:8000", http, "", "not_allowed_local", "not_allowed_local"},
		{"127.0.0.2:9000", http, "", "not_allowed_local", "not_allowed_local"},
		{"[::1]:8000", http, "", "not_allowed_local", "not_allowed_local"},
		{"169.254.169.254:80", http, "", "not_allowed_local", "not_allowed_local"},
		{"[fe80::1]:80", http, "", "not_allowed_local", "not_allowed_local"},
		{"0.0.0.0:80", http, "", "not_allowed_local", "not_allowed_local"},
		{"224.0.0.1:80", http, "", "not_allowed_local", "not_allowed_local"},
		{"localhost:8000", http, "", "not_allowed_local", "not_allowed_local"},
		{"foo.localhost:443", tunnel, "", "not_allowed_local https", "not_allowed_local https"},
	} {
		host, port, err := ParseAuthority(row.at)
		if err != nil {
			t.Errorf("%s: %v", row.at, err)
			continue
		}
		r := Request{Host: host, Port: port, Protocol: row.protocol, Own: []netip.Addr{netip.MustParseAddr("9.9.9.9")}}
		for text := range strings.FieldsSeq(row.addresses) {
			r.Addresses = append(r.Addresses, netip.MustParseAddr(text))
		}
		for otherwise, want := range map[messages.HostDefault]string{messages.HostsDenied: row.deny, messages.HostsAsked: row.ask} {
			v := Snapshot{rules, otherwise, grants}.Decide(r)
			got := string(v.Action)
			if v.Action == Deny {
				got = string(v.Reason)
			}
			if row.protocol == tunnel {
				got += " " + string(v.Protocol)
			}
			if got != want {
				t.Errorf("%s (%s) to %q, default %s: %s, want %s: %+v", row.at, row.protocol, row.addresses, otherwise, got, want, v)
			}
			if v.Action != Allow && v.Text == "" || v.Action == Allow && v.By == "" {
				t.Errorf("%s: nothing says why: %+v", row.at, v)
			}
			suggestionAllows(t, everyRule, r, v)
		}
	}
	if tcp != "tcp" {
		t.Error("a protocol has another name")
	}
}

// suggestionAllows: what a verdict suggests is enough, together with other suggestions where a host is closed for two reasons.
func suggestionAllows(t *testing.T, rules []messages.HostRule, r Request, v Verdict) {
	t.Helper()
	for v.Suggestion != nil {
		rules = append(rules[:len(rules):len(rules)], *v.Suggestion)
		if len(rules) > len(everyRule)+3 {
			t.Errorf("%v is never allowed: %+v", r, v)
			return
		}
		more, err := NewRules(rules)
		if err != nil {
			t.Fatal(err)
		}
		r.Protocol = v.Protocol
		if v = (Snapshot{Rules: more}).Decide(r); v.Action == Allow {
			return
		}
		if v.Suggestion == nil {
			t.Errorf("%v: what is suggested does not help: %+v", r, v)
		}
	}
}

func TestOneProcessIsGrantedWhatAnotherIsNot(t *testing.T) {
	host, _ := Parse("once.test")
	snapshot := Snapshot{Grants: []Grant{{ID: "g", Host: host, Port: 443, Protocol: messages.HostHTTPS, Process: 1000}}}
	for process, want := range map[messages.ProcessID]Action{1000: Allow, 1001: Deny, 0: Deny} {
		if v := snapshot.Decide(Request{Host: host, Port: 443, Protocol: messages.HostHTTPS, Process: process}); v.Action != want {
			t.Errorf("process %d: %+v, want %s", process, v, want)
		}
	}
}

func TestPrivateIsAWordForAddresses(t *testing.T) {
	rules, err := NewRules([]messages.HostRule{allow("private", ""), allow("wiki.corp", "")})
	if err != nil {
		t.Fatal(err)
	}
	wiki, _ := Parse("wiki.corp")
	other, _ := Parse("other.corp")
	private := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	for _, row := range []struct {
		host      Host
		addresses []netip.Addr
		own       []netip.Addr
		want      Action
	}{
		{wiki, private, nil, Allow}, {wiki, private, private, Deny}, {other, private, nil, Deny}, {Host{address: private[0]}, nil, nil, Allow},
		{wiki, []netip.Addr{netip.MustParseAddr("::1")}, nil, Deny}, {wiki, []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil, Deny},
	} {
		v := Snapshot{Rules: rules}.Decide(Request{Host: row.host, Port: 443, Protocol: messages.HostHTTPS, Addresses: row.addresses, Own: row.own})
		if v.Action != row.want {
			t.Errorf("%v: %+v", row, v)
		}
	}
}

func TestAHiddenNameIsAllowedByItsRuleOnly(t *testing.T) {
	rules, err := NewRules(everyRule)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"hidden.test": true, "good.test": false} {
		host, _ := Parse(name)
		if v := (Snapshot{Rules: rules}).Decide(Request{Host: host, Port: 443}); v.Action != Allow || v.HiddenName != want {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestOpeningLoopback(t *testing.T) {
	for host, want := range map[string]bool{"localhost:8000": true, "127.0.0.1": true, "::1": true, "127.0.0.0/8": false, "a.test": false, "private": false} {
		rules, err := NewRules([]messages.HostRule{allow(host, "")})
		if err != nil {
			t.Fatal(err)
		}
		if got := rules.OpensLoopback(); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	rules, _ := NewRules([]messages.HostRule{allow("localhost:8000", "")})
	host, _ := Parse("localhost")
	loopback := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
	if v := (Snapshot{Rules: rules}).Decide(Request{Host: host, Port: 8000, Protocol: messages.HostHTTP, Addresses: loopback}); v.Action != Allow {
		t.Errorf("%+v", v)
	}
}

func TestRulesAreRefusedByName(t *testing.T) {
	_, err := NewRules([]messages.HostRule{allow("a.test", ""), allow("ssh.test", messages.HostTCP)})
	if err == nil || !strings.Contains(err.Error(), "ssh.test") || !strings.Contains(err.Error(), "name the port") {
		t.Error(err)
	}
	if _, err := NewRules([]messages.HostRule{{Host: "a.test", Decision: "maybe"}}); err == nil {
		t.Error("there is a decision maybe")
	}
}
