package rules

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestAHostRuleIsAppendedAndLoadedBack(t *testing.T) {
	for line, rule := range map[string]messages.HostRule{
		`network_rule(host="example.com:443", protocol="https", decision="allow")`: {Host: "example.com:443", Protocol: messages.HostHTTPS, Decision: messages.HostAllow},
		`network_rule(host="**.a.test", protocol="any", decision="forbidden", justification="it says \"no\"\n& é")`: {Host: "**.a.test", Decision: messages.HostForbid,
			Justification: "it says \"no\"\n& é"},
		`network_rule(host="[2001:db8::1]:22", protocol="tcp", decision="allow", hidden_name=True)`: {Host: "[2001:db8::1]:22", Protocol: messages.HostTCP,
			Decision: messages.HostAllow, HiddenName: true},
		`network_rule(host="10.0.0.0/8", protocol="socks5_udp", decision="prompt")`: {Host: "10.0.0.0/8", Protocol: messages.HostUDP, Decision: messages.HostPrompt},
	} {
		const before = `prefix_rule(["ls"])` + "\n"
		path := filepath.Join(files(t, map[string]string{"default.rules": before}), "default.rules")
		for range 2 { // the second time it is there
			if err := AppendHost(path, rule); err != nil {
				t.Fatal(err)
			}
			if got := read(t, path); got != before+line+"\n" {
				t.Errorf("%s, want %s", got, line)
			}
		}
		set, failures := Load([]Layer{{Files: []string{path}, Trusted: true}})
		if len(failures) > 0 {
			t.Fatal(failures)
		}
		rule.Origin = path + ":2"
		if got := set.Network(); !slices.Equal(got, []messages.HostRule{rule}) || len(set.Match([]string{"ls"})) != 1 {
			t.Errorf("%+v, want %+v", got, rule)
		}
	}
}

func TestHostRulesThatCannotBeAppended(t *testing.T) {
	good := messages.HostRule{Host: "a.test", Decision: messages.HostAllow}
	with := func(change func(*messages.HostRule)) messages.HostRule {
		changed := good
		change(&changed)
		return changed
	}
	for _, rule := range []messages.HostRule{{}, with(func(r *messages.HostRule) { r.Host = "127.1" }), with(func(r *messages.HostRule) { r.Host = " a.test" }),
		with(func(r *messages.HostRule) { r.Protocol = messages.HostTCP }), with(func(r *messages.HostRule) { r.Decision = "maybe" }),
		with(func(r *messages.HostRule) { r.Justification = " " }), with(func(r *messages.HostRule) { r.Justification = "\xff" }),
	} {
		path := filepath.Join(t.TempDir(), "default.rules")
		if err := AppendHost(path, rule); err == nil {
			t.Errorf("%+v was appended: %s", rule, read(t, path))
		}
		if set, err := (*Set)(nil).WithHost(rule); err == nil {
			t.Errorf("%+v is a rule: %+v", rule, set.Network())
		}
	}
	// A file in which the line would be something else stays as it is.
	const before = "def network_rule(host, protocol, decision):\n  pass\n"
	path := filepath.Join(files(t, map[string]string{"default.rules": before}), "default.rules")
	if err := AppendHost(path, good); err == nil || !strings.Contains(err.Error(), "would not make the rule") || read(t, path) != before {
		t.Errorf("%v: %s", err, read(t, path))
	}
}

func TestASetWithAHostRule(t *testing.T) {
	first, err := Parse("it", []byte(`network_rule("a.test", "any", "deny")`+"\n"+`prefix_rule(["ls"])`))
	if err != nil {
		t.Fatal(err)
	}
	names := func(set *Set) (all []string) {
		for _, rule := range set.Network() {
			all = append(all, rule.Host)
		}
		return all
	}
	b, err1 := first.WithHost(messages.HostRule{Host: "b.test", Decision: messages.HostAllow})
	c, err2 := first.WithHost(messages.HostRule{Host: "c.test", Decision: messages.HostAllow})
	d, err3 := b.With([]string{"git"})
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	for want, set := range map[string]*Set{"a.test": first, "a.test b.test": b, "a.test c.test": c, "a.test b.test ": d} {
		if got := names(set); strings.Join(got, " ") != strings.TrimSpace(want) || len(set.Match([]string{"ls"})) != 1 {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if len(d.Match([]string{"git"})) != 1 {
		t.Error("the rule about commands is lost")
	}
}
