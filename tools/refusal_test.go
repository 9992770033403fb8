package tools_test

import (
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

// A command whose sandbox cannot be enforced is refused. The answer names what is missing and the one setting that accepts less.
func TestARefusalNamesTheSettingThatAcceptsLess(t *testing.T) {
	best := messages.AssuranceNone
	if sandbox.Probe().Level != messages.AssuranceNone {
		best = messages.AssuranceConfined
	}
	for setting, want := range map[string]string{
		"--level": "with the server's setting --level " + string(best) + "; tell the user what is missing.",
		"":        "Only the user can accept less; tell the user what is missing.",
	} {
		spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: true})
		if err != nil {
			t.Fatal(err)
		}
		runtime, err := execbus.Start(execbus.Options{Spawner: spawner})
		if err != nil {
			t.Fatal(err)
		}
		options := tools.Options{AssuranceSetting: setting, Session: execbus.SessionOptions{NoLoginShell: true, Dir: t.TempDir(),
			Sandbox: &messages.SandboxPolicy{}, LeastAssurance: messages.AssuranceIsolated}}
		session, err := runtime.OpenSession(options.Session)
		if err != nil {
			t.Fatal(err)
		}
		answer := call(t, tools.New(session, options), "exec_command", `{"cmd":"true"}`)
		if answer.Err == nil || answer.Err.Enforceable != best {
			t.Errorf("%+v", answer)
		}
		expect.Contains(t, answer.Text, "exec_command for `true` failed: ", "Missing:", want)
		if err := runtime.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
