package messages_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestNetworkPoliciesAreChecked(t *testing.T) {
	good := messages.HostRule{Host: "example.com", Decision: messages.HostAllow}
	for _, row := range []struct {
		policy messages.NetworkPolicy
		want   string // in the error; empty: none
	}{
		{messages.NetworkPolicy{}, ""},
		{messages.NetworkPolicy{Hosts: []messages.HostRule{good}, Default: messages.HostsAsked}, ""},
		{messages.NetworkPolicy{Default: "allow"}, "there is no default \"allow\""},
		{messages.NetworkPolicy{Hosts: []messages.HostRule{{Host: "example.com"}}}, "there is no decision"},
		{messages.NetworkPolicy{Hosts: []messages.HostRule{{Host: "example.com", Decision: messages.HostAllow, Protocol: "gopher"}}}, "there is no protocol \"gopher\""},
		{messages.NetworkPolicy{Hosts: []messages.HostRule{{Host: " ", Decision: messages.HostAllow}}}, "it names no host"},
		{messages.NetworkPolicy{Hosts: make([]messages.HostRule, messages.MaxHostRules+1)}, "1025 rules"},
	} {
		err := row.policy.Check()
		if (err == nil) != (row.want == "") || err != nil && (!strings.Contains(err.Error(), row.want) || !errors.Is(err, messages.ErrInvalidRequest)) {
			t.Errorf("%v, want %q", err, row.want)
		}
	}
}

func TestHostRulesInWords(t *testing.T) {
	rule := messages.HostRule{Host: "example.com:8443", Protocol: messages.HostHTTPS, Decision: messages.HostAllow, HiddenName: true}
	if got := rule.String(); got != "allow example.com:8443 (https), with a hidden name" {
		t.Error(got)
	}
}

func TestConnectionsInJSON(t *testing.T) {
	sent := messages.Connection{Process: 1000, Host: "example.com", Port: 443, Protocol: messages.HostHTTPS, Address: netip.MustParseAddrPort("[2001:db8::1]:443"), Allowed: true,
		By: "allow example.com", Suggestion: &messages.HostRule{Host: "a", Decision: messages.HostAllow}, Sent: 1, Received: 2, Began: time.Unix(3, 0).UTC(), Lasted: 4}
	text, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got messages.Connection
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("%s\n%+v, %v", text, got, err)
	}
	if text, _ := json.Marshal(messages.Connection{}); strings.Contains(string(text), "address") {
		t.Errorf("%s", text)
	}
}
