package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
	"github.com/execbus/execbus/policy/rules"
)

// connection is a request of process 1000 to an authority.
func connection(t *testing.T, authority string, protocol messages.HostProtocol) *Host {
	t.Helper()
	host, port, err := hosts.ParseAuthority(authority)
	if err != nil {
		t.Fatal(err)
	}
	return &Host{Request: hosts.Request{Process: 1000, Host: host, Port: port, Protocol: protocol}, Command: "curl x"}
}

// The decision table of questions about hosts: policies and rules against what is decided.
func TestWhetherAHostIsAskedAbout(t *testing.T) {
	set, err := rules.Parse("it.rules", []byte(`
network_rule("asked.test", "any", "prompt", justification="think")
network_rule("never.test", "any", "deny")
network_rule("file.test", "any", "allow")`))
	if err != nil {
		t.Fatal(err)
	}
	own := []messages.HostRule{{Host: "own.test", Decision: messages.HostAllow}, {Host: "10.0.0.1", Decision: messages.HostPrompt}}
	granular := func(g messages.GranularApproval) messages.ApprovalPolicy {
		return messages.ApprovalPolicy{Mode: messages.ApproveGranular, Granular: g}
	}
	mode := func(m messages.ApprovalMode) messages.ApprovalPolicy { return messages.ApprovalPolicy{Mode: m} }
	for _, row := range []struct {
		at       string
		approval messages.ApprovalPolicy
		by       messages.HostDefault
		want     Decision
		reason   string
		source   messages.DecisionSource
	}{
		{"new.test:443", mode(""), messages.HostsAsked, Ask, "no rule names it", messages.DecidedByPolicy},
		{"new.test:443", mode(messages.ApproveUntrusted), messages.HostsAsked, Ask, "no rule names it", messages.DecidedByPolicy},
		{"new.test:443", mode(messages.ApproveOnFailure), messages.HostsAsked, Ask, "no rule names it", messages.DecidedByPolicy},
		{"new.test:443", granular(messages.GranularApproval{SandboxApproval: true}), messages.HostsAsked, Ask, "no rule names it", messages.DecidedByPolicy},
		{"new.test:443", granular(messages.GranularApproval{Rules: true}), messages.HostsAsked, Reject, "granular and lets nobody be asked", messages.DecidedByPolicy},
		{"new.test:443", mode(messages.ApproveNever), messages.HostsAsked, Reject, "no rule names it, but the approval policy is never", messages.DecidedByPolicy},
		{"new.test:443", mode(""), messages.HostsDenied, Reject, "no rule allows new.test:443", messages.DecidedByPolicy},
		{"new.test:443", mode("odd"), messages.HostsAsked, Reject, "odd", messages.DecidedByPolicy},
		{"asked.test:443", mode(""), messages.HostsDenied, Ask, "a rule asks about it: think", messages.DecidedByRule},
		{"asked.test:443", granular(messages.GranularApproval{SandboxApproval: true}), messages.HostsAsked, Reject, "a rule asks about it: think, but", messages.DecidedByRule},
		{"asked.test:443", granular(messages.GranularApproval{Rules: true}), messages.HostsDenied, Ask, "a rule asks", messages.DecidedByRule},
		{"never.test:443", mode(""), messages.HostsAsked, Reject, "a rule forbids never.test:443", messages.DecidedByRule},
		{"file.test:443", mode(messages.ApproveNever), messages.HostsDenied, Run, "", messages.DecidedByRule},
		{"own.test:443", mode(messages.ApproveNever), messages.HostsDenied, Run, "", messages.DecidedByRule},
		{"10.0.0.1:443", mode(""), messages.HostsAsked, Reject, "10.0.0.1 is a private address", messages.DecidedByPolicy},
		{"localhost:443", mode(""), messages.HostsAsked, Reject, "localhost is this machine", messages.DecidedByPolicy},
		{"169.254.169.254:80", mode(""), messages.HostsAsked, Reject, "a metadata address", messages.DecidedByPolicy},
	} {
		h := connection(t, row.at, messages.HostHTTPS)
		snapshot := Snapshot{Approval: row.approval, Rules: set, Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite,
			Network: &messages.NetworkPolicy{Hosts: own, Default: row.by}}}
		plan := MakePlan(Request{Host: h}, snapshot)
		if plan.Decision != row.want || !strings.Contains(plan.Reason, row.reason) || plan.Source != row.source {
			t.Errorf("%s, %s: %+v, want %s %s %s", row.at, row.approval, plan, row.want, row.source, row.reason)
		}
		if asks := plan.Decision == Ask; (plan.CacheKey != "") != asks || (plan.HostRule != nil) != (asks && row.source != messages.DecidedByRule) {
			t.Errorf("%s: %+v", row.at, plan)
		}
	}
	if plan := MakePlan(Request{Host: connection(t, "own.test:443", messages.HostHTTPS)}, Snapshot{}); plan.Decision != Reject {
		t.Errorf("without a policy about hosts: %+v", plan)
	}
}

// An approval covers one host, port and protocol, of one process unless it is for the session. Nothing else has its key.
func TestWhatAnApprovalOfAHostCovers(t *testing.T) {
	base := connection(t, "good.test:443", messages.HostHTTPS)
	others := map[string]*Host{
		"another host": connection(t, "a.good.test:443", messages.HostHTTPS), "another port": connection(t, "good.test:8443", messages.HostHTTPS),
		"another protocol": connection(t, "good.test:443", messages.HostTCP), "nearly": connection(t, "good.test:44", messages.HostHTTPS),
	}
	process := *base
	process.Process = 1001
	snapshot := func(granted ...string) Snapshot {
		return Snapshot{Sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, Network: &messages.NetworkPolicy{Default: messages.HostsAsked}},
			Granted: func(key string) bool { return slices.Contains(granted, key) }}
	}
	plan := func(h *Host, s Snapshot) Plan { return MakePlan(Request{Host: h}, s) }
	for _, session := range []bool{false, true} {
		granted := snapshot(base.Key(session))
		if p := plan(base, granted); p.Decision != Run || p.Source != messages.DecidedByCache {
			t.Errorf("session %v: %+v", session, p)
		}
		for name, other := range others {
			if p := plan(other, granted); p.Decision != Ask {
				t.Errorf("session %v, %s: %+v", session, name, p)
			}
		}
		if p := plan(&process, granted); (p.Decision == Run) != session {
			t.Errorf("session %v, another process: %+v", session, p)
		}
		if g := base.Grant(session); g != (hosts.Grant{Host: base.Request.Host, Port: 443, Protocol: messages.HostHTTPS, Session: session, Process: 1000}) {
			t.Errorf("%+v", g)
		}
	}
	if key := plan(base, snapshot()).CacheKey; key != base.Key(false) || key == plan(&process, snapshot()).CacheKey {
		t.Errorf("the key is %s", key)
	}
}

func TestChoicesAboutAHost(t *testing.T) {
	h := connection(t, "xn--bcher-kva.example:22", messages.HostTCP)
	h.Runs = h.Process
	plan := MakePlan(Request{Host: h}, Snapshot{Sandbox: messages.SandboxPolicy{Type: messages.SandboxReadOnly, Network: &messages.NetworkPolicy{Default: messages.HostsAsked}}})
	if q := h.Question(plan); q.String() != "xn--bcher-kva.example:22 (tcp)" || q.Looks != "bücher.example is xn--bcher-kva.example" || q.Process != 1000 || q.Command != "curl x" || q.Rule != plan.HostRule {
		t.Errorf("%+v", q)
	}
	if plain := connection(t, "example.com:443", messages.HostHTTPS).Question(plan); plain.Looks != "" {
		t.Errorf("%+v", plain)
	}
	if argv := h.Argv(); !slices.Equal(argv, []string{"network-access", "tcp://xn--bcher-kva.example:22"}) {
		t.Errorf("%q", argv)
	}
	kinds := func(request Request, plan Plan, file string) (all []string) {
		for _, c := range Choices(request, plan, file) {
			all = append(all, string(c.Kind)+": "+c.String())
		}
		return all
	}
	got := strings.Join(kinds(Request{Host: h}, plan, "/home/me/default.rules"), "\n")
	if want := strings.Join([]string{
		"approved: Allow it to this command, until it ends: process 1000, and whatever shows its credential, may talk to xn--bcher-kva.example:22 (tcp), until it ends",
		"approved_for_session: Allow it to every command of this session: every command may talk to xn--bcher-kva.example:22 (tcp), until the session ends",
		"approved_execpolicy_amendment: Allow it to every command from now on: the rule allow xn--bcher-kva.example:22 (tcp), for every command that may talk to named hosts, in every session; written to /home/me/default.rules",
		"denied: Refuse it to this command, until it ends, and tell the command and the model why.",
		"abort: Refuse the connection, end the command, and stop the turn."}, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	h.Process, plan.HostRule = 0, nil
	if got = strings.Join(kinds(Request{Host: h}, plan, ""), "\n"); !strings.Contains(got, "denied: Refuse it for now, and tell") || !strings.Contains(got, "abort: ") {
		t.Error(got) // it is the only one that runs
	}
	h.Runs = 0
	got = strings.Join(kinds(Request{Host: h}, plan, ""), "\n")
	if !strings.HasPrefix(got, "approved: Allow it for now: whatever shows no command's credential may talk to xn--bcher-kva.example:22 (tcp), until no command of the session runs\n") ||
		strings.Contains(got, "abort") || strings.Contains(got, "amendment") {
		t.Error(got)
	}
}
