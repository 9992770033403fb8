//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

const ungroupedVariable = "EXECBUS_TEST_UNGROUPED"

// ungrouped runs a test in a process of its own that can make no control groups. It returns true in that process.
func ungrouped(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ungroupedVariable) != "" {
		for _, m := range sandbox.Probe().Mechanisms {
			if m.Name == "control groups" && m.Works {
				t.Skip("skipped: control groups are delegated to this user, and cannot be hidden from a test")
			}
		}
		return true
	}
	command := exec.Command("sh", "-c", `exec "$0" "$@"`)
	if os.Geteuid() == 0 {
		command = exec.Command("unshare", "--mount", "sh", "-c", `for type in cgroup cgroup2; do umount -a -t $type || exit 98; done; exec "$0" "$@"`)
	}
	command.Args = append(command.Args, self(t), "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), ungroupedVariable+"=1")
	out, err := command.CombinedOutput()
	switch {
	case command.ProcessState.ExitCode() == 98:
		t.Skipf("skipped: control groups cannot be hidden from a test: %s", out)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	default:
		t.Logf("%s", out)
	}
	return false
}

// processes bounds the processes of the commands below.
var processes = messages.Limits{Processes: 40}

// bounded returns an isolated launch under that limit. It skips the test if the kernel does not enforce the limit.
func bounded(t *testing.T, script string) (ptyio.Spawner, ptyio.Launch) {
	t.Helper()
	spawner, e := isolating(t, workspace(t.TempDir()))
	l := bash(false, script)
	l.Sandbox, l.Limits = e, processes
	enforced, err := spawner.Can(l)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	if text := enforced.String(); !strings.Contains(text, "pid_max of the namespace") || !strings.Contains(text, "40 to 340") {
		t.Errorf("what is enforced is told as %s", text)
	}
	return spawner, l
}

func TestAForkBombInANamespace(t *testing.T) {
	if !ungrouped(t) {
		return
	}
	spawner, l := bounded(t, "trap '' TERM HUP; bomb() { bomb | bomb & }; bomb; sleep 1000")
	other, otherRecord := run(t, newSpawner(t, sandbox.Options{}), bash(false, "while read -r line; do echo $line; done"))
	_, record := run(t, spawner, l)
	for i := range 20 {
		other.Write(fmt.Appendf(nil, "answer %d\n", i), time.Time{}, func(ptyio.Taken, error) {})
		otherRecord.awaitOutput(t, fmt.Sprintf("answer %d\n", i))
	}
	exited := awaitEvent[ptyio.Exited](t, record)
	report := record.awaitEnd(t)
	if exited.Limit != messages.LimitProcesses || len(report.Survivors) > 0 || !report.Airtight {
		t.Errorf("%+v, %+v", exited, report)
	}
	other.EndTree(0)
	otherRecord.awaitEnd(t)
}

// The kernel itself enforces the bound, even if nothing watches.
func TestTheNumbersOfANamespaceAreBounded(t *testing.T) {
	if !ungrouped(t) {
		return
	}
	before, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		t.Fatal(err)
	}
	spawner, l := bounded(t, "cat /proc/sys/kernel/pid_max; echo 4000000 >/proc/sys/kernel/pid_max; for i in $(seq 30); do sleep 1000 & done; jobs -r | wc -l; exit 7")
	l.Merged = true
	_, record := run(t, spawner, l)
	record.awaitEnd(t)
	exited := awaitEvent[ptyio.Exited](t, record)
	said := record.output.String()
	if exited.Limit != "" || exited.Status != messages.StatusExited(7) || !strings.HasPrefix(said, "341\n") ||
		!strings.Contains(said, "Read-only") || !strings.HasSuffix(said, "30\n") {
		t.Errorf("%+v: %s", exited, said)
	}
	if after, err := os.ReadFile("/proc/sys/kernel/pid_max"); err != nil || string(after) != string(before) {
		t.Errorf("of the machine %s has become %s, %v", before, after, err)
	}
}

func TestALimitForProcessesNeedsANamespaceWhereThereAreNoGroups(t *testing.T) {
	if !ungrouped(t) {
		return
	}
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for name, e := range map[string]ptyio.Enclosure{"none": nil, "confined": enclose(t, spawner, workspace(t.TempDir()))} {
			l := bash(tty, "true")
			l.Sandbox, l.Limits, l.Events = e, processes, newRecorder().receive
			_, predicted := spawner.Can(l)
			_, err := spawner.Spawn(t.Context(), l)
			if !errors.Is(err, messages.ErrUnsupported) || predicted == nil || predicted.Error() != err.Error() {
				t.Fatalf("%s: %v, and predicted was %v", name, err, predicted)
			}
			for _, out := range []string{"Linux 6.14", "a sandbox that isolates it", "Delegate=yes", "leave the limit out"} {
				if !strings.Contains(err.Error(), out) {
					t.Errorf("%s: %q does not say: %s", name, err, out)
				}
			}
		}
	})
}

// A session that demands no level gets the strongest one, which holds the limit.
func TestALimitForProcessesIsHeldWhereNoLevelIsDemanded(t *testing.T) {
	if !ungrouped(t) {
		return
	}
	for _, policy := range []messages.SandboxType{messages.SandboxReadOnly, messages.SandboxWorkspaceWrite} {
		isolatedBoth(t, func(t *testing.T, tty bool) {
			spawner, _ := isolating(t, workspace(t.TempDir()))
			l := bash(tty, "cat /proc/sys/kernel/pid_max")
			l.Sandbox, l.Limits = enclose(t, spawner, ptyio.Confinement{Dir: t.TempDir(), Policy: messages.SandboxPolicy{Type: policy}}), processes
			if _, err := spawner.Can(l); err != nil {
				t.Skipf("skipped: %v", err)
			}
			_, record := run(t, spawner, l)
			enforced := awaitEvent[ptyio.Spawned](t, record).Enforced
			record.awaitEnd(t)
			if said := strings.TrimSpace(record.output.String()); said != "341" || enforced == nil || enforced.Level != messages.AssuranceIsolated ||
				!slices.Contains(enforced.Mechanisms, "pid_max of the namespace") {
				t.Errorf("%s: %s under %v", policy, said, enforced)
			}
		})
	}
}
