package execbus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/network"
	"github.com/execbus/execbus/sandbox"
)

// asking is a session whose commands may talk to the hosts that rules name, and to those that a person allows.
func asking(t testing.TB, rt *execbus.Runtime, change func(*execbus.SessionOptions), rules ...messages.HostRule) *execbus.Session {
	t.Helper()
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
	}
	options := execbus.SessionOptions{Dir: t.TempDir(), Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true,
		Network: &messages.NetworkPolicy{Hosts: rules, Default: messages.HostsAsked}}}
	change(&options)
	return openSession(t, rt, options)
}

// by makes a person the approver.
func by(p execbus.Approver) func(*execbus.SessionOptions) {
	return func(o *execbus.SessionOptions) { o.Approver = p }
}

// internet is a runtime for which one server is all of the internet.
func internet(t testing.TB, options execbus.Options) *execbus.Runtime {
	return newRuntime(t, options.OnInternet(site(t)))
}

// pages counts the pages in what a command has said.
func pages(r *messages.RunResult) int { return strings.Count(string(r.Stdout), "the page") }

func TestAHostIsApprovedForOneProcess(t *testing.T) {
	p := &person{}
	session := asking(t, internet(t, execbus.Options{}), by(p))
	events := eventsOf(t, session, messages.KindApprovalRequested, messages.KindApprovalResolved, messages.KindNetworkConnection)
	p.will(messages.DecisionApproved)
	first := fetched(t, session, "fetch good.test; fetch good.test:80; fetch good.test:8080")
	if pages(first) != 2 || strings.Count(string(first.Stdout), "403 Forbidden") != 1 {
		t.Errorf("%s %s", first.Stdout, first.Stderr)
	}
	asked := p.questions()
	if len(asked) != 2 { // the other port is another question
		t.Fatalf("%+v", asked)
	}
	q := asked[0]
	if q.Host == nil || q.Host.Process != first.Process || q.Host.Host != "good.test" || q.Host.Port != 80 || q.Host.Protocol != messages.HostHTTP || q.Host.Rule == nil ||
		q.Host.Rule.String() != "allow good.test:80 (http)" || q.Display != "network-access http://good.test:80" || q.Reason != "no rule names it" || q.Unsandboxed ||
		!strings.Contains(q.Host.Command, "fetch good.test") || q.Dir == "" || q.Deadline.IsZero() || q.OnDeadline != messages.DecisionTimedOut {
		t.Errorf("%+v %+v", q, q.Host)
	}
	var kinds []messages.DecisionKind
	for _, c := range q.Choices {
		kinds = append(kinds, c.Kind)
	}
	if !slices.Equal(kinds, []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedForSession, messages.DecisionApprovedWithRule, messages.DecisionDenied, messages.DecisionAborted}) ||
		!strings.Contains(q.Choices[0].Remembers, first.Process.String()+", and whatever shows its credential, may talk to good.test:80 (http), until it ends") {
		t.Errorf("%+v", q.Choices)
	}
	want := []string{"asked good.test:80 (http)", "approved good.test:80 (http)", "passed approval g1", "passed approval g1", "asked good.test:8080 (http)", "denied good.test:8080 (http)", "blocked rejected by user"}
	var got []string
	for range want {
		switch e := event(t, events).(type) {
		case messages.ApprovalRequested:
			got = append(got, "asked "+e.Host.String())
		case messages.ApprovalResolved:
			got = append(got, string(e.Decision)+" "+e.Host)
		case messages.NetworkConnection:
			if e.Connection.Allowed {
				got = append(got, "passed "+e.Connection.By)
			} else {
				got = append(got, "blocked "+e.Connection.Reason)
			}
		}
	}
	if got[0] != want[0] { // the proxy and the approval actor publish what follows at the same time
		t.Errorf("first came %s", got[0])
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
	// It has ended with its process: another one is asked about.
	if second := fetched(t, session, "fetch good.test"); pages(second) != 0 || len(p.questions()) != 1 {
		t.Errorf("%s", second.Stdout)
	}
	if all, err := session.Grants(patient(t)); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// eventsOf subscribes to events of some kinds.
func eventsOf(t testing.TB, session *execbus.Session, kinds ...messages.EventKind) *bus.Subscription {
	t.Helper()
	return watch(t, session, execbus.Watch{Kinds: kinds})
}

func event(t testing.TB, from *bus.Subscription) messages.Event {
	t.Helper()
	e, err := from.Next(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAHostIsApprovedForTheSession(t *testing.T) {
	p := &person{}
	session := asking(t, internet(t, execbus.Options{}), by(p))
	p.will(messages.DecisionApprovedForSession)
	for range 2 {
		if result := fetched(t, session, "fetch GOOD.test.:80"); pages(result) != 1 {
			t.Errorf("%s", result.Stdout)
		}
	}
	if asked := p.questions(); len(asked) != 1 {
		t.Errorf("%+v", asked)
	}
	// Exactly the host, the port and the protocol are approved.
	for _, other := range []string{"fetch good.test:81", "fetch a.good.test", "fetch xgood.test", tunnelTo("good.test:80")} {
		if result := fetched(t, session, other); pages(result) != 0 || len(p.questions()) != 1 {
			t.Errorf("%s: %s", other, result.Stdout)
		}
	}
	grants, err := session.Grants(patient(t))
	if err != nil || len(grants) != 1 || grants[0].Host == nil || *grants[0].Host != (messages.HostGrant{Host: "good.test", Port: 80, Protocol: messages.HostHTTP, Session: true}) ||
		!strings.Contains(grants[0].Remembers, "every command may talk to good.test:80 (http), until the session ends") {
		t.Fatalf("%+v, %v", grants, err)
	}
	if err := session.Revoke(patient(t), messages.RevokeGrant{Grant: grants[0].ID}); err != nil {
		t.Fatal(err)
	}
	if result := fetched(t, session, "fetch good.test"); pages(result) != 0 || len(p.questions()) != 1 {
		t.Errorf("%s", result.Stdout)
	}
}

// tunnelTo opens a tunnel, and says what the proxy answers.
func tunnelTo(authority string) string { return "set -- " + authority + "; " + tunnel + "head -1 <&3" }

func TestRevokingClosesAnOpenTunnel(t *testing.T) {
	server, p := listen(t), &person{}
	session := asking(t, newRuntime(t, execbus.Options{}.OnInternet(server.Addr().String())), by(p))
	for _, kind := range []messages.DecisionKind{messages.DecisionApproved, messages.DecisionApprovedForSession} {
		p.will(kind)
		started, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", "set -- plain.test:22; " + tunnel + "cat <&3; echo over"}})
		if err != nil {
			t.Fatal(err)
		}
		far, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		grants, err := session.Grants(patient(t))
		if err != nil || len(grants) != 1 || grants[0].Host.Protocol != messages.HostTCP || grants[0].Host.Session != (kind == messages.DecisionApprovedForSession) {
			t.Fatalf("%+v, %v", grants, err)
		}
		if err := session.Revoke(patient(t), messages.RevokeGrant{Grant: grants[0].ID}); err != nil {
			t.Fatal(err)
		}
		if n, err := far.Read(make([]byte, 1)); err == nil {
			t.Errorf("%d bytes came", n)
		}
		if status, err := started.Wait(patient(t)); err != nil || status != messages.StatusExited(0) {
			t.Errorf("%v, %v", status, err)
		}
		_ = far.Close()
	}
}

// An approval that expires takes what it has allowed with it.
func TestAnApprovalOfAHostExpires(t *testing.T) {
	server := listen(t)
	session := asking(t, newRuntime(t, execbus.Options{}.OnInternet(server.Addr().String())), by(execbus.ApproverFunc(func(context.Context, messages.Question) (messages.Decision, error) {
		return messages.Decision{Kind: messages.DecisionApprovedForSession, Expires: time.Millisecond}, nil
	})))
	started, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", "set -- plain.test:22; " + tunnel + "cat <&3"}})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := started.Wait(patient(t)); err != nil || status != messages.StatusExited(0) {
		t.Errorf("%v, %v", status, err)
	}
	if grants, err := session.Grants(patient(t)); err != nil || len(grants) > 0 {
		t.Errorf("%+v, %v", grants, err)
	}
}

func TestAHostIsApprovedByARule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "default.rules")
	options := execbus.Options{AmendmentFile: file}
	p, rt := &person{}, internet(t, options)
	session, other := asking(t, rt, by(p)), asking(t, rt, by(p))
	p.will(messages.DecisionApprovedWithRule)
	if result := fetched(t, session, "fetch good.test; fetch good.test"); pages(result) != 2 {
		t.Errorf("%s", result.Stdout)
	}
	if asked := p.questions(); len(asked) != 1 || !strings.Contains(asked[0].Choices[2].Remembers, "the rule allow good.test:80 (http), for every command") ||
		!strings.Contains(asked[0].Choices[2].Remembers, file) {
		t.Errorf("%+v", asked)
	}
	if result := fetched(t, other, "fetch good.test"); pages(result) != 1 || len(p.questions()) != 0 {
		t.Errorf("another session: %s", result.Stdout)
	}
	if grants, err := session.Grants(patient(t)); err != nil || len(grants) > 0 {
		t.Errorf("%+v, %v", grants, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || string(text) != `network_rule(host="good.test:80", protocol="http", decision="allow")`+"\n" {
		t.Errorf("%s, %v", text, err)
	}
	// The next runtime reads it.
	options.Rules = []execbus.RuleLayer{{Files: []string{file}, Trusted: true}}
	next := asking(t, internet(t, options), by(p))
	events := eventsOf(t, next, messages.KindNetworkConnection)
	if result := fetched(t, next, "fetch good.test"); pages(result) != 1 || len(p.questions()) != 0 {
		t.Errorf("the next runtime: %s", result.Stdout)
	}
	if c := event(t, events).(messages.NetworkConnection).Connection; c.By != "allow good.test:80 (http) in "+file+":1" {
		t.Errorf("%+v", c)
	}
}

// A person may make another rule than the one that is proposed, if it allows what is asked about.
func TestAPersonChangesTheRule(t *testing.T) {
	questions := make(chan messages.Question, 1)
	session := asking(t, internet(t, execbus.Options{}), by(execbus.ApproverFunc(func(ctx context.Context, q messages.Question) (messages.Decision, error) {
		questions <- q
		<-ctx.Done()
		return messages.Decision{}, ctx.Err()
	})))
	done := later(func() *messages.RunResult { return fetched(t, session, "fetch a.good.test; fetch b.good.test") })
	q := <-questions
	decide := func(d messages.Decision) error {
		d.Kind = messages.DecisionApprovedWithRule
		return session.Decide(patient(t), messages.Decide{Question: q.ID, Decision: d})
	}
	for name, d := range map[string]messages.Decision{
		"another host":  {HostRule: &messages.HostRule{Host: "b.good.test", Decision: messages.HostAllow}},
		"no host":       {HostRule: &messages.HostRule{Host: "127.1", Decision: messages.HostAllow}},
		"another way":   {HostRule: &messages.HostRule{Host: "**.good.test:80", Protocol: messages.HostTCP, Decision: messages.HostAllow}},
		"one that asks": {HostRule: &messages.HostRule{Host: "**.good.test", Decision: messages.HostPrompt}},
		"a prefix":      {Amendment: []string{"curl"}},
	} {
		if err := decide(d); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := decide(messages.Decision{HostRule: &messages.HostRule{Host: "**.good.test", Decision: messages.HostAllow}}); err != nil {
		t.Error(err)
	}
	if result := <-done; pages(result) != 2 {
		t.Errorf("%s", result.Stdout)
	}
}

// A rule that cannot be written allows this process.
func TestARuleAboutAHostThatCannotBeWritten(t *testing.T) {
	p, dir := &person{}, t.TempDir()
	session := asking(t, internet(t, execbus.Options{AmendmentFile: filepath.Join(dir, "a", "b", "default.rules")}), by(p))
	events := eventsOf(t, session, messages.KindExecNotice)
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.will(messages.DecisionApprovedWithRule)
	if result := fetched(t, session, "fetch good.test; fetch good.test"); pages(result) != 2 || len(p.questions()) != 1 {
		t.Errorf("%s", result.Stdout)
	}
	if notice := event(t, events).(messages.ExecNotice); !strings.Contains(notice.Text, "could not be remembered, so it counts for this command only") {
		t.Error(notice.Text)
	}
	if result := fetched(t, session, "fetch good.test"); pages(result) != 0 || len(p.questions()) != 1 {
		t.Errorf("%s", result.Stdout)
	}
}

// The rule of a file that asks is not outweighed by one that allows, so none is offered.
func TestARuleOfAFileAsks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "default.rules")
	if err := os.WriteFile(file, []byte(`network_rule("**.test", "any", "prompt", justification="think")`+"\n"+`network_rule("bad.test", "any", "deny")`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &person{}
	session := asking(t, internet(t, execbus.Options{Rules: []execbus.RuleLayer{{Files: []string{file}, Trusted: true}}}), func(o *execbus.SessionOptions) {
		o.Approver, o.Sandbox.Network.Default = p, messages.HostsDenied
	})
	p.will(messages.DecisionApproved)
	result := fetched(t, session, "fetch good.test; fetch bad.test; fetch other.example")
	if pages(result) != 1 || strings.Count(string(result.Stdout), "403 Forbidden") != 2 {
		t.Errorf("%s", result.Stdout)
	}
	asked := p.questions()
	if len(asked) != 1 || asked[0].Reason != "a rule asks about it: think" || asked[0].Host.Rule != nil || slices.ContainsFunc(asked[0].Choices, func(c messages.Choice) bool {
		return c.Kind == messages.DecisionApprovedWithRule
	}) {
		t.Errorf("%+v", asked)
	}
}

func TestAHostIsRefused(t *testing.T) {
	session := asking(t, internet(t, execbus.Options{}), by(execbus.ApproverFunc(func(context.Context, messages.Question) (messages.Decision, error) {
		return messages.Decision{Kind: messages.DecisionDenied, Rejection: "use the mirror"}, nil
	})))
	result := fetched(t, session, "fetch good.test; echo $?")
	for _, part := range []string{"HTTP/1.1 403 Forbidden", "X-Proxy-Error: blocked-by-allowlist", `"reason":"not_allowed"`, `"decision":"deny"`, `"source":"decider"`, `"host":"good.test"`,
		"Network access to good.test:80 was blocked: use the mirror."} {
		if !strings.Contains(string(result.Stdout), part) {
			t.Errorf("%q is not in %s", part, result.Stdout)
		}
	}
	if len(result.BlockedHosts) != 1 || result.Status != messages.StatusExited(0) {
		t.Fatalf("%+v", result)
	}
	if c := result.BlockedHosts[0]; c.Reason != "use the mirror" || c.Suggestion == nil || c.Suggestion.String() != "allow good.test:80 (http)" {
		t.Errorf("%+v", c)
	}
}

// What a person has refused to a process is refused to it, without another question, until it ends; a grant for the session outweighs that.
func TestARefusalHoldsUntilTheProcessEnds(t *testing.T) {
	for _, script := range []string{fetch, bare(fetch)} {
		p := &person{}
		session := asking(t, internet(t, execbus.Options{}), by(p))
		for range 2 {
			result := fetched(t, session, script+"fetch good.test; fetch good.test; fetch GOOD.test.; fetch good.test:81")
			if asked := p.questions(); len(asked) != 2 || strings.Count(string(result.Stdout), "was blocked: rejected by user.") != 4 {
				t.Errorf("%d questions, %s", len(asked), result.Stdout)
			}
			_, _ = session.Terminate(patient(t), messages.Terminate{Process: result.Process}) // an error says that it has ended already
		}
		first, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", script + "fetch good.test; echo refused; read; fetch good.test"},
			OpenStdin: true, Yield: new(patience), Until: &messages.Until{Pattern: "refused"}})
		if err != nil || len(p.questions()) != 1 {
			t.Fatalf("%s, %v", first.Output, err)
		}
		p.will(messages.DecisionApprovedForSession)
		fetched(t, session, "fetch good.test")
		if asked := p.questions(); len(asked) != 1 {
			t.Errorf("another process: %d questions", len(asked))
		}
		result, err := session.Write(patient(t), messages.WriteStdin{Process: first.Process, Bytes: []byte("\n"), Yield: new(patience)})
		if err != nil || !strings.Contains(string(result.Output), "the page") || len(p.questions()) != 0 {
			t.Errorf("%s, %v", result.Output, err)
		}
	}
}

// A process that asks for one host after the other, all of which are refused, tires nobody for long.
func TestAFloodOfHosts(t *testing.T) {
	for _, script := range []string{"", bare(fetch)} {
		p := &person{}
		result := fetched(t, asking(t, internet(t, execbus.Options{}), by(p)), script+"for i in {1..40}; do fetch h$i.test; done; fetch h1.test")
		tired := strings.Count(string(result.Stdout), "a person has refused 32 hosts to this command already, and is asked no more")
		if asked := p.questions(); len(asked) != 32 || tired != 8 || strings.Count(string(result.Stdout), "rejected by user") != 33 {
			t.Errorf("%d questions, %d hosts not asked about, %s", len(asked), tired, result.Stdout)
		}
	}
}

// A person who aborts is not asked about the further hosts of the process that this ends, whether they wait or come later, and whether or not
// it shows a credential.
func TestAfterAbortAProcessAsksNoMore(t *testing.T) {
	for _, script := range []string{fetch, bare(fetch)} {
		put := make(chan messages.Question, 100)
		session := asking(t, internet(t, execbus.Options{}), by(execbus.ApproverFunc(func(ctx context.Context, q messages.Question) (messages.Decision, error) {
			put <- q
			<-ctx.Done()
			return messages.Decision{}, ctx.Err()
		})))
		started, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", script +
			"trap 'fetch late.test; echo late' TERM; fetch one.test & fetch two.test & fetch three.test & wait; wait; sleep 1000 & wait"}})
		if err != nil {
			t.Fatal(err)
		}
		q := <-put
		for all := (messages.Questions{}); len(all) < 3; {
			if all, err = session.Questions(patient(t)); err != nil {
				t.Fatal(err)
			}
		}
		if err := session.Decide(patient(t), messages.Decide{Question: q.ID, Decision: messages.Decision{Kind: messages.DecisionAborted}}); err != nil {
			t.Fatal(err)
		}
		if _, err := started.Wait(patient(t)); err != nil {
			t.Fatal(err)
		}
		if len(put) > 0 {
			t.Errorf("%s was asked about after the abort", (<-put).Host)
		}
	}
}

// A person who aborts ends the process, and no other, and stops the turn: the owner's other questions and calls.
func TestAbortEndsTheProcessThatAsks(t *testing.T) {
	questions := make(chan messages.Question, 1)
	session := asking(t, internet(t, execbus.Options{}), by(execbus.ApproverFunc(func(ctx context.Context, q messages.Question) (messages.Decision, error) {
		questions <- q
		<-ctx.Done()
		return messages.Decision{}, ctx.Err()
	})))
	events := eventsOf(t, session, messages.KindApprovalResolved, messages.KindExecEnded)
	start := func(host string) *execbus.Process {
		p, err := session.Start(patient(t), messages.ExecCommand{Owner: "turn", Argv: []string{"bash", "-c", fetch + "trap : TERM; fetch " + host + "; sleep 1000 & wait"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := start("one.test")
	q := <-questions
	second := start("two.test")
	for all := (messages.Questions{}); len(all) < 2; {
		var err error
		if all, err = session.Questions(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.Decide(patient(t), messages.Decide{Question: q.ID, Decision: messages.Decision{Kind: messages.DecisionAborted}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"abort one.test:80 (http)", "ended " + first.ID().String() + " terminated"} { // the second question was not put
		var got string
		switch e := event(t, events).(type) {
		case messages.ApprovalResolved:
			got = string(e.Decision) + " " + e.Host
		case messages.ExecEnded:
			got = fmt.Sprint("ended ", e.Process, " ", e.Cause)
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if all, err := session.Questions(patient(t)); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if info, err := second.Info(patient(t)); err != nil || info.State != messages.StateRunning {
		t.Errorf("the other process: %+v, %v", info, err)
	}
}

func TestNobodyCanBeAskedAboutAHost(t *testing.T) {
	rt, p := internet(t, execbus.Options{}), &person{}
	for name, change := range map[string]func(*execbus.SessionOptions){
		"it needs approval, and nobody is there to ask":                               func(*execbus.SessionOptions) {},
		"no rule names it, but the approval policy is never and lets nobody be asked": func(o *execbus.SessionOptions) { o.Approver, o.Approval.Mode = p, messages.ApproveNever },
		"it needs approval, and the approver did not answer: out of order": by(execbus.ApproverFunc(func(context.Context, messages.Question) (messages.Decision, error) {
			return messages.Decision{}, errors.New("out of order")
		})),
		"no rule names it, but the approval policy is granular and lets nobody be asked": func(o *execbus.SessionOptions) {
			o.Approver, o.Approval = p, messages.ApprovalPolicy{Mode: messages.ApproveGranular, Granular: messages.GranularApproval{Rules: true}}
		},
		"no rule allows good.test:80": func(o *execbus.SessionOptions) { o.Approver, o.Sandbox.Network.Default = p, messages.HostsDenied },
	} {
		result := fetched(t, asking(t, rt, change), "fetch good.test")
		if !strings.Contains(string(result.Stdout), "403 Forbidden") || !strings.Contains(string(result.Stdout), name+".") || len(result.BlockedHosts) != 1 {
			t.Errorf("%s: %s %+v", name, result.Stdout, result.BlockedHosts)
		}
	}
	if asked := p.questions(); len(asked) > 0 {
		t.Errorf("%+v", asked)
	}
}

// What lies in this machine, on its links or in its cloud is never asked about, whatever rules ask.
func TestWhatIsNeverAskedAboutAHost(t *testing.T) {
	p := &person{}
	var rules []messages.HostRule
	hosts := []string{"127.0.0.1", "[::1]", "localhost", "169.254.169.254", "169.254.1.1", "[fe80::1]", "224.0.0.1", "0.0.0.0", "10.0.0.1", "192.168.1.1"}
	for _, host := range hosts {
		rules = append(rules, messages.HostRule{Host: host, Decision: messages.HostPrompt})
	}
	p.will(slices.Repeat([]messages.DecisionKind{messages.DecisionApprovedForSession}, len(hosts))...)
	result := fetched(t, asking(t, internet(t, execbus.Options{}), by(p), rules...), "for host in "+strings.Join(hosts, " ")+"; do fetch $host; done")
	if n := strings.Count(string(result.Stdout), `"reason":"not_allowed_local"`); n != len(hosts) || pages(result) != 0 || len(p.questions()) > 0 {
		t.Errorf("%d: %s", n, result.Stdout)
	}
}

func TestNobodyAnswersAboutAHost(t *testing.T) {
	silent := execbus.ApproverFunc(func(ctx context.Context, _ messages.Question) (messages.Decision, error) {
		<-ctx.Done()
		return messages.Decision{}, ctx.Err()
	})
	for want, row := range map[string]struct {
		options  execbus.Options
		deadline time.Duration
		decision messages.DecisionKind
	}{
		"nobody answered the question before its deadline": {deadline: time.Millisecond, decision: messages.DecisionTimedOut},
		"nobody has answered within 50ms":                  {options: execbus.Options{}.OnInternet("").AskTimeout(50 * time.Millisecond)},
	} {
		rt := internet(t, row.options)
		if row.deadline == 0 {
			rt = newRuntime(t, row.options)
		}
		session := asking(t, rt, func(o *execbus.SessionOptions) { o.Approver, o.ApprovalDeadline = silent, row.deadline })
		events := eventsOf(t, session, messages.KindApprovalResolved)
		if result := fetched(t, session, "fetch good.test"); !strings.Contains(string(result.Stdout), want) {
			t.Errorf("%s: %s", want, result.Stdout)
		}
		if e := event(t, events).(messages.ApprovalResolved); e.Decision != row.decision || e.Host != "good.test:80 (http)" {
			t.Errorf("%+v", e)
		}
	}
}

// Two processes that ask about one host are two questions: what is approved for one is not for the other.
func TestTwoProcessesAskAboutOneHost(t *testing.T) {
	questions, answers := make(chan messages.Question), make(chan messages.DecisionKind)
	session := asking(t, internet(t, execbus.Options{}), by(execbus.ApproverFunc(func(ctx context.Context, q messages.Question) (messages.Decision, error) {
		questions <- q
		return messages.Decision{Kind: <-answers}, nil
	})))
	for _, row := range []struct {
		first, second messages.DecisionKind
		pages         int
	}{{messages.DecisionApproved, messages.DecisionDenied, 1}, {messages.DecisionDenied, messages.DecisionApproved, 1}, {messages.DecisionApprovedForSession, "", 2}} {
		results := make(chan *messages.RunResult, 2)
		for range 2 {
			go func() { results <- fetched(t, session, "fetch good.test") }()
		}
		q := <-questions
		for all := (messages.Questions{}); len(all) < 2; {
			var err error
			if all, err = session.Questions(patient(t)); err != nil {
				t.Fatal(err)
			}
		}
		answers <- row.first
		got := map[messages.ProcessID]messages.DecisionKind{q.Host.Process: row.first}
		if row.second != "" {
			other := <-questions
			answers <- row.second
			got[other.Host.Process] = row.second
			if other.Host.Process == q.Host.Process {
				t.Errorf("one process was asked about twice")
			}
		}
		n := 0
		for range 2 {
			result := <-results
			n += pages(result)
			if kind, asked := got[result.Process]; asked && (pages(result) == 1) != kind.Approves() {
				t.Errorf("%s: %s", kind, result.Stdout)
			}
		}
		if n != row.pages {
			t.Errorf("%+v: %d pages", row, n)
		}
	}
}

// Sixteen hosts wait, one of them is put, and the next is refused at once.
func TestManyHostsAtOnce(t *testing.T) {
	put := make(chan messages.Question, 100)
	session := asking(t, internet(t, execbus.Options{}), by(execbus.ApproverFunc(func(ctx context.Context, q messages.Question) (messages.Decision, error) {
		put <- q
		<-ctx.Done()
		return messages.Decision{}, ctx.Err()
	})))
	started, err := session.Start(patient(t), messages.ExecCommand{OpenStdin: true, Argv: []string{"bash", "-c", fetch +
		fmt.Sprintf("for i in {1..%d}; do fetch h$i.test & fetch h$i.test & done; read; fetch more.test; echo refused; wait", network.MaxQuestions)}})
	if err != nil {
		t.Fatal(err)
	}
	for all := (messages.Questions{}); len(all) < network.MaxQuestions; {
		if all, err = session.Questions(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	result, err := session.Write(patient(t), messages.WriteStdin{Process: started.ID(), Bytes: []byte("\n"), Yield: new(patience), Until: &messages.Until{Pattern: "refused"}})
	if err != nil || !strings.Contains(string(result.Output), "16 other questions wait for an answer") {
		t.Errorf("%s, %v", result.Output, err)
	}
	if all, err := session.Questions(patient(t)); err != nil || len(all) != network.MaxQuestions {
		t.Errorf("%d questions, %v", len(all), err)
	}
	if n := len(put); n != 1 {
		t.Errorf("%d questions were put", n)
	}
	if _, err := started.Terminate(patient(t)); err != nil {
		t.Fatal(err)
	}
	if all, err := session.Questions(patient(t)); err != nil || len(all) > 0 {
		t.Errorf("%d questions are left, %v", len(all), err)
	}
}

// A question ends with its process and with its session, before these are said to have ended.
func TestAQuestionAboutAHostEndsWithItsProcess(t *testing.T) {
	for name, end := range map[string]func(*execbus.Session, *execbus.Process) error{
		"terminated": func(_ *execbus.Session, p *execbus.Process) error { _, err := p.Terminate(patient(t)); return err },
		"session":    func(s *execbus.Session, _ *execbus.Process) error { return s.Close(patient(t)) },
		"hangs up": func(s *execbus.Session, p *execbus.Process) error {
			_, err := s.Write(patient(t), messages.WriteStdin{Process: p.ID(), Bytes: []byte("\n")})
			return err
		},
	} {
		for _, credential := range []bool{true, false} {
			open := tunnel
			if !credential {
				open = bare(tunnel)
			}
			session := asking(t, internet(t, execbus.Options{}), func(*execbus.SessionOptions) {})
			events := eventsOf(t, session, messages.KindApprovalRequested, messages.KindApprovalResolved, messages.KindExecEnded)
			started, err := session.Start(patient(t), messages.ExecCommand{OpenStdin: true, Argv: []string{"bash", "-c", "set -- good.test:443; " + open + "read; exec 3>&-"}})
			if err != nil {
				t.Fatal(err)
			}
			asked := event(t, events).(messages.ApprovalRequested)
			if known := asked.Host.Process != 0; known != credential || asked.Process != started.ID() {
				t.Errorf("%+v %+v", asked.Origin, asked.Host)
			}
			if err := end(session, started); err != nil {
				t.Fatal(err)
			}
			if e, is := event(t, events).(messages.ApprovalResolved); !is || e.Decision != "" || e.Question != asked.ID {
				t.Errorf("%s: %+v", name, e)
			}
			if e, is := event(t, events).(messages.ExecEnded); !is || e.Process != started.ID() {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// Attacks 38 and 64: a credential says who asks, and opens nothing. A process that shows that of another gets what a person has approved
// for it, and no other host.
func TestTheCredentialOfAnotherProcess(t *testing.T) {
	p := &person{}
	session := asking(t, internet(t, execbus.Options{}), by(p))
	p.will(messages.DecisionApproved)
	first, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", fetch + "fetch good.test; echo $http_proxy; read"},
		OpenStdin: true, Yield: new(patience), Until: &messages.Until{Pattern: "@127"}})
	if err != nil || !strings.Contains(string(first.Output), "the page") {
		t.Fatalf("%s, %v", first.Output, err)
	}
	p.questions()
	lines := strings.Fields(string(first.Output))
	theirs := lines[len(lines)-1]
	for script, want := range map[string]struct{ pages, asked int }{
		"fetch good.test": {0, 1},
		"http_proxy=" + theirs + "; fetch good.test; fetch good.test:8080; fetch other.test": {1, 2},
		bare(fetch) + "fetch good.test":                             {0, 1},
		"http_proxy=${http_proxy/:??????/:aaaaaa}; fetch good.test": {0, 0},
	} {
		result := fetched(t, session, script)
		if asked := p.questions(); pages(result) != want.pages || len(asked) != want.asked {
			t.Errorf("%s: %d questions, %s", script, len(asked), result.Stdout)
		}
	}
}

// What is approved for connections without a credential is for those of every process, until none runs.
func TestConnectionsWithoutACredential(t *testing.T) {
	p := &person{}
	session := asking(t, internet(t, execbus.Options{}), by(p))
	p.will(messages.DecisionApproved)
	first, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", bare(fetch) + "fetch good.test; echo fetched; read"},
		OpenStdin: true, Yield: new(patience), Until: &messages.Until{Pattern: "fetched"}})
	if err != nil || !strings.Contains(string(first.Output), "the page") {
		t.Fatalf("%s, %v", first.Output, err)
	}
	if asked := p.questions(); len(asked) != 1 || asked[0].Host.Process != 0 || !strings.Contains(asked[0].Host.Command, "fetch good.test") || len(asked[0].Choices) != 5 || asked[0].Choices[4].Kind != messages.DecisionAborted || !strings.HasPrefix(asked[0].Choices[0].Remembers, "whatever shows no command's credential may talk to good.test:80 (http), until no command") {
		t.Errorf("%+v", asked)
	}
	if result := fetched(t, session, bare(fetch)+"fetch good.test"); pages(result) != 1 || len(p.questions()) != 0 {
		t.Errorf("%s", result.Stdout)
	}
	if result := fetched(t, session, "fetch good.test; "+bare(fetch)+"fetch other.test"); pages(result) != 0 {
		t.Errorf("%s", result.Stdout)
	}
	if asked := p.questions(); len(asked) != 2 || asked[0].Host.Process == 0 || asked[1].Host.Command != "" || slices.ContainsFunc(asked[1].Choices, func(c messages.Choice) bool {
		return c.Kind == messages.DecisionAborted
	}) { // two processes run
		t.Errorf("%+v", asked)
	}
	if grants, err := session.Grants(patient(t)); err != nil || len(grants) != 1 || *grants[0].Host != (messages.HostGrant{Host: "good.test", Port: 80, Protocol: messages.HostHTTP}) {
		t.Errorf("%+v, %v", grants, err)
	}
	if _, err := session.Terminate(patient(t), messages.Terminate{Process: first.Process}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the grant ends with the last command", func() bool {
		grants, err := session.Grants(patient(t))
		return err == nil && len(grants) == 0
	})
}

// While a person is asked, the clocks of the process stand still, and those of others do not.
func TestClocksStandStillWhileAHostIsAskedAbout(t *testing.T) {
	t.Parallel() // it waits most of the time
	questions, answer := make(chan messages.Question, 1), make(chan messages.DecisionKind)
	session := asking(t, internet(t, execbus.Options{}), by(execbus.ApproverFunc(func(ctx context.Context, q messages.Question) (messages.Decision, error) {
		questions <- q
		return messages.Decision{Kind: <-answer}, nil
	})))
	const most = 2 * time.Second
	executed := later(func() *messages.Result {
		result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", fetch + "fetch good.test"}, Yield: new(most)})
		if err != nil {
			t.Error(err)
		}
		return result
	})
	<-questions
	other, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(most)})
	if err != nil || !other.Running {
		t.Fatalf("%+v, %v", other, err)
	}
	answer <- messages.DecisionApproved
	if result := <-executed; result.Running || !strings.Contains(string(result.Output), "the page") {
		t.Errorf("%+v", result)
	}
	ran := later(func() *messages.RunResult {
		result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"bash", "-c", fetch + "fetch good.test"}, Timeout: new(most)})
		if err != nil {
			t.Error(err)
		}
		return result
	})
	<-questions
	timed, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"sleep", "1000"}, Timeout: new(most)})
	if err != nil || !timed.TimedOut {
		t.Fatalf("%+v, %v", timed, err)
	}
	answer <- messages.DecisionApproved
	if result := <-ran; result.TimedOut || pages(result) != 1 || result.Waited < timed.Duration {
		t.Errorf("%+v", result)
	}
	// What is left of its time then goes on.
	late := later(func() *messages.RunResult {
		result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"bash", "-c", fetch + "fetch good.test; sleep 1000"}, Timeout: new(most)})
		if err != nil {
			t.Error(err)
		}
		return result
	})
	<-questions
	answer <- messages.DecisionDenied
	if result := <-late; !result.TimedOut {
		t.Errorf("%+v", result)
	}
}

// bare is a script that leaves the credential out.
func bare(script string) string {
	return strings.ReplaceAll(script, "Proxy-Authorization: Basic", "X-Credential:")
}

// later does something and hands out its result.
func later[T any](act func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- act() }()
	return result
}
