package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// executed runs a test at both levels, and with nothing but the sight of executions.
func executed(t *testing.T, test func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string)) {
	for _, level := range []messages.Assurance{messages.AssuranceNone, messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			spawner := newSpawner(t, sandbox.Options{WithoutNamespaces: level == messages.AssuranceConfined})
			l, dir := bash(false, ""), t.TempDir()
			if level != messages.AssuranceNone {
				c := workspace(dir)
				c.Least = level
				l.Sandbox = enclose(t, spawner, c)
			}
			l.Merged, l.Dir = true, dir
			l.Executions = &ptyio.Executions{Unconfined: level == messages.AssuranceNone}
			enforced, err := spawner.Can(l)
			if err != nil {
				t.Fatal(err)
			}
			if !enforced.Executions {
				t.Skipf("skipped: %v", enforced)
			}
			test(t, spawner, l, dir)
		})
	}
}

// judge notes what it is asked.
type judge struct {
	mu    sync.Mutex
	asked []ptyio.Execution
	allow func(ptyio.Execution) bool
}

func (j *judge) judge(_ context.Context, e ptyio.Execution, _ func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, e)
	return j.allow != nil && j.allow(e)
}

// executing runs a script to its end, and returns what it printed.
func executing(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, script string, arguments ...string) string {
	t.Helper()
	l.Argv = append([]string{"bash", "-c", script, "bash"}, arguments...)
	_, r := run(t, spawner, l)
	r.awaitEnd(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(r.output.String())
}

func TestAnExecutionIsJudgedByItsNames(t *testing.T) {
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		j := &judge{}
		l.Executions.Names, l.Executions.Judge = []string{"touch"}, j.judge
		if err := os.Symlink("/usr/bin/touch", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		got := executing(t, spawner, l, `touch a; /bin/touch b; ./link c; (exec -a touch cat /dev/null); /bin/echo good; ls; true`)
		if strings.Count(got, "Permission denied") != 4 || !strings.Contains(got, "good") || !strings.HasSuffix(got, "link") {
			t.Error(got)
		}
		if len(j.asked) != 4 {
			t.Fatalf("%+v", j.asked)
		}
		for i, want := range []ptyio.Execution{
			{Program: "/usr/bin/touch", Resolved: "/usr/bin/touch", Argv: []string{"touch", "a"}},
			{Program: "/bin/touch", Resolved: "/usr/bin/touch", Argv: []string{"/bin/touch", "b"}},
			{Program: "./link", Resolved: "/usr/bin/touch", Argv: []string{"./link", "c"}},
			{Program: "/usr/bin/cat", Resolved: "/usr/bin/cat", Argv: []string{"touch", "/dev/null"}},
		} {
			e := j.asked[i]
			if e.Program != want.Program || e.Resolved != want.Resolved || strings.Join(e.Argv, " ") != strings.Join(want.Argv, " ") || e.Dir != dir ||
				e.Unread != "" || e.PID <= 0 || e.Parent <= 0 {
				t.Errorf("%+v", e)
			}
		}
	})
}
