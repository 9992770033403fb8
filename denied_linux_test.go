package execbus_test

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// levels runs a test with the real sandbox: where commands are isolated, and where they are confined.
func levels(t *testing.T, test func(t *testing.T, rt *execbus.Runtime, level messages.Assurance)) {
	t.Helper()
	for _, level := range []messages.Assurance{messages.AssuranceIsolated, messages.AssuranceConfined} {
		t.Run(string(level), func(t *testing.T) {
			if probed := sandbox.Probe(); !probed.Level.AtLeast(level) {
				t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
			}
			spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: level == messages.AssuranceConfined})
			if err != nil {
				t.Fatal(err)
			}
			test(t, newRuntime(t, execbus.Options{Spawner: spawner}), level)
		})
	}
}

// workshop is a session in a directory, which is all that its commands can write, and the person who is asked.
func workshop(t *testing.T, rt *execbus.Runtime, level messages.Assurance, dir string, mode messages.ApprovalMode) (*execbus.Session, *person) {
	t.Helper()
	p := &person{}
	return openSession(t, rt, execbus.SessionOptions{Dir: dir, LeastAssurance: level, Approver: p, Approval: messages.ApprovalPolicy{Mode: mode},
		Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}}), p
}

// repository is a directory with a repository that has one commit; the test is skipped without git.
func repository(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	gits(t, dir, "init", "-q")
	gits(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
	return dir
}

// identity lets git commit.
var identity = []string{"-c", "user.name=n", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}

// gits runs git without a sandbox.
func gits(t *testing.T, dir string, arguments ...string) (said string) {
	t.Helper()
	if _, err := osexec.LookPath("git"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	git := osexec.Command("git", append(identity, arguments...)...)
	git.Dir = dir
	text, err := git.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", arguments, err, text)
	}
	return string(text)
}

// commit is a commit of everything in a sandbox.
func commit(message string) messages.ExecCommand {
	return script("git add -A && git " + strings.Join(identity, " ") + " commit -qm " + message + " && echo committed")
}

// granted is the same command with the grant of a denial.
func granted(t *testing.T, c messages.ExecCommand, d *messages.Denial) messages.ExecCommand {
	t.Helper()
	if d == nil || d.Grant.Empty() {
		t.Fatalf("there is nothing to grant: %v", d)
	}
	c.SandboxPermissions, c.AdditionalPermissions = messages.PermissionsWithAdditional, messages.Clone(d.Grant)
	return c
}

// wantDenial checks that the sandbox stopped a command for certain, and which permission would help.
func wantDenial(t *testing.T, result *messages.Result, grant string) *messages.Denial {
	t.Helper()
	d := result.Denial
	if d == nil || d.FromText || d.Grant.String() != "write "+grant {
		t.Fatalf("denial %v, want a grant for %s; output %q", d, grant, result.OutputText())
	}
	return d
}

func TestACommitNamesItsGrantAndWorksWithIt(t *testing.T) {
	levels(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		dir := repository(t)
		session, p := workshop(t, rt, level, dir, messages.ApproveOnRequest)
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("one\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if level == messages.AssuranceConfined { // which protects no names
			if result := exec(t, session, commit("second")); !strings.Contains(result.OutputText(), "committed") {
				t.Fatalf("%q", result.OutputText())
			}
		} else {
			denial := wantDenial(t, exec(t, session, commit("second")), filepath.Join(dir, ".git"))
			p.will(messages.DecisionApproved)
			result := exec(t, session, granted(t, script("touch "+filepath.Dir(dir)+"/elsewhere; "+commit("second").Script), denial))
			if !strings.Contains(result.OutputText(), "committed") || !strings.Contains(result.OutputText(), "elsewhere") {
				t.Errorf("%q", result.OutputText())
			}
			if asked := p.questions(); len(asked) != 1 || asked[0].Unsandboxed || asked[0].Additional.String() != denial.Grant.String() {
				t.Errorf("asked %+v", asked)
			}
			wantDenial(t, exec(t, session, script("echo x >.git/hooks/pre-commit || touch .git/hooks/pre-commit")), filepath.Join(dir, ".git"))
		}
		if said := gits(t, dir, "log", "--format=%s"); said != "second\nfirst\n" {
			t.Errorf("%q", said)
		}
	})
}

func TestASecondAttemptCommitsOutsideOfTheSandbox(t *testing.T) {
	levels(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		dir, elsewhere := repository(t), t.TempDir()
		session, p := workshop(t, rt, level, dir, messages.ApproveOnFailure)
		command, rule := commit("second --allow-empty"), filepath.Join(dir, ".git")
		if level == messages.AssuranceConfined {
			command, rule = script("touch "+elsewhere+"/new && echo committed"), elsewhere
		}
		p.will(messages.DecisionDenied)
		_, err := session.Exec(patient(t), command)
		if failed, is := errors.AsType[*messages.Error](err); !is || failed.Code != messages.ErrRejected || failed.Denial == nil || failed.Denial.Grant.String() != "write "+rule {
			t.Errorf("with a refusal: %v", err)
		}
		p.questions()
		p.will(messages.DecisionApproved)
		result := exec(t, session, command)
		if asked := p.questions(); len(asked) != 1 || !asked[0].Retry || !asked[0].Unsandboxed || !strings.Contains(asked[0].Reason, rule) {
			t.Errorf("asked %+v", asked)
		}
		if !strings.Contains(result.OutputText(), "committed") || result.Status != messages.StatusExited(0) {
			t.Errorf("%q", result.OutputText())
		}
	})
}

func TestARepositoryIsMadeWithItsGrantOrInASecondAttempt(t *testing.T) {
	levels(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		init := script("git init -q && echo made")
		for name, c := range map[string]struct {
			mode  messages.ApprovalMode
			grant bool
		}{"grant": {messages.ApproveOnRequest, true}, "second attempt": {messages.ApproveOnFailure, false}} {
			dir := t.TempDir()
			gits(t, dir, "--version")
			session, p := workshop(t, rt, level, dir, c.mode)
			p.will(messages.DecisionApproved)
			result := exec(t, session, init)
			if c.grant && level == messages.AssuranceIsolated {
				result = exec(t, session, granted(t, init, wantDenial(t, result, filepath.Join(dir, ".git"))))
			}
			if !strings.Contains(result.OutputText(), "made") {
				t.Errorf("%s: %q", name, result.OutputText())
			}
			if asked := p.questions(); (len(asked) == 1) != (level == messages.AssuranceIsolated) {
				t.Errorf("%s: asked %+v", name, asked)
			}
			if level == messages.AssuranceIsolated {
				p.will(messages.DecisionDenied)
				if result, err := session.Exec(patient(t), script("touch .git/hooks/new")); err == nil && result.Denial == nil {
					t.Errorf("%s: the new repository is not protected", name)
				}
			}
			if err := session.Close(patient(t)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWhatMustNotBeReadNamesItsGrantAndIsReadWithIt(t *testing.T) {
	levels(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		if level == messages.AssuranceConfined {
			t.Skip("confined commands read everything")
		}
		dir := t.TempDir()
		secret := filepath.Join(dir, "secret", "key")
		if err := os.Mkdir(filepath.Dir(secret), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(secret, []byte("hidden"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := &person{}
		session := openSession(t, rt, execbus.SessionOptions{Dir: dir, Approver: p, Approval: messages.ApprovalPolicy{Mode: messages.ApproveOnRequest},
			Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly, DeniedReads: []string{filepath.Dir(secret)}}})
		read := script("cat " + secret)
		result := exec(t, session, read)
		if d := result.Denial; d == nil || d.Operation != "read" || d.Path != secret || d.Grant.String() != "read "+secret || d.FromText {
			t.Fatalf("%v; %q", d, result.OutputText())
		}
		p.will(messages.DecisionApproved)
		if result := exec(t, session, granted(t, read, result.Denial)); result.OutputText() != "hidden" {
			t.Errorf("with the grant: %v, %q", result.Denial, result.OutputText())
		}
	})
}

// A second attempt of a run gets what its reader has given, and the end of it.
func TestASecondAttemptOfARunGetsItsInput(t *testing.T) {
	levels(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		elsewhere := t.TempDir()
		session, p := workshop(t, rt, level, t.TempDir(), messages.ApproveOnFailure)
		for name, c := range map[string]struct {
			script, says string
			input        int
		}{
			"unread":   {`touch "$0/unread" && wc -c`, "10\n", 10},
			"read":     {`x=$(wc -c); touch "$0/read" && echo "$x"`, "1000000\n", 1_000_000},
			"too much": {`x=$(wc -c); touch "$0/much" && echo "$x"`, "", 2_000_000},
		} {
			p.will(messages.DecisionApproved)
			var stdout strings.Builder
			result, err := session.RunStreams(patient(t), messages.RunCommand{Argv: []string{"bash", "-c", c.script, elsewhere}},
				execbus.Streams{Stdin: strings.NewReader(strings.Repeat("x", c.input)), Stdout: &stdout})
			if err != nil || strings.TrimSpace(stdout.String()) != strings.TrimSpace(c.says) {
				t.Fatalf("%s: %+v, %v; it said %q", name, result, err, stdout.String())
			}
			if refused := c.says == ""; refused != (result.Denial != nil) || refused && !strings.Contains(result.Denial.NoRetry, "1048576") {
				t.Errorf("%s: %+v", name, result.Denial)
			}
			if asked := p.questions(); len(asked) == 0 != (c.says == "") {
				t.Errorf("%s: asked %+v", name, asked)
			}
		}
	})
}
