package denial_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// tools are the programs in the tables that are no part of every system. Rows with those that are slow, or that ask for a name or an
// account, are only compared with what was recorded.
var (
	tools    = regexp.MustCompile(`\b(git|gcc|make|python3|node|perl|sqlite3|unzip|zip|gzip|tar|vim|curl|jq|bc|awk|sed|ssh-keygen|strace|timeout|xargs|split|find|diff)\b`)
	recorded = regexp.MustCompile(`\b(npm|pip|go|java|docker|cargo|psql|ssh|wget|mount|date|dmesg|sysctl|chroot|unshare|kill|ping)\b|example\.com|github\.com|93\.184`)
)

// The commands of the tables are run, at both levels: none that fails by itself is called denied, and of those that are denied none is
// missed but the ones that the table names.
func TestLive(t *testing.T) {
	for _, level := range []messages.Assurance{messages.AssuranceIsolated, messages.AssuranceConfined} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			if probed := sandbox.Probe(); !probed.Level.AtLeast(level) {
				t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
			}
			spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: level == messages.AssuranceConfined})
			if err != nil {
				t.Fatal(err)
			}
			rt, err := execbus.Start(execbus.Options{Spawner: spawner})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := rt.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
			for table, denied := range map[string]bool{"live-ordinary.txt": false, "live-denied.txt": true} {
				runs := 0
				for name, missed := range rows(t, table) {
					if !runnable(name) {
						continue
					}
					runs++
					result := run(t, rt, level, name)
					if denied && !missed && result.Denial == nil || !denied && result.Denial != nil {
						t.Errorf("%s: %v, %v\n%s", name, result.Status, result.Denial, result.OutputText())
					}
				}
				t.Logf("%s: %d commands were run", table, runs)
			}
		})
	}
}

// rows are the commands of a table, and whether one is missed at some level.
func rows(t *testing.T, table string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/" + table)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, block := range strings.Split("\n"+string(text), "\n=== ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		all[name] = all[name] || strings.Contains(rest, "\nmissed: ")
	}
	return all
}

// runnable reports whether the tools that a command needs are here.
func runnable(command string) bool {
	for _, tool := range tools.FindAllString(command, -1) {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	for _, path := range needed.FindAllString(command, -1) {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return !recorded.MatchString(command)
}

// needed are paths that exist on most machines.
var needed = regexp.MustCompile(`/etc/(hostname|hosts|passwd|group)\b|/opt\b|/usr/local/bin\b`)

// run runs a command in a directory of its own, which is all that it can write.
func run(t *testing.T, rt *execbus.Runtime, level messages.Assurance, command string) *messages.Result {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(home, ".bashrc"), filepath.Join(dir, "s", "f")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, archive := range [][]string{{"tar", "cf", "t.tar", "s"}, {"zip", "-qr", "t.zip", "s"}} {
		c := exec.Command(archive[0], archive[1:]...)
		c.Dir = dir
		_ = c.Run() // without the tool nothing needs its archive
	}
	if err := os.RemoveAll(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: dir, LeastAssurance: level, Approval: messages.ApprovalPolicy{Mode: messages.ApproveNever},
		Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"bash", "-c", command}, Yield: new(messages.MaxYield),
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"HOME": home, "TMPDIR": dir, "LC_ALL": "C"}}})
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	if result.Running {
		t.Fatalf("%s still runs", command)
	}
	if err := session.Close(ctx); err != nil {
		t.Error(err)
	}
	return result
}
