package execbus_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// runs is a run of a bash script.
func runs(script string) messages.RunCommand {
	return messages.RunCommand{Argv: []string{"bash", "-c", script}}
}

// run runs a command that must be answered with a result.
func run(t *testing.T, session *execbus.Session, command messages.RunCommand) *messages.RunResult {
	t.Helper()
	result, err := session.Run(patient(t), command)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return result
}

func TestRunToTheEnd(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		events := watch(t, session, execbus.Watch{Calls: []messages.CallID{"r"}})
		command := runs("echo out; echo err >&2; cat; echo more; exit 3")
		command.Call, command.Dir = "r", "/"
		result := run(t, session, command)
		if result.ExitCode != 3 || result.Status != messages.StatusExited(3) || result.TimedOut || result.Cancelled ||
			result.Omitted != 0 || result.Duration <= 0 || result.Process == 0 {
			t.Errorf("the result is %+v", result)
		}
		if string(result.Stdout) != "out\nmore\n" || string(result.Stderr) != "err\n" || string(result.Aggregated) != "out\nmore\nerr\n" {
			t.Errorf("stdout %q, stderr %q, together %q", result.Stdout, result.Stderr, result.Aggregated)
		}
		if got := messages.NormalizeRun(result, nil); got != result {
			t.Errorf("normalised it is %+v", got)
		}
		told := map[messages.Stream]string{}
		for _, event := range until(t, events, messages.KindExecEnded) {
			if delta, ok := event.(messages.OutputDelta); ok {
				told[delta.Stream] += string(delta.Bytes)
			}
		}
		if told[messages.StreamStdout] != "out\nmore\n" || told[messages.StreamStderr] != "err\n" {
			t.Errorf("the events tell %q", told)
		}
	})
}

func TestExitCodesOfRuns(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	for script, want := range map[string]struct {
		code   int
		status messages.ExitStatus
	}{
		"true":        {0, messages.StatusExited(0)},
		"exit 255":    {255, messages.StatusExited(255)},
		"kill -9 $$":  {137, messages.StatusSignaled(9)},
		"kill -15 $$": {143, messages.StatusSignaled(15)},
		"exit 124":    {124, messages.StatusExited(124)},
	} {
		result := run(t, session, runs(script))
		if result.ExitCode != want.code || result.Status != want.status || result.TimedOut || result.Cancelled {
			t.Errorf("%q ends with %d, %v, timed out %v, cancelled %v", script, result.ExitCode, result.Status, result.TimedOut, result.Cancelled)
		}
	}
	script := run(t, session, messages.RunCommand{Script: "echo $((6*7))", Shell: "sh", Login: no()})
	if string(script.Stdout) != "42\n" {
		t.Errorf("a script says %q", script.Stdout)
	}
}

func TestARunThatCannotStartIsAnError(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{NoLoginShell: true})
	for _, c := range []struct {
		command messages.RunCommand
		code    messages.ErrorCode
		fact    string
	}{
		{messages.RunCommand{Argv: []string{"/no/such/program"}}, messages.ErrNoSuchProgram, "/no/such/program"},
		{messages.RunCommand{Argv: []string{"/"}}, messages.ErrSpawnFailed, "directory"},
		{messages.RunCommand{}, messages.ErrInvalidRequest, "argv"},
		{messages.RunCommand{Script: "true", Login: yes()}, messages.ErrInvalidRequest, "login shell is disabled by config"},
	} {
		result, err := session.Run(patient(t), c.command)
		wantError(t, err, c.code, c.fact)
		if result != nil {
			t.Errorf("there is a result: %+v", result)
		}
		if got := messages.NormalizeRun(result, err); got.ExitCode != -1 || string(got.Aggregated) != err.Error() || len(got.Stdout) != 0 {
			t.Errorf("normalised it is %+v", got)
		}
	}
}

func TestATimeoutEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	const child = `sh -c 'trap "" TERM; echo $$; exec sleep 1000' &`
	command := runs(`echo $$; echo oops >&2; ` + child + ` (setsid ` + child + `); wait`)
	var result *messages.RunResult
	var end messages.ExecEnded
	for timeout := 500 * time.Millisecond; timeout < patience; timeout *= 2 { // until all of them had the time to begin
		command.Timeout = &timeout
		result = run(t, session, command)
		end = await[messages.ExecEnded](t, events, nil)
		if bytes.Count(result.Stdout, []byte("\n")) == 3 {
			break
		}
	}
	if result.ExitCode != messages.ExitCodeRunTimedOut || !result.TimedOut || result.Cancelled || result.Status.Kind != messages.ExitSignal ||
		result.Duration <= 0 {
		t.Errorf("the result is %+v", result)
	}
	if string(result.Stderr) != "oops\n" {
		t.Errorf("stderr is %q, want what came before the timeout", result.Stderr)
	}
	wantDead(t, pids(t, result.Stdout, 3))
	if end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByTimeout || end.Tree.Ended < 2 || len(end.Tree.Survivors) > 0 || !end.Tree.Airtight {
		t.Errorf("the end is told as %+v", end.EndRecord)
	}
}

// The trap has 50 ms, which a busy machine may not give it; what else is claimed must hold every time.
func TestACancelledRun(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		for attempt := range 10 {
			if cancelRun(t, session, messages.CallID(fmt.Sprint(attempt))) {
				return
			}
		}
		t.Error("the trap never ran")
	})
}

func cancelRun(t *testing.T, session *execbus.Session, call messages.CallID) (trapped bool) {
	t.Helper()
	events := watch(t, session, execbus.Watch{Calls: []messages.CallID{call}})
	command := runs(`trap 'echo trapped; exit 0' TERM; sh -c 'trap "" TERM; echo $$; exec sleep 1000' & wait`)
	command.Call = call
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan *messages.RunResult, 1)
	go func() {
		result, err := session.Run(ctx, command)
		if err != nil {
			t.Errorf("the cancelled run has an error: %v", err)
		}
		results <- result
	}()
	stubborn := pids(t, []byte(awaitOutput(t, events, "\n")), 1)
	cancel()
	result := <-results
	if result == nil {
		t.FailNow()
	}
	if result.ExitCode != messages.ExitCodeRunCancelled || result.TimedOut || !result.Cancelled {
		t.Errorf("the result is %+v", result)
	}
	end := await[messages.ExecEnded](t, events, nil)
	wantDead(t, stubborn)
	if end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByUser {
		t.Errorf("the end is told as %v", end.EndRecord.String())
	}
	trapped = result.Status == messages.StatusExited(0) // it may also be killed between its output and its exit
	if trapped && !strings.Contains(string(result.Stdout), "trapped\n") {
		t.Errorf("the trap ran, and said %q", result.Stdout)
	}
	return trapped
}

// flood writes so many bytes of either kind to stdout and stderr.
func flood(stdout, stderr int) string {
	return fmt.Sprintf("head -c %d /dev/zero | tr '\\0' o; head -c %d /dev/zero | tr '\\0' e >&2", stdout, stderr)
}

func TestARunKeepsTheBeginningOfEachStream(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		const limit = messages.MaxRunOutput
		out, err := bytes.Repeat([]byte("o"), limit), bytes.Repeat([]byte("e"), limit)
		for _, c := range []struct{ stdout, stderr int }{{limit + 1000, 2 * limit}, {limit, limit}, {1000, limit + 1}, {0, limit - 1}} {
			command := runs(flood(c.stdout, c.stderr))
			result := run(t, session, command)
			keptOut, keptErr := min(c.stdout, limit), min(c.stderr, limit)
			if !bytes.Equal(result.Stdout, out[:keptOut]) || !bytes.Equal(result.Stderr, err[:keptErr]) {
				t.Errorf("of %+v %d and %d bytes were kept", c, len(result.Stdout), len(result.Stderr))
			}
			if want := int64(c.stdout + c.stderr - keptOut - keptErr); result.Omitted != want {
				t.Errorf("of %+v %d bytes are said to be omitted, want %d", c, result.Omitted, want)
			}
			fromOut := min(keptOut, limit/3)
			want := append(bytes.Clone(out[:fromOut]), err[:min(keptErr, limit-fromOut)]...)
			if !bytes.Equal(result.Aggregated, want) {
				t.Errorf("of %+v together %d bytes were kept, want %d", c, len(result.Aggregated), len(want))
			}
		}
	})
}

func TestAFullRunKeepsEverythingAndHasNoTimeout(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	const stdout, stderr = messages.MaxRunOutput + 1000, 2 * messages.MaxRunOutput
	command := runs("sleep 0.05; " + flood(stdout, stderr))
	command.Full, command.Timeout = true, new(time.Duration) // zero is none
	result := run(t, session, command)
	if result.ExitCode != 0 || result.TimedOut || result.Omitted != 0 || len(result.Stdout) != stdout || len(result.Stderr) != stderr {
		t.Errorf("%d and %d bytes of %d and %d were kept: %v, timed out %v", len(result.Stdout), len(result.Stderr), stdout, stderr,
			result.Status, result.TimedOut)
	}
	if !bytes.Equal(result.Aggregated, append(bytes.Clone(result.Stdout), result.Stderr...)) {
		t.Errorf("together %d bytes were kept", len(result.Aggregated))
	}
}

func TestARunOnATerminalOrOnePipe(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		command := runs("echo 1; echo 2 >&2; echo 3; test -t 1 && stty size")
		command.Merged = true
		if result := run(t, session, command); string(result.Stdout) != "1\n2\n3\n" || len(result.Stderr) != 0 {
			t.Errorf("one pipe: stdout %q, stderr %q", result.Stdout, result.Stderr)
		}
		command.Merged, command.TTY, command.Size = false, true, messages.Size{Rows: 7, Cols: 99}
		if result := run(t, session, command); string(result.Stdout) != "1\r\n2\r\n3\r\n7 99\r\n" || len(result.Stderr) != 0 {
			t.Errorf("a terminal: stdout %q, stderr %q", result.Stdout, result.Stderr)
		}
	})
}

// A grace lets the trap of a run finish that is ended early. The trap ends only when the test lets it.
func TestARunHasTheGraceThatItAsksFor(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		gate := filepath.Join(t.TempDir(), "gate")
		events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}})
		command := runs(`trap 'echo trapped; until [ -e "` + gate + `" ]; do sleep 0.01; done; echo finished; exit 5' TERM; echo ready; while :; do sleep 0.01; done`)
		command.Grace, command.Call = new(patience), "graceful"
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		results := make(chan *messages.RunResult, 1)
		go func() {
			result, _ := session.Run(ctx, command)
			results <- result
		}()
		awaitOutput(t, events, "ready\n")
		cancel()
		awaitOutput(t, events, "trapped\n")
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		result := <-results
		if result == nil || !result.Cancelled || result.Status != messages.StatusExited(5) || !bytes.HasSuffix(result.Stdout, []byte("finished\n")) {
			t.Errorf("%+v", result)
		}
	})
}

// A run ends with its leader: what holds its streams open in the background is ended.
func TestARunDoesNotWaitForItsBackground(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
		begun := filepath.Join(t.TempDir(), "begun")
		command := runs(`sh -c 'echo $$; : >"$0"; exec sleep 1000' "` + begun + `" & until [ -e "` + begun + `" ]; do sleep 0.01; done; echo said`)
		command.Full = true
		result := run(t, session, command)
		if result.ExitCode != 0 || !bytes.HasSuffix(result.Stdout, []byte("said\n")) || result.Tree == nil || result.Tree.Ended != 1 {
			t.Errorf("the result is %+v, tree %+v", result, result.Tree)
		}
		end := await[messages.ExecEnded](t, events, nil)
		wantDead(t, pids(t, result.Stdout, 1))
		if end.Cause != messages.CauseExited || end.Tree.Ended != 1 {
			t.Errorf("the end is told as %+v", end.EndRecord)
		}
	})
}

// keeps is a spawner that does not end the background of its children, as if that took very long.
type keeps struct{ ptyio.Spawner }

func (k keeps) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	launch.OnLeaderExit = messages.LeaderExitKeepsTree
	return k.Spawner.Spawn(ctx, launch)
}

func TestARunDoesNotWaitForItsStreamsForEver(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full %v", full), func(t *testing.T) {
			t.Parallel()
			spawner := keeps{newSpawner(t, true)}
			session := openSession(t, newRuntime(t, execbus.Options{Spawner: spawner}), execbus.SessionOptions{})
			command := runs("sleep 1000 & echo said; exit 7")
			command.Full = full
			since := time.Now()
			result := run(t, session, command)
			if took := time.Since(since); took < messages.RunDrain {
				t.Errorf("the result came after %v, want at least %v", took, messages.RunDrain)
			}
			if string(result.Stdout) != "said\n" || result.ExitCode != 7 || result.TimedOut || result.Tree != nil {
				t.Errorf("the result is %+v, with stdout %q", result, result.Stdout)
			}
			if len(listed(t, session)) != 1 {
				t.Error("the process has ended: then this test shows nothing")
			}
		})
	}
}
