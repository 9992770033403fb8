package execbus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

func yes() *bool { v := true; return &v }
func no() *bool  { v := false; return &v }

func TestScriptsRunInTheirShell(t *testing.T) {
	t.Parallel()
	open, strict := newSession(t, execbus.SessionOptions{}), newSession(t, execbus.SessionOptions{NoLoginShell: true})
	for _, c := range []struct {
		name    string
		session *execbus.Session
		shell   string
		login   *bool
		argv    string // a pattern for the shell and its flag
	}{
		{"bash by name", open, "bash", no(), `/bash -c`},
		{"sh by name", open, "sh", no(), `/(ba|da|z|)sh -c`},
		{"bash by path", open, "/bin/bash", no(), `^/bin/bash -c`},
		{"a login shell", open, "bash", yes(), `/bash -lc`},
		{"no login shell by default", open, "bash", nil, `/bash -c`},
		{"the user's own shell", open, "", no(), `/(ba|da|z|)sh -c`},
		{"no login shell where it is forbidden", strict, "bash", no(), `/bash -c`},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := watch(t, c.session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecStarted}})
			command := messages.ExecCommand{Script: "echo 'a  b' | tr a c; exit 4", Shell: c.shell, Login: c.login}
			command.Environment = &messages.EnvironmentPolicy{Set: map[string]string{"HOME": t.TempDir()}}
			result := exec(t, c.session, command)
			if got := result.OutputText(); !strings.HasSuffix(got, "c  b\n") || result.Status != messages.StatusExited(4) {
				t.Errorf("it said %q and ended with %v", got, result.Status)
			}
			argv := await[messages.ExecStarted](t, events, nil).Argv
			if matched, _ := regexp.MatchString(c.argv+"$", strings.Join(argv[:2], " ")); !matched || len(argv) != 3 || argv[2] != command.Script {
				t.Errorf("the command line is %q, want %s and the script", argv, c.argv)
			}
		})
	}
}

func TestALoginShellIsOne(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{Environment: messages.EnvironmentPolicy{Set: map[string]string{"HOME": t.TempDir()}}})
	for login, want := range map[*bool]string{yes(): "login\n", no(): "plain\n"} {
		command := messages.ExecCommand{Script: "shopt -q login_shell && echo login || echo plain", Shell: "bash", Login: login}
		if got := exec(t, session, command).OutputText(); !strings.HasSuffix(got, want) {
			t.Errorf("a shell with login %v says %q", *login, got)
		}
	}
}

func TestWrongCommandsAreRefused(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t, execbus.Options{})
	session := openSession(t, rt, execbus.SessionOptions{NoLoginShell: true})
	for _, c := range []struct {
		command messages.ExecCommand
		code    messages.ErrorCode
		facts   []string
	}{
		{messages.ExecCommand{}, messages.ErrInvalidRequest, []string{"argv"}},
		{messages.ExecCommand{Argv: []string{"true"}, Script: "true"}, messages.ErrInvalidRequest, []string{"script"}},
		{messages.ExecCommand{Argv: []string{"true"}, Shell: "bash"}, messages.ErrInvalidRequest, []string{"shell"}},
		{messages.ExecCommand{Script: "true", Shell: "fish"}, messages.ErrInvalidRequest, []string{"shell", `"fish"`, "bash, zsh, sh"}},
		{messages.ExecCommand{Script: "true", Shell: "/bin/cat"}, messages.ErrInvalidRequest, []string{"shell", "/bin/cat"}},
		{messages.ExecCommand{Script: "true", Login: yes()}, messages.ErrInvalidRequest,
			[]string{"login shell is disabled by config", "leave login out or set it to false"}},
		{messages.ExecCommand{Argv: []string{"true"}, Yield: new(time.Duration(-1))}, messages.ErrInvalidRequest, []string{"yield"}},
		{messages.ExecCommand{Argv: []string{"/no/such/program"}}, messages.ErrNoSuchProgram, []string{"/no/such/program"}},
		{messages.ExecCommand{Argv: []string{"no-such-program-anywhere"}}, messages.ErrNoSuchProgram, []string{"no-such-program-anywhere"}},
		{messages.ExecCommand{Argv: []string{"true"}, Dir: "/no/such/dir"}, messages.ErrSpawnFailed, []string{"/no/such/dir"}},
		{messages.ExecCommand{Argv: []string{"/"}}, messages.ErrSpawnFailed, []string{"directory"}},
		{messages.ExecCommand{Argv: []string{"true"}, Environment: &messages.EnvironmentPolicy{Inherit: "x"}}, messages.ErrInvalidRequest,
			[]string{"inherit"}},
	} {
		result, err := session.Exec(patient(t), c.command)
		if result != nil {
			t.Errorf("%+v has a result: %v", c.command, result)
		}
		wantError(t, err, c.code, c.facts...)
	}
	if ids := listed(t, session); len(ids) != 0 {
		t.Errorf("refused commands are listed: %v", ids)
	}
}

func TestNoTimeoutWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	gate := filepath.Join(t.TempDir(), "gate")
	command := bash(`until [ -e "` + gate + `" ]; do sleep 0.01; done; echo done at last`)
	command.Yield = new(messages.MinYield)
	first := exec(t, session, command)
	if !first.Running || len(first.Output) > 0 {
		t.Fatalf("the command is answered with %+v, want a running process", first)
	}
	ctx, begun, cancel := begins(t)
	defer cancel()
	go func() {
		<-begun
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Error(err)
		}
	}()
	result, err := session.Write(ctx, messages.WriteStdin{Process: first.Process, NoTimeout: true})
	if err != nil {
		t.Fatal(err)
	}
	text := tools.Text(result)
	if result.Running || result.Status != messages.StatusExited(0) || result.OutputText() != "done at last\n" ||
		!strings.Contains(text, "\nProcess exited with code 0\n") || strings.Contains(text, "session ID") {
		t.Errorf("the poll is answered with %q", text)
	}
}

func TestNoTimeoutIsNoneOfTheBoundsOfPolls(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	session := newSession(t, execbus.SessionOptions{LongestPoll: messages.MinPoll})
	id := launch(t, session, bash(`until [ -e "`+gate+`" ]; do sleep 0.05; done; echo over`))
	results := make(chan *messages.Result, 1)
	go func() {
		result, err := session.Write(patient(t), messages.WriteStdin{Process: id, NoTimeout: true})
		if err != nil {
			t.Errorf("write: %v", err)
		}
		results <- result
	}()
	select {
	case result := <-results:
		t.Fatalf("it was answered while the process runs: %+v", result)
	case <-time.After(messages.MinPoll + 250*time.Millisecond):
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if result := <-results; result != nil && (result.Running || result.OutputText() != "over\n") {
		t.Errorf("the result is %+v", result)
	}
}

func TestNoTimeoutOnlyWithoutBytesAndYield(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	id := launch(t, session, bash("read line"))
	_, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("x"), NoTimeout: true})
	wantError(t, err, messages.ErrInvalidRequest, "write noTimeout: only a call that writes nothing can wait without end")
	for _, yield := range []time.Duration{0, 1, time.Hour, -1} {
		_, err = session.Write(patient(t), messages.WriteStdin{Process: id, NoTimeout: true, Yield: &yield})
		wantError(t, err, messages.ErrInvalidRequest, "write yield: a call that waits without end cannot have a yield")
		_, err = session.Poll(patient(t), messages.Poll{Process: id, NoTimeout: true, Yield: &yield})
		wantError(t, err, messages.ErrInvalidRequest, "poll yield: a call that waits without end cannot have a yield")
	}
}

// cut is the text of too much output, computed from the bounds alone; the lines must be of one byte per character.
func cut(output string, tokens int) string {
	budget := tokens * 4
	removed := (len(output) - budget + 3) / 4
	return fmt.Sprintf("Warning: truncated output (original token count: %d)\nTotal output lines: %d\n\n%s…%d tokens truncated…%s",
		(len(output)+3)/4, strings.Count(output, "\n"), output[:budget/2], removed, output[len(output)-(budget-budget/2):])
}

func TestTheSessionsBoundForTextHolds(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{OutputTokens: 500})
	var lines strings.Builder
	for i := 1; i <= 3000; i++ {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	command := bash(`for ((i = 1; i <= 3000; i++)); do echo "line $i"; done; read again`)
	command.MaxOutputTokens = new(70_000)
	events := watch(t, session, execbus.Watch{})
	id := launch(t, session, command)
	awaitOutput(t, events, "line 3000\n")
	result, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("\n"), MaxOutputTokens: new(70_000), Yield: new(30 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.OutputText(), cut(lines.String(), 500); got != want {
		t.Errorf("the text of a write is %q, want %q", got, want)
	}

	command = bash(`for ((i = 1; i <= 3000; i++)); do echo "line $i"; done`)
	command.MaxOutputTokens = new(70_000)
	result = exec(t, session, command)
	if got, want := result.OutputText(), cut(lines.String(), 500); got != want {
		t.Errorf("the text of a command is %q, want %q", got, want)
	}
	command.MaxOutputTokens = new(6)
	result = exec(t, session, command)
	if got, want := result.OutputText(), cut(lines.String(), 6); got != want {
		t.Errorf("the text of a command with a bound of its own is %q, want %q", got, want)
	}
	if result.OriginalTokens() <= 6 || result.Process == 0 || result.WallTime < 0 || result.Running || result.Status != messages.StatusExited(0) ||
		!regexp.MustCompile(`^[0-9a-f]{6}$`).MatchString(result.ChunkID) {
		t.Errorf("the result is %+v", result)
	}
	if text := tools.Text(result); strings.Contains(text, "session ID") ||
		!strings.HasPrefix(text, "Chunk ID: "+result.ChunkID+"\nWall time: ") {
		t.Errorf("the text is %q", text)
	}
}

func TestADefaultSessionsBoundForTextHoldsOnATerminalWithItsEcho(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	var want strings.Builder
	want.WriteString("go\r\n")
	for i := 1; i <= 10_000; i++ {
		fmt.Fprintf(&want, "line %d\r\n", i)
	}
	command := bash(`read go; for ((i = 1; i <= 10000; i++)); do echo "line $i"; done`)
	command.TTY = true
	id := launch(t, session, command)
	result, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("go\n"), MaxOutputTokens: new(70_000), Yield: new(30 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := result.OutputText(), cut(want.String(), messages.DefaultOutputTokens); got != want {
		t.Errorf("the text begins with %.200q, want %.200q", got, want)
	}
}

func TestMoreThanAMegabyteOfOutput(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		const size, kept = 1_200_000, 1 << 20
		events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
		command := bash(fmt.Sprintf("printf HEAD; head -c %d /dev/zero | tr '\\0' x; printf TAIL", size-8))
		command.Yield = new(30 * time.Second)
		result := exec(t, session, command)
		if result.Omitted != size-kept || len(result.Output) != kept || result.OriginalTokens() != size/4 {
			t.Errorf("%d bytes were kept of %d tokens, %d omitted", len(result.Output), result.OriginalTokens(), result.Omitted)
		}
		lines := strings.Split(result.OutputText(), "\n")
		want := []string{"Warning: truncated output (original token count: 300000)", "... " + strconv.Itoa(size-kept) + " bytes omitted ...",
			"... they can be read, from offset 524288 to 675712 ...", ""}
		if len(lines) != 5 || !slices.Equal(lines[:4], want) || !strings.HasPrefix(lines[4], "HEADxxx") || !strings.HasSuffix(lines[4], "xxxTAIL") {
			t.Errorf("the text is %.200q", lines)
		}
		if text := tools.Text(result); !strings.Contains(text, "\nOriginal token count: 300000\nOutput:\nWarning") {
			t.Errorf("the text begins with %.200q", text)
		}
		end := await[messages.ExecEnded](t, events, nil)
		transcript := string(end.Transcript)
		if end.Total != size || !strings.HasPrefix(transcript, "HEADxxx") || !strings.HasSuffix(transcript, "xxxTAIL") ||
			strings.Count(transcript, messages.OmissionMarker(size-kept)) != 1 {
			t.Errorf("the end tells of %d bytes in a transcript of %d", end.Total, len(transcript))
		}
	})
}

func TestArgumentsReachTheProgramUnchanged(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	words := []string{"", " a  b ", `"'$(x)`, "*", "\n", "ü\xff"}
	command := messages.ExecCommand{Argv: append([]string{"printf", `[%s]`}, words...)}
	if got, want := string(exec(t, session, command).Output), "["+strings.Join(words, "][")+"]"; got != want {
		t.Errorf("the program saw %q, want %q", got, want)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip("this user has no home:", err)
	}
	if got := exec(t, session, bash("echo $HOME")).OutputText(); got != home+"\n" {
		t.Errorf("HOME is %q, want %q", got, home)
	}
}
