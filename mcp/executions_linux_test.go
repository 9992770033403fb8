package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
)

// executing connects a client to a server in whose session a rule asks about touch. The file script, which the commands run, is in its directory.
func executing(t *testing.T, script string, deadline time.Duration, version string, client *sdk.Client) (session *sdk.ClientSession, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"it.rules": `prefix_rule(["touch"], decision="prompt")`, "script": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runtime, err := execbus.Start(execbus.Options{StateDir: t.TempDir(), Rules: []execbus.RuleLayer{{Files: []string{filepath.Join(dir, "it.rules")}, Trusted: true}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runtime.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	options := execbus.SessionOptions{Dir: dir, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, LeastAssurance: messages.AssuranceConfined,
		Executions: messages.ExecutionsEnforce, ApprovalDeadline: deadline}
	probe, err := runtime.OpenSession(options)
	if err == nil {
		_, err = probe.Exec(t.Context(), messages.ExecCommand{Argv: []string{"true"}})
	}
	if errors.Is(err, messages.ErrUnsupported) {
		t.Skipf("skipped: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return attach(t, serverOf(t, runtime, Options{Session: options}), client, version), dir
}

func within(t *testing.T, what string, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(patience):
		t.Fatal(what + " does not come")
	}
}

func isThere(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func TestAnExecutionIsAskedAboutAndAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(*sdk.ElicitParams) *sdk.ElicitResult
		asked  int32
		made   bool
		says   string
	}{
		"once":        {says("approved", ""), 2, true, "code 0"},
		"for session": {says("approved_for_session", ""), 1, true, "code 0"},
		"no":          {says("denied", "use make instead"), 1, false, "the execution of /usr/bin/touch made was refused: use make instead"},
		"declined":    {func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "decline"} }, 1, false, "was refused: rejected by user"},
		"abort":       {says("abort", ""), 1, false, "was refused: approval request aborted"},
	} {
		for _, version := range generations[1:] {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int32
				session, dir := executing(t, "PATH=/usr/bin; touch made; touch made; echo code $?", time.Minute, version, person(func(params *sdk.ElicitParams) *sdk.ElicitResult {
					asked.Add(1)
					expect.Contains(t, params.Message, "Let a running command execute this program?", "/usr/bin/touch made", "Command: ", "script", "Executed by: pid ")
					return test.answer(params)
				}))
				result := call(t, session, "exec_command", map[string]any{"cmd": "sh ./script", "workdir": dir})
				expect.Contains(t, textOf(result), test.says)
				if n := asked.Load(); n != test.asked || isThere(dir, "made") != test.made {
					t.Errorf("it was asked %d times: %s", n, textOf(result))
				}
			})
		}
	}
}

func TestAHundredExecutionsAreAskedAboutAtOnce(t *testing.T) {
	t.Parallel()
	const many = 100
	var asked atomic.Int32
	session, dir := executing(t, fmt.Sprintf("PATH=/usr/bin; i=0; while [ $i -lt %d ]; do touch file$i & i=$((i+1)); done; wait", many), time.Minute, generations[1],
		person(func(params *sdk.ElicitParams) *sdk.ElicitResult {
			asked.Add(1)
			for i := 5; i < many; i += 10 {
				if strings.Contains(params.Message, fmt.Sprintf("/usr/bin/touch file%d\n", i)) {
					return says("denied", "")(params)
				}
			}
			return says("approved", "")(params)
		}))
	result := call(t, session, "exec_command", map[string]any{"cmd": "sh ./script", "workdir": dir})
	if made, err := filepath.Glob(filepath.Join(dir, "file*")); err != nil || len(made) != many-many/10 || asked.Load() != many {
		t.Errorf("%d were asked about, and %d executed: %v: %s", asked.Load(), len(made), err, textOf(result))
	}
}

func TestAnExecutionThatNobodyAnswersIsRefused(t *testing.T) {
	t.Parallel()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	session, dir := executing(t, "/usr/bin/touch made; echo code $?", time.Millisecond, generations[1], client)
	result := call(t, session, "exec_command", map[string]any{"cmd": "sh ./script", "workdir": dir})
	if expect.Contains(t, textOf(result), "code 126", "was refused: "); isThere(dir, "made") {
		t.Error("it was executed")
	}
}

func TestAProcessThatIsEndedIsNotAskedAboutAnyMore(t *testing.T) {
	t.Parallel()
	asked, withdrawn := make(chan struct{}), make(chan struct{})
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			close(withdrawn)
			return nil, ctx.Err()
		}})
	session, dir := executing(t, "/usr/bin/touch made", time.Minute, generations[1], client)
	answered := make(chan *sdk.CallToolResult, 1)
	go func() {
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": "sh ./script", "workdir": dir}})
		if err != nil {
			t.Error(err)
		}
		answered <- result
	}()
	within(t, "the question", asked)
	listed := call(t, session, "list_processes", nil).StructuredContent.(map[string]any)["processes"].([]any)
	if ended := call(t, session, "terminate_process", map[string]any{"session_id": listed[0].(map[string]any)["session_id"]}); ended.IsError {
		t.Error(textOf(ended))
	}
	within(t, "the end of the question", withdrawn)
	if <-answered; isThere(dir, "made") {
		t.Error("it was executed")
	}
}
