package execbus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// many is how many programs a command executes at once in these tests.
const many = 100

// executing starts a command that executes many programs at once, about each of which a rule asks. It returns the events about them.
func executing(t *testing.T, change func(*execbus.SessionOptions)) (session *execbus.Session, dir string, started *execbus.Process, next func() messages.Event) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"it.rules": `prefix_rule(["touch"], decision="prompt")`,
		"it.sh":    fmt.Sprintf("PATH=/usr/bin; i=0; while [ $i -lt %d ]; do touch file$i & i=$((i+1)); done; wait; echo over", many),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rt := newRuntime(t, execbus.Options{Rules: []execbus.RuleLayer{{Files: []string{filepath.Join(dir, "it.rules")}, Trusted: true}}})
	options := execbus.SessionOptions{Dir: dir, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, LeastAssurance: messages.AssuranceConfined,
		Executions: messages.ExecutionsEnforce}
	change(&options)
	session = openSession(t, rt, options)
	events := watch(t, session, execbus.Watch{Lossless: true,
		Kinds: []messages.EventKind{messages.KindApprovalRequested, messages.KindProgramExecuted, messages.KindExecEnded}})
	started, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"/bin/sh", "it.sh"}})
	if errors.Is(err, messages.ErrUnsupported) {
		t.Skipf("skipped: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return session, dir, started, func() messages.Event {
		event, err := events.Next(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		return event
	}
}

// attempts reads events until the command has ended, and returns its executions by the file that each makes.
func attempts(t *testing.T, next func() messages.Event) (made map[string]messages.ProgramExecuted, end messages.ExecEnded) {
	t.Helper()
	made = map[string]messages.ProgramExecuted{}
	for {
		switch e := next().(type) {
		case messages.ProgramExecuted:
			if len(e.Argv) != 2 || !strings.HasPrefix(e.Argv[1], "file") {
				continue
			}
			if _, twice := made[e.Argv[1]]; twice {
				t.Errorf("%s was executed twice", e.Argv[1])
			}
			made[e.Argv[1]] = e
		case messages.ExecEnded:
			return made, e
		}
	}
}

func noQuestions(t *testing.T, session *execbus.Session) {
	t.Helper()
	if left, err := session.Questions(patient(t)); err != nil || len(left) > 0 {
		t.Errorf("%d questions are left, %v", len(left), err)
	}
}

func TestManyExecutionsAreAskedAboutAtOnce(t *testing.T) {
	t.Parallel()
	refuses := func(file string) bool { return strings.HasSuffix(file, "5") }
	session, dir, _, next := executing(t, func(o *execbus.SessionOptions) {
		o.Approver = execbus.ApproverFunc(func(_ context.Context, q messages.Question) (messages.Decision, error) {
			if q.Execution == nil || len(q.Execution.Argv) != 2 {
				return messages.Decision{}, fmt.Errorf("%+v", q)
			}
			if refuses(q.Execution.Argv[1]) {
				return messages.Decision{Kind: messages.DecisionDenied}, nil
			}
			return messages.Decision{Kind: messages.DecisionApproved}, nil
		})
	})
	all, end := attempts(t, next)
	for i := range many {
		file := fmt.Sprint("file", i)
		e, seen := all[file]
		_, err := os.Lstat(filepath.Join(dir, file))
		if !seen || e.Refused != refuses(file) || e.Source != messages.DecidedByPerson || (err == nil) == refuses(file) {
			t.Errorf("%s: %+v, %v", file, e, err)
		}
	}
	if end.Cause != messages.CauseExited || end.Executions == nil || end.Executions.Refused != many/10 || end.Denial != nil {
		t.Errorf("%+v", end)
	}
	noQuestions(t, session)
}

func TestManyExecutionsAreRefusedWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	session, dir, _, next := executing(t, func(o *execbus.SessionOptions) {
		o.ApprovalDeadline = time.Millisecond // of each, once it is put
		o.Approver = execbus.ApproverFunc(func(ctx context.Context, _ messages.Question) (messages.Decision, error) {
			<-ctx.Done()
			return messages.Decision{}, ctx.Err()
		})
	})
	all, end := attempts(t, next)
	for file, e := range all {
		if !e.Refused || e.Decision != messages.DecisionTimedOut {
			t.Errorf("%s: %+v", file, e)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(dir, "file*")); len(all) != many || len(made) > 0 || end.Cause != messages.CauseExited || end.Executions.Refused != many {
		t.Errorf("%d attempts, which made %v: %+v", len(all), made, end)
	}
	noQuestions(t, session)
}

func TestACommandEndsWhileManyExecutionsAreAskedAbout(t *testing.T) {
	t.Parallel()
	session, dir, started, next := executing(t, func(*execbus.SessionOptions) {})
	for asked := 0; asked < many; {
		questions, err := session.Questions(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		asked = len(questions)
	}
	if _, err := started.Terminate(patient(t)); err != nil {
		t.Fatal(err)
	}
	all, end := attempts(t, next)
	for file, e := range all {
		if !e.Refused {
			t.Errorf("%s: %+v", file, e)
		}
	}
	if e := end.Executions; end.Cause != messages.CauseTerminated || len(all) != many || e.Refused != many || e.Unreported > 0 {
		t.Errorf("%d attempts: %+v", len(all), end)
	}
	if made, _ := filepath.Glob(filepath.Join(dir, "file*")); len(made) > 0 {
		t.Errorf("executed: %v", made)
	}
	noQuestions(t, session)
}
