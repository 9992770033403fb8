package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// confinedHere skips a test if the machine cannot confine commands.
func confinedHere(t *testing.T) {
	t.Helper()
	if probed := sandbox.Probe(); probed.Level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %+v", probed)
	}
}

// runs calls "execbus run" with some arguments.
func runs(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(append([]string{"run"}, args...), streams{strings.NewReader(input), &out, &err})
	return code, out.String(), err.String()
}

func TestRunPassesOnBytesAndTheExitCode(t *testing.T) {
	confinedHere(t)
	code, out, err := runs(t, "input", "--assurance", "confined", "--cd", t.TempDir(), "--", "sh", "-c", "cat; echo wrong >&2; exit 3")
	if code != 3 || out != "input" || err != "wrong\n" {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	large := strings.Repeat("0123456789abcdef", 1<<17)
	if code, out, err := runs(t, large, "--assurance", "confined", "--", "cat"); code != 0 || out != large {
		t.Errorf("%d, %d bytes, %q", code, len(out), err)
	}
}

func TestRunConfines(t *testing.T) {
	confinedHere(t)
	work := t.TempDir()
	t.Setenv("TMPDIR", work)
	other, err := os.MkdirTemp("/var/tmp", "execbus-") // outside what is writable anyway
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	for _, c := range []struct {
		args    []string
		path    string
		written bool
	}{
		{nil, work + "/file", true},
		{[]string{"--sandbox", "read-only"}, work + "/file", false},
		{nil, other + "/file", false},
		{[]string{"--writable", other}, other + "/file", true},
		{[]string{"--sandbox", "danger-full-access"}, other + "/file", true},
	} {
		args := append([]string{"--assurance", "confined", "--cd", work}, c.args...)
		if len(c.args) > 1 && c.args[1] == "danger-full-access" {
			args = args[2:]
		}
		code, _, err := runs(t, "", append(args, "--", "sh", "-c", "echo x > "+c.path)...)
		_, missing := os.Stat(c.path)
		_ = os.Remove(c.path)
		if written := missing == nil; written != c.written || (code == 0) != c.written {
			t.Errorf("%v, %s: %d, written %v: %s", c.args, c.path, code, written, err)
		}
	}
}

func TestRunRefusesAsShellsDo(t *testing.T) {
	confinedHere(t)
	work := t.TempDir()
	script := work + "/script"
	if err := os.WriteFile(script, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		said string
		args []string
	}{
		{127, "no such program", []string{"--assurance", "confined", "--cd", work, "--", "no-such-program"}},
		{126, "permission", []string{"--assurance", "confined", "--cd", work, "--", script}},
		{137, "", []string{"--assurance", "confined", "--cd", work, "--", "sh", "-c", "kill -9 $$"}},
		{2, "policy", []string{"--sandbox", "cage", "--", "true"}},
		{2, "limit", []string{"--limit", "speed=1", "--", "true"}},
		{2, "value", []string{"--limit", "wall=1", "--", "true"}},
		{2, "name a command", []string{"--network"}},
		{1, "everything below /", []string{"--cd", "/", "--assurance", "confined", "--", "sh", "-c", "exit 1"}},
	} {
		if code, _, err := runs(t, "", c.args...); code != c.code || !strings.Contains(err, c.said) {
			t.Errorf("%v: %d, %q", c.args, code, err)
		}
	}
	if sandbox.Probe().Level != messages.AssuranceIsolated {
		if code, _, err := runs(t, "", "--assurance", "isolated", "--", "true"); code != 125 || !strings.Contains(err, "--assurance confined") {
			t.Errorf("%d, %q", code, err)
		}
	}
}

func TestRunAdvisesLessAssuranceOnlyWhereItHelps(t *testing.T) {
	said := func(subject string, enforceable messages.Assurance) string {
		var err bytes.Buffer
		(&order{config: &config{}, std: streams{err: &err}}).refused(&messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: subject, Detail: "it cannot be enforced", Enforceable: enforceable})
		return err.String()
	}
	if confined, limit := said("sandbox", messages.AssuranceConfined), said("limit processes", ""); !strings.Contains(confined, "--assurance confined accepts less") || strings.Contains(limit, "--assurance") {
		t.Errorf("%q, %q", confined, limit)
	}
	for _, m := range sandbox.Probe().Mechanisms {
		if strings.Contains(m.Enforces, "processes") && strings.HasPrefix(m.Enforces, "a limit") && m.Works {
			t.Skip("processes can be limited here")
		}
	}
	code, _, err := runs(t, "", "--assurance", "none", "--cd", t.TempDir(), "--limit", "processes=5", "--", "true")
	if code != 125 || !strings.Contains(err, "leave the limit out") || strings.Contains(err, "--assurance") {
		t.Errorf("%d, %q", code, err)
	}
}

func TestRunUnderALimit(t *testing.T) {
	confinedHere(t)
	code, out, err := runs(t, "", "--assurance", "confined", "--cd", t.TempDir(), "--limit", "output=10", "--", "sh", "-c", "echo 0123456789abc; sleep 1000")
	if code != 128+9 || out != "0123456789" || !strings.Contains(err, "limit output") {
		t.Errorf("%d, %q, %q", code, out, err)
	}
	code, _, err = runs(t, "", "--assurance", "confined", "--cd", t.TempDir(), "--limit", "wall=50ms", "--", "sleep", "1000")
	if code != 128+15 || !strings.Contains(err, "limit wall_time") {
		t.Errorf("%d, %q", code, err)
	}
}

func TestLimitsAreRead(t *testing.T) {
	var l messages.Limits
	for _, text := range []string{"output=10K", "memory=2G", "cpu=1m", "wall=1500ms", "processes=7", "files=8"} {
		if err := setLimit(&l, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	want := messages.Limits{OutputBytes: 10 << 10, MemoryBytes: 2 << 30, CPUTime: time.Minute, WallTime: 1500 * time.Millisecond, Processes: 7, OpenFiles: 8}
	if l != want {
		t.Errorf("%+v", l)
	}
	for _, text := range []string{"", "output", "output=x", "memory=99999999999G", "processes=-1", "cpu=5"} {
		if err := setLimit(&l, text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestDoctor(t *testing.T) {
	began := time.Now()
	var out, err bytes.Buffer
	code := run([]string{"doctor", "--json"}, streams{strings.NewReader(""), &out, &err})
	t.Logf("the first look took %v", time.Since(began))
	var found sandbox.Probed
	if e := json.Unmarshal(out.Bytes(), &found); e != nil || len(found.Mechanisms) == 0 || (code == 0) != (found.Level != messages.AssuranceNone) {
		t.Fatalf("%d, %s, %v", code, out.String(), e)
	}
	out.Reset()
	run([]string{"doctor"}, streams{strings.NewReader(""), &out, &err})
	named := slices.IndexFunc(found.Mechanisms, func(m sandbox.Mechanism) bool { return strings.HasPrefix(m.Enforces, "named hosts") })
	if named < 0 || found.Mechanisms[named].Works != (found.Level == messages.AssuranceIsolated) {
		t.Errorf("at %s it says of named hosts: %+v", found.Level, found.Mechanisms)
	}
	for _, m := range found.Mechanisms {
		if !m.Works && (m.Why == "" || m.Change == "") {
			t.Errorf("%+v does not say what to do", m)
		}
		if !strings.Contains(out.String(), m.Name) || !strings.Contains(out.String(), m.Why) {
			t.Errorf("%s is not in\n%s", m.Name, out.String())
		}
	}
}

func TestRunAfterATimeout(t *testing.T) {
	none := []string{"--sandbox", "danger-full-access", "--cd", t.TempDir()}
	for _, test := range []struct {
		flags []string
		code  int
	}{
		{[]string{"--timeout", "50ms"}, exitTimedOut},
		{[]string{"--timeout", "50ms", "--limit", "wall=10m"}, exitTimedOut},
		{[]string{"--timeout", "10m", "--limit", "wall=50ms"}, 128 + 15},
	} {
		if code, _, err := runs(t, "", append(append(none, test.flags...), "--", "sleep", "1000")...); code != test.code || !strings.Contains(err, "ended") {
			t.Errorf("%v: %d, %q", test.flags, code, err)
		}
	}
	if code, _, err := runs(t, "", append(none, "--timeout", "10m", "--", "sh", "-c", "exit 3")...); code != 3 || err != "" {
		t.Errorf("%d, %q", code, err)
	}
}

// With --json every line is an event, and a program needs nothing else.
func TestRunPrintsEvents(t *testing.T) {
	code, out, errors := runs(t, "input", "--json", "--sandbox", "danger-full-access", "--cd", t.TempDir(), "--", "sh", "-c", "cat; echo wrong >&2; exit 3")
	if code != 3 || errors != "" {
		t.Fatalf("%d, %q", code, errors)
	}
	output := map[messages.Stream]string{}
	var kinds []messages.EventKind
	for line := range strings.Lines(out) {
		event, err := messages.UnmarshalEvent([]byte(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			output[e.Stream] += string(e.Bytes)
		case messages.ExecEnded:
			if status, _ := e.Status.Code(); status != 3 {
				t.Errorf("%+v", e)
			}
		}
		kinds = append(kinds, event.Kind())
	}
	if output[messages.StreamStdout] != "input" || output[messages.StreamStderr] != "wrong\n" {
		t.Errorf("%q", output)
	}
	if !slices.Contains(kinds, messages.KindExecStarted) || kinds[len(kinds)-1] != messages.KindExecEnded {
		t.Errorf("%q", kinds)
	}
}

// A command may ignore one SIGTERM. The user who sends a second one wants an end.
func TestASecondSIGTERMEndsTheCommand(t *testing.T) {
	const script = `trap 'echo got' TERM; echo ready; while :; do sleep 0.1; done`
	r := launch(t, "run", "--sandbox", "danger-full-access", "--", "sh", "-c", script)
	for _, want := range []string{"ready", "got"} {
		if line := r.line(); line != want {
			t.Fatalf("%q, want %q", line, want)
		}
		if err := r.c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for r.out.Scan() {
	}
	if code := r.wait(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code %d, %s", code, r.errors.String())
	}
}

// The first SIGTERM is the command's, and so is its end.
func TestOneSIGTERMOnlyGoesToTheCommand(t *testing.T) {
	r := launch(t, "run", "--json", "--sandbox", "danger-full-access", "--", "sh", "-c", `trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done`)
	for line := r.line(); !strings.Contains(line, `"kind":"exec_ended"`); line = r.line() {
		if strings.Contains(line, `"kind":"output_delta"`) {
			if err := r.c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			line = r.line()
			for ; !strings.Contains(line, `"kind":"exec_ended"`); line = r.line() {
			}
			if !strings.Contains(line, `"cause":"exited"`) {
				t.Error(line)
			}
			break
		}
	}
	if code := r.wait(); code != 5 {
		t.Errorf("exit code %d, %s", code, r.errors.String())
	}
}

func TestRunEndsACommandWhenWhatItWaitsForHasCome(t *testing.T) {
	confinedHere(t)
	for _, c := range []struct {
		name, until, script string
		code                int
		says                string
	}{
		{"pattern", `{"pattern":"re.dy"}`, "echo ready; sleep 1000", 0, "execbus: the pattern was found; the command was ended\n"},
		{"quiet", `{"quiet_after_output_ms":50}`, "echo ready; sleep 1000", 0, "execbus: no more output came; the command was ended\n"},
		{"it fails before", `{"pattern":"never"}`, "exit 3", 3, ""},
		{"it succeeds before", `{"pattern":"never"}`, "exit 0", exitNotMet, "before what --until names"},
		{"the end alone", "exit", "exit 0", 0, ""},
		{"no word", "later", "exit 0", exitMisused, "awaiting_input"},
		{"no pattern", `{"pattern":"("}`, "exit 0", exitMisused, "missing closing"},
		{"no name", `{"patern":"x"}`, "exit 0", exitMisused, "patern"},
	} {
		code, _, err := runs(t, "", "--assurance", "confined", "--cd", t.TempDir(), "--until", c.until, "--", "sh", "-c", c.script)
		if code != c.code || !strings.Contains(err, c.says) || c.says == "" && err != "" {
			t.Errorf("%s: %d, %q", c.name, code, err)
		}
	}
	code, out, _ := runs(t, "", "--assurance", "confined", "--cd", t.TempDir(), "--json", "--tty", "--until", "awaiting_input", "--", "sh", "-c", "printf 'name? '; read x; read x; read x") // the input ends, on a terminal only for the read at hand
	if code != 0 || !strings.Contains(out, `"kind":"until_met"`) || !strings.Contains(out, `"kind":"line"`) {
		t.Errorf("%d, %s", code, out)
	}
}

// The end of a command may be reported before the answer to the wait, which came first.
func TestAnEndThatOvertakesItsReason(t *testing.T) {
	var out, err strings.Builder
	o := &order{config: &config{}, std: streams{strings.NewReader(""), &out, &err}, met: make(chan messages.Met)}
	go func() {
		o.met <- messages.Met{Reason: messages.MetPattern}
		close(o.met)
	}()
	if !o.untilMet() || !strings.Contains(err.String(), "the pattern was found") {
		t.Errorf("%q", err.String())
	}
	if o.untilMet() {
		t.Error("a reason is there twice")
	}
}
