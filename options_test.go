package execbus_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func TestAWrongOptionIsNamed(t *testing.T) {
	if _, err := execbus.Start(execbus.Options{MaxProcesses: -1}); err == nil {
		t.Error("Start took a negative MaxProcesses")
	} else {
		wantError(t, err, messages.ErrInvalidRequest, "Options.MaxProcesses", "-1 is out of range", "use a positive number")
	}
	rt := newRuntime(t, execbus.Options{})
	for field, options := range map[string]execbus.SessionOptions{
		"SessionOptions.MaxProcesses":  {MaxProcesses: -1},
		"SessionOptions.WarnProcesses": {WarnProcesses: -2},
		"SessionOptions.OutputTokens":  {OutputTokens: math.MinInt},
		"SessionOptions.LongestPoll":   {LongestPoll: -time.Second},
		"SessionOptions.Dir":           {Dir: "a\x00b"},
		"SessionOptions.Environment":   {Environment: messages.EnvironmentPolicy{Inherit: "some"}},
		"Environment: \"A=B\"":         {Environment: messages.EnvironmentPolicy{Set: map[string]string{"A=B": "c"}}},
		"use 1 to 50000":               {MaxProcesses: 50_001},

		"approval policy":                 {Approval: messages.ApprovalPolicy{Mode: "sometimes"}},
		"sandbox policy":                  {Sandbox: &messages.SandboxPolicy{Type: "cage"}},
		"SessionOptions.ApprovalDeadline": {ApprovalDeadline: -1},
		"SessionOptions.OnDeadline":       {OnDeadline: messages.DecisionApprovedForSession},
		"SessionOptions.OnLeaderExit":     {OnLeaderExit: "perhaps"},
	} {
		_, err := rt.OpenSession(options)
		wantError(t, err, messages.ErrInvalidRequest, "configure", field)
	}
	for _, options := range []execbus.SessionOptions{
		{}, {MaxProcesses: 50_000, WarnProcesses: math.MaxInt, OutputTokens: math.MaxInt, LongestPoll: math.MaxInt64},
		{ProtectedProcesses: -1}, {LongestPoll: 1}, {Dir: "."},
	} {
		if _, err := rt.OpenSession(options); err != nil {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

func TestSessionOptionsAreCopied(t *testing.T) {
	t.Parallel()
	set := map[string]string{"WHO": "before"}
	only := []string{"WHO", "PATH"}
	session := newSession(t, execbus.SessionOptions{Environment: messages.EnvironmentPolicy{Set: set, IncludeOnly: only}})
	set["WHO"], only[0] = "after", "NOTHING"
	if got := exec(t, session, bash("echo $WHO")).OutputText(); got != "before\n" {
		t.Errorf("a command saw %q", got)
	}
}

func TestARelativeDirectoryIsTheHosts(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"": here, "messages": filepath.Join(here, "messages"), "/": "/"} {
		session := newSession(t, execbus.SessionOptions{Dir: dir})
		if got := exec(t, session, bash("pwd -P")).OutputText(); got != want+"\n" {
			t.Errorf("in %q a command runs in %q, want %q", dir, got, want)
		}
	}
}

func TestASessionInADirectoryThatDoesNotExist(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone")
	session, err := onWarden().OpenSession(execbus.SessionOptions{Dir: gone})
	if wantError(t, err, messages.ErrInvalidRequest, gone); session != nil {
		t.Error("it was opened")
	}
}

func TestUpdateEnvironment(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{Dir: "/usr"})
	older := launch(t, session, bash("read line; echo $WHO in $PWD"))
	update := func(u messages.UpdateEnvironment) {
		t.Helper()
		if err := session.UpdateEnvironment(patient(t), u); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want string) {
		t.Helper()
		if got := strings.TrimSpace(exec(t, session, bash("echo $WHO in $PWD")).OutputText()); got != want {
			t.Errorf("a command says %q, want %q", got, want)
		}
	}
	dir := func(path string) *string { return &path }
	says("in /usr")
	update(messages.UpdateEnvironment{Environment: &messages.EnvironmentPolicy{Set: map[string]string{"WHO": "me"}}})
	says("me in /usr")
	update(messages.UpdateEnvironment{Dir: dir("bin")})
	says("me in /usr/bin")
	update(messages.UpdateEnvironment{Dir: dir("/")})
	says("me in /")
	update(messages.UpdateEnvironment{})
	says("me in /")
	err := session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Dir: dir("a\x00")})
	wantError(t, err, messages.ErrInvalidRequest, "dir")
	err = session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Environment: &messages.EnvironmentPolicy{Inherit: "some"}})
	wantError(t, err, messages.ErrInvalidRequest, "some")
	err = session.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Dir: dir("usr/nowhere"),
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"WHO": "nobody"}}})
	wantError(t, err, messages.ErrInvalidRequest, "/usr/nowhere")
	says("me in /")

	result, err := session.Write(patient(t), messages.WriteStdin{Process: older, Bytes: []byte("\n"), Yield: new(30 * time.Second)})
	if err != nil || strings.TrimSpace(result.OutputText()) != "in /usr" {
		t.Errorf("the older command says %v, %v; want what it began with", result, err)
	}
}

func TestTheLongestScriptRunsAndALongerOneIsRefused(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	longest := "echo it ran\n" + strings.Repeat("#", messages.MaxScript-len("echo it ran\n"))
	command := messages.ExecCommand{Script: longest, Shell: "bash", Login: new(bool)}
	if got := exec(t, session, command).OutputText(); strings.TrimSpace(got) != "it ran" {
		t.Errorf("it says %q", got)
	}
	command.Script += "#"
	_, err := session.Exec(patient(t), command)
	wantError(t, err, messages.ErrInvalidRequest, "at most 131071", "file")
	_, err = session.Exec(patient(t), messages.ExecCommand{Argv: []string{"true", strings.Repeat("a", 7<<20)}})
	wantError(t, err, messages.ErrInvalidRequest, "argv")
}

// A host may name its sessions; no two of a runtime have the same name.
func TestSessionsHaveTheNamesThatTheyAreGiven(t *testing.T) {
	rt := newRuntime(t, execbus.Options{})
	session, err := rt.OpenSession(execbus.SessionOptions{ID: "build_7-a"})
	if err != nil || session.ID() != "build_7-a" {
		t.Fatalf("%v, %v", session.ID(), err)
	}
	if _, err := rt.OpenSession(execbus.SessionOptions{ID: "build_7-a"}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("a second session has the same name: %v", err)
	}
	for _, name := range []messages.SessionID{"a.b", "a b", "*", "ä", messages.SessionID(strings.Repeat("a", 65))} {
		if _, err := rt.OpenSession(execbus.SessionOptions{ID: name}); !errors.Is(err, messages.ErrInvalidRequest) {
			t.Errorf("%q: %v", name, err)
		}
	}
	result, err := session.Run(t.Context(), messages.RunCommand{Argv: []string{"echo", "hi"}})
	if err != nil || string(result.Stdout) != "hi\n" {
		t.Errorf("%v, %v", result, err)
	}
}
