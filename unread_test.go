package execbus_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// TestAShellOfAnyonesRunsNothing: no rule knows the shells that are links in a directory of anyone's, or that have unusual names.
func TestAShellOfAnyonesRunsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "default.rules")
	if err := os.WriteFile(file, []byte(`prefix_rule(pattern = ["touch"], decision = "forbidden")`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, execbus.Options{Rules: []rules.Layer{{Files: []string{file}, Trusted: true}}})
	session := openSession(t, rt, execbus.SessionOptions{Dir: dir, Environment: messages.EnvironmentPolicy{Set: map[string]string{"PATH": dir + ":/usr/bin:/bin"}}})
	for _, name := range []string{"yash", "ksh93", "bash", "anysh"} {
		if err := os.Symlink("/bin/sh", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		for _, shell := range []string{name, filepath.Join(dir, name), "./" + name, "/bin/.." + filepath.Join(dir, name)} {
			command := script("touch it")
			command.Shell = shell
			if _, err := session.Exec(patient(t), command); err == nil {
				t.Errorf("%s ran it", shell)
			}
		}
	}
	command := script("true")
	command.Shell = filepath.Join(dir, "yash")
	_, err := session.Exec(patient(t), command)
	wantError(t, err, messages.ErrInvalidRequest, "bash, zsh, sh", "busybox", "/usr/bin")
	if _, err := os.Stat(filepath.Join(dir, "it")); err == nil {
		t.Error("a forbidden command ran")
	}
}

// TestACommandThatHidesWhatItRuns meets rules that forbid: it is asked about, or the session says what happens, and the decision says it.
func TestACommandThatHidesWhatItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "default.rules")
	if err := os.WriteFile(file, []byte(`prefix_rule(pattern = ["touch"], decision = "forbidden")`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, execbus.Options{Rules: []rules.Layer{{Files: []string{file}, Trusted: true}}})
	hidden := script(`x='touch it'; eval "$x"; echo done`)
	for name, c := range map[string]struct {
		mode    messages.ApprovalMode
		answer  messages.RulesUnreadable
		person  bool
		command messages.ExecCommand
		runs    bool
		source  messages.DecisionSource
		unread  bool
	}{
		"never":                   {messages.ApproveNever, "", true, hidden, true, messages.DecidedByPolicy, true},
		"never, reject":           {messages.ApproveNever, messages.UnreadableReject, true, hidden, false, messages.DecidedByPolicy, true},
		"nobody":                  {"", "", false, hidden, true, messages.DecidedByAbsence, true},
		"nobody, reject":          {"", messages.UnreadableReject, false, hidden, false, messages.DecidedByAbsence, true},
		"somebody":                {"", "", true, hidden, true, messages.DecidedByPerson, true},
		"written out":             {"", "", true, script("sh <<'E'\necho it\\'s\ntouch it\necho it\\'s\nE"), false, messages.DecidedByRule, false},
		"nothing of either":       {"", messages.UnreadableReject, false, script(`x=y; echo "$x"`), true, messages.DecidedByPolicy, false},
		"by another's input":      {"", messages.UnreadableReject, true, script("echo 'touch it' | sh"), false, messages.DecidedByRule, false},
		"untrusted, nobody there": {messages.ApproveUntrusted, "", false, hidden, false, messages.DecidedByAbsence, true},
	} {
		t.Run(name, func(t *testing.T) {
			options := execbus.SessionOptions{Dir: t.TempDir(), Approval: messages.ApprovalPolicy{Mode: c.mode}, RulesUnreadable: c.answer}
			if c.person {
				p := &person{}
				p.will(messages.DecisionApproved)
				options.Approver = p
			}
			session := openSession(t, rt, options)
			decisions := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindToolDecision}})
			if _, err := session.Exec(patient(t), c.command); (err == nil) != c.runs {
				t.Errorf("running it: %v", err)
			}
			d := await[messages.ToolDecision](t, decisions, nil)
			if d.Allowed != c.runs || d.Source != c.source || (d.Unread != "") != c.unread {
				t.Errorf("the decision is %+v", d)
			}
			if err := session.Close(patient(t)); err != nil {
				t.Error(err)
			}
		})
	}
	_, err := rt.OpenSession(execbus.SessionOptions{RulesUnreadable: "perhaps"})
	wantError(t, err, messages.ErrInvalidRequest, "run or reject")
}
