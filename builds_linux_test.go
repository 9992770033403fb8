package execbus_test

import (
	"bytes"
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// ordinary are rules as people have them. They name most of the programs that the builds below execute, and none of what these are to do.
const ordinary = `prefix_rule(["git", "push"], decision="forbidden")
prefix_rule(["curl"], decision="prompt")
prefix_rule(["rm", "-rf", "/"], decision="forbidden")
prefix_rule(["make", "deploy"], decision="prompt")
prefix_rule(["npm", "publish"], decision="forbidden")
prefix_rule(["node", "--inspect"], decision="prompt")
prefix_rule([["python", "python3"], "-m", "http.server"], decision="forbidden")
prefix_rule([["cc", "gcc", "as"], "-v"], decision="prompt")
`

// builds are scripts, by the program that they need, which print what they have built.
var builds = map[string]string{
	"make": `i=0; while [ $i -lt 8 ]; do echo "int f$i(void) { return $i; }" > f$i.c; i=$((i+1)); done
		{ echo '#include <stdio.h>'; for i in 0 1 2 3 4 5 6 7; do echo "int f$i(void);"; done; echo 'int main(void) { printf("%d ", f0()+f1()+f2()+f3()+f4()+f5()+f6()+f7()); return 0; }'; } > main.c
		printf 'all: it\n\t@./it\nit: main.o f0.o f1.o f2.o f3.o f4.o f5.o f6.o f7.o\n\t@gcc -o $@ $^\n%%.o: %%.c\n\t@gcc -c -o $@ $<\n' > Makefile
		make -s -j8 && make -s -j8 && rm *.o && cksum it`,
	"npm": `printf '{"scripts":{"prebuild":"echo before","build":"node -e \\"console.log(6*7)\\" && sh -c \\"echo built > out\\"","postbuild":"cat out"}}' > package.json
		npm run -s build`,
	"/usr/bin/python3": `/usr/bin/python3 -m venv --without-pip v && mkdir p && echo 'print("in a venv")' > p/__main__.py && v/bin/python -m compileall -q p && v/bin/python -m p`,
}

func TestBuildsAreTheSameWhereRulesHoldForWhatTheyExecute(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "it.rules")
	if err := os.WriteFile(rules, []byte(ordinary), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, execbus.Options{Rules: []execbus.RuleLayer{{Files: []string{rules}, Trusted: true}}})
	for program, script := range builds {
		if _, err := osexec.LookPath(program); err != nil {
			t.Logf("skipped: %s is not installed", program)
			continue
		}
		t.Run(filepath.Base(program), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			build := func(mode messages.ExecutionMode) (*messages.RunResult, *messages.Executions) {
				t.Helper()
				work := filepath.Join(dir, "work") // the same, since programs contain it
				if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
					t.Fatal(err)
				}
				session := openSession(t, rt, execbus.SessionOptions{Dir: work, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite},
					LeastAssurance: messages.AssuranceConfined, Executions: mode, Environment: messages.EnvironmentPolicy{Set: map[string]string{"HOME": work}}})
				result, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"/bin/sh", "-c", script}, Merged: true})
				if errors.Is(err, messages.ErrUnsupported) {
					t.Skipf("skipped: %v", err)
				} else if err != nil {
					t.Fatal(err)
				}
				seen, err := session.Executions(patient(t), result.Process)
				if err != nil {
					t.Fatal(err)
				}
				return result, seen
			}
			bare, _ := build(messages.ExecutionsOff)
			ours, seen := build(messages.ExecutionsEnforce)
			if bare.ExitCode != 0 {
				t.Skipf("skipped: it does not work here: %s", bare.Stdout)
			}
			if ours.ExitCode != 0 || len(bare.Stdout) == 0 || !bytes.Equal(bare.Stdout, ours.Stdout) {
				t.Errorf("code %d: %s\nwith rules code %d: %s", bare.ExitCode, bare.Stdout, ours.ExitCode, ours.Stdout)
			}
			if seen.Mode != messages.ExecutionsEnforce || seen.Total < 4 || seen.Refused > 0 {
				t.Errorf("%+v", seen)
			}
		})
	}
}
