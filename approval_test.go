package execbus_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// person is an Approver that gives prepared answers and keeps the questions. Without an answer left it denies.
type person struct {
	mu      sync.Mutex
	answers []messages.Decision
	asked   []messages.Question
}

func (p *person) Approve(_ context.Context, q messages.Question) (messages.Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q)
	if len(p.answers) == 0 {
		return messages.Decision{Kind: messages.DecisionDenied}, nil
	}
	answer := p.answers[0]
	p.answers = p.answers[1:]
	return answer, nil
}

// questions are those since the last call.
func (p *person) questions() []messages.Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func (p *person) will(kinds ...messages.DecisionKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = nil
	for _, kind := range kinds {
		p.answers = append(p.answers, messages.Decision{Kind: kind})
	}
}

// cage plays a sandbox: what runs in it knows by CONFINED, and its failures are denials.
type cage struct{ ptyio.Spawner }

func (cage) Can(ptyio.Launch) (messages.Enforcement, error) {
	return messages.Enforcement{Level: messages.AssuranceIsolated}, nil
}

func (c cage) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	if launch.Sandbox != nil {
		events := launch.Events
		launch.Sandbox, launch.Env = nil, append(slices.Clone(launch.Env), "CONFINED=1")
		launch.Events = func(e ptyio.Event) {
			if exit, ok := e.(ptyio.Exited); ok && exit.Status != messages.StatusExited(0) {
				exit.Denial = &messages.Denial{Operation: "write"}
				e = exit
			}
			events(e)
		}
	}
	return c.Spawner.Spawn(ctx, launch)
}

// outside writes a file where a sandbox would not let it.
const outside = `if [ -n "$CONFINED" ]; then echo "Read-only file system" >&2; exit 1; fi; echo written > out; cat out`

func script(text string) messages.ExecCommand {
	return messages.ExecCommand{Script: text, Shell: "/bin/bash", Login: new(bool), Yield: new(messages.MaxYield)}
}

// unknown is a harmless command that is not among those known to be safe.
func unknown() messages.ExecCommand { return messages.ExecCommand{Argv: []string{"sleep", "0"}} }

func escalated(c messages.ExecCommand) messages.ExecCommand {
	c.SandboxPermissions, c.Justification = messages.PermissionsRequireEscalated, "it has to write"
	return c
}

// TestAnApprovalWithoutInputIsNotOneForATerminal: what is typed is code that nobody has seen.
func TestAnApprovalWithoutInputIsNotOneForATerminal(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	closed := messages.ExecCommand{Argv: []string{"sh"}, Yield: new(messages.MinYield)}
	terminal, pipe := closed, closed
	terminal.TTY, pipe.OpenStdin = true, true
	for name, c := range map[string]struct {
		first, second messages.ExecCommand
		again         bool // the second is asked about
	}{
		"closed, then a terminal": {closed, terminal, true},
		"closed, then a pipe":     {closed, pipe, true},
		"closed, then closed":     {closed, closed, false},
		"a terminal, then closed": {terminal, closed, false},
		"a pipe, then a terminal": {pipe, terminal, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &person{}
			p.will(messages.DecisionApprovedForSession, messages.DecisionDenied)
			session := openSession(t, rt, execbus.SessionOptions{Dir: t.TempDir(), Sandbox: &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess},
				Approver: p, Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
			if _, err := session.Exec(patient(t), c.first); err != nil {
				t.Fatal(err)
			}
			if asked := p.questions(); len(asked) != 1 || asked[0].OpenInput != (c.first.TTY || c.first.OpenStdin) {
				t.Fatalf("asked about %+v", asked)
			}
			_, err := session.Exec(patient(t), c.second)
			if asked := p.questions(); (len(asked) == 1) != c.again || (err != nil) != c.again {
				t.Errorf("%v, asked about %+v", err, asked)
			}
			if err := session.Close(patient(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAPlantedProgramIsNotWhatItsNameSays, neither in a script nor without one.
func TestAPlantedProgramIsNotWhatItsNameSays(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "head"), []byte("#!/bin/sh\necho planted\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	argv := messages.ExecCommand{Argv: []string{"head", "/dev/null"}}
	for _, c := range []struct {
		path    string
		command messages.ExecCommand
		asked   bool
	}{
		{"/usr/bin:/bin", script("head /dev/null"), false},
		{"/usr/bin:/bin:bin", script("head /dev/null"), false},
		{"bin:/usr/bin:/bin", script("head /dev/null"), true},
		{filepath.Join(dir, "bin") + ":/usr/bin:/bin", script("head /dev/null"), true},
		{filepath.Join(dir, "none") + ":/usr/bin:/bin", script("head /dev/null"), true}, // it may be made
		{":/usr/bin:/bin", script("echo x | head"), true},
		{"/usr/bin:/bin", argv, false},
		{"bin:/usr/bin:/bin", argv, true},
	} {
		p := &person{}
		session := openSession(t, rt, execbus.SessionOptions{Dir: dir, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess},
			Environment: messages.EnvironmentPolicy{Set: map[string]string{"PATH": c.path}}, Approver: p,
			Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
		_, err := session.Exec(patient(t), c.command)
		if asked := p.questions(); (len(asked) == 1) != c.asked || (err != nil) != c.asked {
			t.Errorf("PATH=%s, %q%s: %v, asked about %+v", c.path, c.command.Argv, c.command.Script, err, asked)
		} else if c.asked && (len(asked[0].Segments) == 0 || !strings.Contains(asked[0].Segments[0].Why, "leads")) {
			t.Errorf("the question shows %+v", asked[0].Segments)
		}
		if err := session.Close(patient(t)); err != nil {
			t.Error(err)
		}
	}
}

// TestALinkLeadsWhereTheKernelSays: what is safe to read is decided about the file, not about its name.
func TestALinkLeadsWhereTheKernelSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"same": "file", "secret": "/proc/self/environ", "top": "/", "device": "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := &person{}
	session := newSession(t, execbus.SessionOptions{Dir: dir, Approver: p, Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	for text, asked := range map[string]bool{"cat file": false, "cat same ./same": false, "cat f*": false, "ls -l": false, "head -c 1 none; cat file": false, "cat secret": true, "cat s*": true, "cat top/proc/self/environ": true,
		"cd top && cat proc/version": true, "cat top/etc/../proc/version": true, "head -c 1 device": true, "cat /var/run/../proc/version": true} {
		for _, command := range []messages.ExecCommand{script(text), {Argv: strings.Fields(text)}} {
			if len(command.Argv) > 0 && strings.ContainsAny(text, "*;&") {
				continue
			}
			_, _ = session.Exec(patient(t), command)
			if questions := p.questions(); (len(questions) == 1) != asked {
				t.Errorf("%q%s: asked about %+v", command.Argv, command.Script, questions)
			}
		}
	}
}

// TestAnExactSessionHasNoPager, for a pager is a program that nobody was asked about. A request's own environment is its own.
func TestAnExactSessionHasNoPager(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	session := openSession(t, rt, execbus.SessionOptions{Environment: messages.EnvironmentPolicy{Exact: true, Set: map[string]string{
		"PATH": "/usr/bin:/bin", "GH_PAGER": "less"}}})
	for want, own := range map[string]*messages.EnvironmentPolicy{
		"GH_PAGER=less\nGIT_PAGER=cat\nPAGER=cat\nPATH=/usr/bin:/bin\n": nil, "A=b\n": {Exact: true, Set: map[string]string{"A": "b"}},
	} {
		result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"/usr/bin/env"}, Environment: own, Yield: new(messages.MaxYield)})
		if err != nil || result.OutputText() != want {
			t.Errorf("%q, %v, want %q", result.OutputText(), err, want)
		}
	}
}

// TestWhoIsAskedAboutWhat goes through the policies with real plans and real commands.
func TestWhoIsAskedAboutWhat(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{Spawner: cage{newSpawner(t, true)}})
	open, readOnly := messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}, messages.SandboxPolicy{Type: messages.SandboxReadOnly}
	const none, ask, twice = 0, 1, 2
	for name, c := range map[string]struct {
		mode    messages.ApprovalMode
		sandbox messages.SandboxPolicy
		command messages.ExecCommand
		answer  messages.DecisionKind
		asked   int
		output  string // or what the error says
		err     messages.ErrorCode
	}{
		"full access, on-request":                {messages.ApproveOnRequest, open, script(outside), "", none, "written", ""},
		"full access, never":                     {messages.ApproveNever, open, script(outside), "", none, "written", ""},
		"full access, never, dangerous":          {messages.ApproveNever, open, script("rm -rf /nowhere"), "", none, "rm", messages.ErrRejected},
		"full access, on-request, dangerous":     {messages.ApproveOnRequest, open, script("rm -rf ./nothing; echo done"), messages.DecisionApproved, ask, "done", ""},
		"full access, untrusted, safe":           {messages.ApproveUntrusted, open, script("echo hi"), "", none, "hi", ""},
		"full access, untrusted, safe, argv":     {messages.ApproveUntrusted, open, messages.ExecCommand{Argv: []string{"echo", "hi"}}, "", none, "hi", ""},
		"full access, untrusted, redirect":       {messages.ApproveUntrusted, open, script("cat < /dev/null > out; echo done"), messages.DecisionApproved, ask, "done", ""},
		"full access, untrusted, git":            {messages.ApproveUntrusted, open, script("git reset --hard"), messages.DecisionDenied, ask, "rejected by user", messages.ErrRejected},
		"full access, untrusted, one not safe":   {messages.ApproveUntrusted, open, script("echo hi && touch it"), messages.DecisionAborted, ask, "aborted", messages.ErrAborted},
		"read-only, on-request":                  {messages.ApproveOnRequest, readOnly, script("echo in ${CONFINED}"), "", none, "in 1", ""},
		"read-only, on-request, write":           {messages.ApproveOnRequest, readOnly, script(outside), "", none, "Read-only", ""},
		"read-only, on-request, escalated":       {messages.ApproveOnRequest, readOnly, escalated(script(outside)), messages.DecisionApproved, ask, "written", ""},
		"read-only, on-request, escalated, no":   {messages.ApproveOnRequest, readOnly, escalated(script(outside)), messages.DecisionDenied, ask, "rejected by user", messages.ErrRejected},
		"read-only, never, write":                {messages.ApproveNever, readOnly, script(outside), "", none, "Read-only", ""},
		"read-only, never, escalated":            {messages.ApproveNever, readOnly, escalated(script(outside)), "", none, "never", messages.ErrRejected},
		"read-only, untrusted, escalated":        {messages.ApproveUntrusted, readOnly, escalated(script(outside)), messages.DecisionApproved, ask, "written", ""},
		"read-only, untrusted, write":            {messages.ApproveUntrusted, readOnly, script(outside), messages.DecisionApproved, twice, "written", ""},
		"read-only, on-failure, write, approved": {messages.ApproveOnFailure, readOnly, script(outside), messages.DecisionApproved, ask, "written", ""},
		"read-only, on-failure, write, denied":   {messages.ApproveOnFailure, readOnly, script(outside), messages.DecisionDenied, ask, "rejected by user", messages.ErrRejected},
	} {
		t.Run(name, func(t *testing.T) {
			p := &person{}
			p.will(c.answer, c.answer)
			session := openSession(t, rt, execbus.SessionOptions{Dir: t.TempDir(), Sandbox: &c.sandbox, Approver: p,
				Approval: messages.ApprovalPolicy{Mode: c.mode}})
			result, err := session.Exec(patient(t), c.command)
			switch {
			case c.err != "":
				wantError(t, err, c.err, c.output)
				if said := err.Error(); !strings.HasPrefix(said, "exec: ") { // and names no process that there never was
					t.Errorf("it begins with something else: %q", said)
				}
			case err != nil:
				t.Error(err)
			case !strings.Contains(result.OutputText(), c.output):
				t.Errorf("the output is %q", result.OutputText())
			}
			if asked := p.questions(); len(asked) != c.asked {
				t.Errorf("asked about %+v", asked)
			}
			if err := session.Close(patient(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestARuleThatAPersonMakesHoldsInEverySessionAndTheNextTime(t *testing.T) {
	t.Parallel()
	rules := t.TempDir()
	options := execbus.Options{Rules: []execbus.RuleLayer{{Dir: rules, Trusted: true}}, AmendmentFile: filepath.Join(rules, "default.rules")}
	p := &person{}
	untrusted := execbus.SessionOptions{Dir: t.TempDir(), Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}, Approver: p}
	command := messages.ExecCommand{Argv: []string{"touch", "it"}}
	rt := newRuntime(t, options)
	one, two := openSession(t, rt, untrusted), openSession(t, rt, untrusted)
	p.will(messages.DecisionApprovedWithRule)
	exec(t, one, command)
	asked := p.questions()
	if len(asked) != 1 || !slices.Equal(asked[0].Amendment, []string{"touch", "it"}) || !slices.ContainsFunc(asked[0].Choices, func(c messages.Choice) bool {
		return c.Kind == messages.DecisionApprovedWithRule && strings.Contains(c.Remembers, options.AmendmentFile)
	}) {
		t.Fatalf("asked %+v", asked)
	}
	exec(t, one, command)
	exec(t, two, command)
	text, err := os.ReadFile(options.AmendmentFile)
	if want := `prefix_rule(pattern=["touch", "it"], decision="allow")` + "\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	exec(t, openSession(t, newRuntime(t, options), untrusted), command)
	if asked := p.questions(); len(asked) > 0 {
		t.Errorf("asked again: %+v", asked)
	}
	if _, err := one.Exec(patient(t), messages.ExecCommand{Argv: []string{"touch", "another"}}); !errors.Is(err, messages.ErrRejected) {
		t.Errorf("what the rule does not allow: %v", err)
	}
}

func TestARuleFileForbids(t *testing.T) {
	t.Parallel()
	rules := t.TempDir()
	for name, text := range map[string]string{
		"a.rules": `prefix_rule(pattern=["echo"], decision="forbidden", justification="it is too loud")`,
		"b.rules": "prefix_rule(",
	} {
		if err := os.WriteFile(filepath.Join(rules, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rt := newRuntime(t, execbus.Options{Rules: []execbus.RuleLayer{{Dir: rules, Trusted: true}}})
	if errs := rt.RuleErrors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "b.rules:1") {
		t.Errorf("the errors are %v", errs)
	}
	session := openSession(t, rt, execbus.SessionOptions{})
	for _, command := range []messages.ExecCommand{{Argv: []string{"echo", "hi"}}, script("true && echo hi")} {
		_, err := session.Exec(patient(t), command)
		wantError(t, err, messages.ErrRejected, "too loud")
	}
	exec(t, session, messages.ExecCommand{Argv: []string{"true"}})
}

func TestAnotherSubscriberMayAnswer(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindApprovalRequested}}) // sees it, and does nothing
	all := watch(t, session, execbus.Watch{})
	answered := make(chan error, 1)
	go func() {
		_, err := session.Exec(patient(t), unknown())
		answered <- err
	}()
	await[messages.ApprovalRequested](t, all, nil)
	waiting, err := session.Questions(patient(t))
	if err != nil || len(waiting) != 1 {
		t.Fatalf("%v, %v", waiting, err)
	}
	if err := session.Decide(patient(t), messages.Decide{Question: waiting[0].ID, Decision: messages.Decision{Kind: messages.DecisionApprovedForSession}}); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	wantError(t, session.Decide(patient(t), messages.Decide{Question: waiting[0].ID, Decision: messages.Decision{Kind: messages.DecisionDenied}}), messages.ErrAlreadyResolved)
	granted, err := session.Grants(patient(t))
	if err != nil || len(granted) != 1 {
		t.Fatalf("%v, %v", granted, err)
	}
	if err := session.Revoke(patient(t), messages.RevokeGrant{Grant: granted[0].ID}); err != nil {
		t.Error(err)
	}
	wantError(t, session.Revoke(patient(t), messages.RevokeGrant{Grant: granted[0].ID}), messages.ErrUnknownGrant)
}

func TestWithNobodyToAsk(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	watch(t, session, execbus.Watch{}) // everything is nobody's duty
	_, err := session.Exec(patient(t), unknown())
	wantError(t, err, messages.ErrRejected, "nobody is there to ask")
	wantHint(t, err, "SessionOptions.Approver", "Session.Decide")
	_, err = session.Run(patient(t), messages.RunCommand{Argv: []string{"touch", "it"}})
	wantError(t, err, messages.ErrRejected, "nobody is there")
}

func TestACallerThatGivesUpIsNotAskedFor(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	ears := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindApprovalRequested, messages.KindApprovalResolved}})
	for name, call := range map[string]func(context.Context) error{
		"exec":  func(ctx context.Context) error { _, err := session.Exec(ctx, unknown()); return err },
		"start": func(ctx context.Context) error { _, err := session.Start(ctx, unknown()); return err },
		"spawn": func(ctx context.Context) error {
			_, err := session.Executor().Spawn(ctx, execbus.SpawnRequest{Argv: unknown().Argv, Dir: "/"})
			return err
		},
	} {
		ctx, cancel := context.WithCancel(patient(t))
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		asked := await[messages.ApprovalRequested](t, ears, nil)
		cancel()
		if err := <-ended; !errors.Is(err, messages.ErrCancelled) {
			t.Errorf("%s: %v", name, err)
		}
		if resolved := await[messages.ApprovalResolved](t, ears, nil); resolved.Question != asked.ID || resolved.Decision != "" {
			t.Errorf("%s: %+v", name, resolved)
		}
	}
	eventually(t, "nothing is left", func() bool { return len(listed(t, session)) == 0 })
}

func TestMalformedPermissionsAreNoCommand(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	all := watch(t, session, execbus.Watch{})
	for field, p := range map[string]messages.CommandPolicy{
		"sandboxPermissions":    {SandboxPermissions: "all"},
		"additionalPermissions": {SandboxPermissions: messages.PermissionsWithAdditional},
	} {
		command := messages.ExecCommand{Argv: []string{"true"}, CommandPolicy: p}
		_, err := session.Exec(patient(t), command)
		wantError(t, err, messages.ErrInvalidRequest, field)
	}
	exec(t, session, messages.ExecCommand{Argv: []string{"true"}, Call: "first"})
	if event, err := all.Next(patient(t)); err != nil || event.From().Call != "first" {
		t.Errorf("%v, %v", event, err)
	}
}

func TestShutdownWithAQuestionOpen(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	rt := newRuntime(t, execbus.Options{})
	session := openSession(t, rt, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted},
		Approver: execbus.ApproverFunc(func(ctx context.Context, _ messages.Question) (messages.Decision, error) {
			close(asked)
			<-ctx.Done()
			return messages.Decision{}, ctx.Err()
		})})
	ended := make(chan error, 1)
	go func() {
		_, err := session.Exec(patient(t), unknown())
		ended <- err
	}()
	select {
	case <-asked:
	case err := <-ended:
		t.Fatalf("nobody was asked: %v", err)
	}
	if err := rt.Shutdown(patient(t)); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the command ran")
	}
}

func TestTheProgramThatWasAskedAboutIsTheOneThatRuns(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	tool := func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho "+filepath.Base(dir)), 0o700); err != nil {
			t.Error(err)
		}
	}
	tool(second)
	session := newSession(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted},
		Environment: messages.EnvironmentPolicy{Set: map[string]string{"PATH": first + ":" + second + ":" + os.Getenv("PATH")}},
		Approver: execbus.ApproverFunc(func(_ context.Context, q messages.Question) (messages.Decision, error) {
			if q.Program != filepath.Join(second, "tool") {
				t.Errorf("the question is about %q", q.Program)
			}
			tool(first)
			return messages.Decision{Kind: messages.DecisionApproved}, nil
		})})
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecStarted}})
	result := exec(t, session, messages.ExecCommand{Argv: []string{"tool"}})
	if result.OutputText() != filepath.Base(second)+"\n" {
		t.Errorf("it was %q, want the one in %q", result.OutputText(), second)
	}
	if started := await[messages.ExecStarted](t, events, nil); !slices.Equal(started.Argv, []string{"tool"}) {
		t.Errorf("started as %q", started.Argv)
	}
}

func TestAProgramThatComesLaterIsNotTheOneThatWasAskedAbout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	session := newSession(t, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted},
		Environment: messages.EnvironmentPolicy{Set: map[string]string{"PATH": dir + ":" + os.Getenv("PATH")}},
		Approver: execbus.ApproverFunc(func(_ context.Context, q messages.Question) (messages.Decision, error) {
			t.Errorf("asked about %q, found as %q", q.Argv, q.Program)
			return messages.Decision{Kind: messages.DecisionApproved}, os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho planted"), 0o700)
		})})
	result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"tool"}})
	if !errors.Is(err, messages.ErrNoSuchProgram) {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestUpdateEnvironmentChangesThePolicies(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	dangerous := script("rm -rf ./nothing && echo done")
	_, err := session.Exec(patient(t), dangerous)
	wantError(t, err, messages.ErrRejected)
	readOnly := messages.SandboxPolicy{Type: messages.SandboxReadOnly}
	if err := session.Executor().UpdateEnvironment(patient(t), messages.UpdateEnvironment{Sandbox: &readOnly}); err != nil {
		t.Fatal(err)
	}
	if _, err = session.Exec(patient(t), unknown()); err == nil {
		records, err := session.Records(patient(t))
		if err != nil || !slices.ContainsFunc(records, func(p messages.ProcessInfo) bool { return p.Enforced != nil }) {
			t.Errorf("%+v, %v", records, err)
		}
	} else { // nothing can be confined here
		wantError(t, err, messages.ErrUnsupported, "sandbox")
	}
	bad := messages.ApprovalPolicy{Mode: "sometimes"}
	wantError(t, session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Approval: &bad}), messages.ErrInvalidRequest, "sometimes")
}

func TestEachDecisionIsLoggedWithoutTheCommand(t *testing.T) {
	t.Parallel()
	var log logged
	rt := newRuntime(t, execbus.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	session := openSession(t, rt, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	exec(t, session, messages.ExecCommand{Argv: []string{"echo", "secret"}})
	_, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"sleep", "0secret"}})
	wantError(t, err, messages.ErrRejected)
	if err := rt.Shutdown(patient(t)); err != nil { // everything is written then
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{"level=DEBUG msg=\"decision about a command\"", "allowed=true source=policy",
		"level=INFO msg=\"decision about a command\"", "allowed=false source=absence"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is in the log %d times:\n%s", want, strings.Count(text, want), text)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("the log tells what was to run:\n%s", text)
	}
}

// logged is a log that several goroutines write.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
