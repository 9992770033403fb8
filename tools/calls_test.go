package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

// start starts a command that keeps running, and returns its session ID.
func start(t *testing.T, set *tools.Set, script string, more ...string) int {
	t.Helper()
	arguments := fmt.Sprintf(`{"cmd":%q,"yield_time_ms":250%s}`, script, strings.Join(append([]string{""}, more...), ","))
	o := structured[tools.Outcome](t, call(t, set, "exec_command", arguments))
	if o.SessionID == nil {
		t.Fatalf("%s has ended: %+v", script, o)
	}
	return *o.SessionID
}

// startReady is start for a script that says "ready" when it is.
func startReady(t *testing.T, set *tools.Set, script string, more ...string) int {
	t.Helper()
	id := start(t, set, script, more...)
	expect.Eventually(t, "it is ready", func() bool {
		return strings.Contains(call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d}`, id)).Text, "ready")
	})
	return id
}

func TestTheTextAndTheOutcomeAreThoseThatModelsKnow(t *testing.T) {
	set, _ := open(t)
	answer := call(t, set, "exec_command", `{"cmd":"echo hi; exit 3","workdir":"/"}`)
	shape := regexp.MustCompile(`\AChunk ID: [0-9a-f]{6}\nWall time: \d+\.\d{4} seconds\nProcess exited with code 3\nOriginal token count: 1\nOutput:\nhi\n\z`)
	if !shape.MatchString(answer.Text) || answer.Running {
		t.Errorf("%q", answer.Text)
	}
	encoded, err := json.Marshal(answer.Structured)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`\A\{"chunk_id":"[0-9a-f]{6}","wall_time_seconds":[0-9.e-]+,"state":"exited with code 3","exit_code":3,"original_token_count":1,"output":"hi\\n"\}\z`).Match(encoded) {
		t.Errorf("%s", encoded)
	}
	var id int
	for yield := 500; yield <= 16_000; yield *= 2 { // on a busy machine the answer may come before the output
		id = start(t, set, "cat", `"tty":true`)
		answer = call(t, set, "write_stdin", fmt.Sprintf(`{"session_id":%d,"chars":"moin\n","yield_time_ms":%d}`, id, yield))
		if strings.Count(answer.Text, "moin") == 2 {
			break
		}
	}
	expect.Contains(t, answer.Text, "Process running with session ID "+strconv.Itoa(id)+"\n", "Output:\nmoin\r\nmoin\r\n")
	if !answer.Running || int(answer.Process) != id {
		t.Errorf("%+v", answer)
	}
	answer = call(t, set, "write_stdin", fmt.Sprintf(`{"session_id":%d,"chars":"\u0004","yield_time_ms":30000}`, id))
	if o := structured[tools.Outcome](t, answer); o.SessionID != nil || *o.ExitCode != 0 {
		t.Errorf("%+v", o)
	}
}

func TestTheOutputForProgramsIsWholeIfTheyWantIt(t *testing.T) {
	const script = `{"cmd":"head -c 100000 /dev/zero | tr '\\0' x"%s}`
	for _, test := range []struct {
		options tools.Options
		more    string
		whole   bool
	}{{tools.Options{}, "", false}, {tools.Options{WholeOutput: true}, "", true}, {tools.Options{WholeOutput: true}, `,"max_output_tokens":100`, false}} {
		set, _ := open(t, test.options)
		answer := call(t, set, "exec_command", fmt.Sprintf(script, test.more))
		expect.Contains(t, answer.Text, "Warning: truncated output (original token count: 25000)")
		if o := structured[tools.Outcome](t, answer); (len(o.Output) == 100_000) != test.whole {
			t.Errorf("%+v: %d bytes", test, len(o.Output))
		}
	}
}

func TestCommandsAreRunAsAsked(t *testing.T) {
	dir := t.TempDir()
	set, _ := open(t, tools.Options{Session: execbus.SessionOptions{Dir: dir}})
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ arguments, says string }{
		{`{"cmd":"pwd","workdir":"sub"}`, dir + "/sub\n"},
		{`{"cmd":"pwd","workdir":""}`, dir + "\n"},
		{`{"cmd":"echo $0 $-","shell":"/bin/bash"}`, "/bin/bash "},
		{`{"cmd":"shopt -q login_shell && echo yes || echo no","shell":"bash"}`, "yes\n"},
		{`{"cmd":"shopt -q login_shell && echo yes || echo no","shell":"bash","login":false}`, "no\n"},
		{`{"cmd":"test -t 0 && echo yes","tty":true}`, "yes\r\n"},
		{`{"cmd":"cat; echo end"}`, "end\n"},
	} {
		expect.Contains(t, structured[tools.Outcome](t, call(t, set, "exec_command", test.arguments)).Output, test.says)
	}
}

func TestALoginShellThatIsNotAllowedIsRefused(t *testing.T) {
	set, _ := open(t, tools.Options{Session: execbus.SessionOptions{NoLoginShell: true}})
	answer := call(t, set, "exec_command", `{"cmd":"true","login":true}`)
	expect.Contains(t, answer.Text, "login shell is disabled by config; omit `login` or set it to false.")
	if o := structured[tools.Outcome](t, call(t, set, "exec_command", `{"cmd":"true","login":false}`)); *o.ExitCode != 0 {
		t.Errorf("%+v", o)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	set, _ := open(t, tools.Options{Session: execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}})
	for _, test := range []struct{ tool, arguments, code, says string }{
		{"exec_command", `{"cmd":"rm -rf x"}`, "rejected", "exec_command for `rm -rf x` failed: "},
		{"exec_command", `{"cmd":"true","workdir":"/does/not/exist"}`, "", "/does/not/exist"},
		{"write_stdin", `{"session_id":77777}`, "unknown_process", "write_stdin failed: "},
		{"read_output", `{"session_id":77777}`, "unknown_process", "list_processes names"},
		{"terminate_process", `{"session_id":77777}`, "unknown_process", "77777"},
		{"send_signal", `{"session_id":77777,"signal":"int"}`, "unknown_process", "77777"},
		{"resize", `{"session_id":77777,"rows":1,"cols":1}`, "unknown_process", "77777"},
	} {
		answer := call(t, set, test.tool, test.arguments)
		if answer.Err == nil || test.code != "" && string(answer.Err.Code) != test.code {
			t.Errorf("%s %s: %+v", test.tool, test.arguments, answer)
		}
		expect.Contains(t, answer.Text, test.says, " failed: ", tools.Advice(string(answer.Err.Code)))
	}
}

func TestInputIsRefusedWithoutATerminal(t *testing.T) {
	set, _ := open(t)
	id := startReady(t, set, "trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done")
	answer := call(t, set, "write_stdin", fmt.Sprintf(`{"session_id":%d,"chars":"x"}`, id))
	if answer.Err == nil || answer.Err.Code != messages.ErrStdinClosed {
		t.Fatalf("%+v", answer)
	}
	expect.Contains(t, answer.Text, "stdin is closed for this session; rerun exec_command with tty=true to keep stdin open")
	answer = call(t, set, "write_stdin", fmt.Sprintf(`{"session_id":%d,"chars":"\u0003","yield_time_ms":10000}`, id))
	if o := structured[tools.Outcome](t, answer); *o.ExitCode != 7 {
		t.Errorf("%+v", o)
	}
}

// Ten calls are begun and none is waited for: the process sees their bytes in that order.
func TestCallsBeginInOrderAndAreAnsweredIndependently(t *testing.T) {
	set, _ := open(t)
	id := startReady(t, set, "stty -echo; echo ready; cat", `"tty":true`)
	slow := set.Begin(t.Context(), tools.Request{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"exec sleep 60","yield_time_ms":30000}`)})
	var want strings.Builder
	var calls []*tools.Call
	for i := range 10 {
		fmt.Fprintf(&want, "%d\n", i)
		calls = append(calls, set.Begin(t.Context(), tools.Request{Name: "write_stdin",
			Arguments: json.RawMessage(fmt.Sprintf(`{"session_id":%d,"chars":"%d\n","yield_time_ms":250}`, id, i))}))
	}
	for _, c := range calls {
		structured[tools.Outcome](t, c.Answer())
	}
	expect.Eventually(t, "the process saw everything in order", func() bool {
		said := call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d}`, id)).Text
		return strings.HasSuffix(strings.ReplaceAll(said, "\r", ""), want.String())
	})
	select {
	case <-slow.Done():
		t.Error("the slow call was answered")
	default:
	}
}

// A call keeps its place even if the next call begins at once: a termination never overtakes a write before it.
func TestACallThatBeganLaterActsLater(t *testing.T) {
	set, _ := open(t)
	for range 4 {
		id := startReady(t, set, "echo ready; exec cat", `"tty":true`)
		write := set.Begin(t.Context(), tools.Request{Name: "write_stdin", Arguments: json.RawMessage(fmt.Sprintf(`{"session_id":%d,"chars":"x\n"}`, id))})
		end := set.Begin(t.Context(), tools.Request{Name: "terminate_process", Arguments: json.RawMessage(fmt.Sprintf(`{"session_id":%d,"grace_ms":0}`, id))})
		if answer := write.Answer(); answer.Err != nil {
			t.Fatalf("the write came after the end: %s", answer.Text)
		}
		if answer := end.Answer(); answer.Err != nil {
			t.Fatal(answer.Text)
		}
	}
}

func TestACommandWhoseCallIsCancelledIsEnded(t *testing.T) {
	set, session := open(t)
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	c := set.Begin(ctx, tools.Request{Name: "exec_command", Arguments: json.RawMessage(fmt.Sprintf(`{"cmd":"echo $$ > %s; exec sleep 60"}`, file))})
	var pid int
	expect.Eventually(t, "the command runs", func() bool {
		content, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(content)))
		return pid > 0
	})
	cancel()
	checkEnded(t, c.Answer())
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the command lives: %v", err)
	}
	if left, err := session.List(t.Context()); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

func checkEnded(t *testing.T, answer tools.Answer) {
	t.Helper()
	if answer.Err == nil || answer.Err.Code != messages.ErrCancelled || answer.Running || strings.Contains(answer.Text, "call again") {
		t.Errorf("%+v", answer)
	}
	expect.Contains(t, answer.Text, "The command was ended with everything it had started. It may have had effects")
}

// lateCancelled is a context that ends only after its call was answered.
type lateCancelled struct {
	context.Context
	begun chan struct{} // closed when the call has begun
}

func (c lateCancelled) Err() error {
	select {
	case <-c.begun:
		return context.Canceled
	default:
		return nil
	}
}

func TestACommandWhoseCallIsCancelledAtItsAnswerIsEnded(t *testing.T) {
	set, session := open(t)
	begun := make(chan struct{})
	ctx := lateCancelled{t.Context(), begun}
	c := set.Begin(ctx, tools.Request{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"exec sleep 60","yield_time_ms":250}`)})
	close(begun)
	checkEnded(t, c.Answer())
	if left, err := session.List(t.Context()); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

func TestACancelledCallThatRanNothingSaysSo(t *testing.T) {
	set, session := open(t, tools.Options{Session: execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}})
	asked, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindApprovalRequested}})
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	ctx, cancel := context.WithCancel(t.Context())
	request := tools.Request{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"rm -rf x"}`)}
	c := set.Begin(ctx, request)
	if _, err := asked.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, answer := range []tools.Answer{c.Answer(), set.Begin(ctx, request).Answer()} {
		if answer.Err == nil || answer.Err.Code != messages.ErrCancelled || !strings.HasSuffix(answer.Text, " Nothing was run.") {
			t.Errorf("%+v", answer)
		}
	}
}

func TestAnyOtherCancelledCallEndsNothing(t *testing.T) {
	set, session := open(t)
	id := start(t, set, "sleep 0.3; echo still here; exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	c := set.Begin(ctx, tools.Request{Name: "write_stdin", Arguments: json.RawMessage(fmt.Sprintf(`{"session_id":%d}`, id))})
	cancel()
	if answer := c.Answer(); answer.Err == nil || answer.Err.Code != messages.ErrCancelled {
		t.Errorf("%+v", answer)
	}
	expect.Eventually(t, "the output is there, and none of it was taken", func() bool {
		return strings.HasSuffix(call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d,"tail":11}`, id)).Text, "still here\n")
	})
	if left, err := session.List(t.Context()); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}

// When Begin has returned, the session knows of the call: a caller that lists the processes finds its command.
func TestBeginReturnsWhenTheCallHasItsPlace(t *testing.T) {
	set, session := open(t)
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		c := set.Begin(ctx, tools.Request{Name: "exec_command", Arguments: json.RawMessage(`{"cmd":"exec sleep 60"}`)})
		if known, err := session.List(t.Context()); err != nil || len(known) != 1 {
			t.Errorf("the session knows of %d processes, %v", len(known), err)
		}
		cancel()
		c.Answer()
	}
}

// Nobody sits in front of the terminal of a model: a program that asks it something would wait for ever.
func TestATerminalAnswersPrograms(t *testing.T) {
	set, _ := open(t)
	answer := call(t, set, "exec_command",
		`{"cmd":"stty raw -echo; printf '\\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c","tty":true,"yield_time_ms":30000}`)
	expect.Contains(t, answer.Text, "Output:\n\x1b[6n", "033   [   1   ;   1   R")
}

func TestAPatchIsATool(t *testing.T) {
	dir := t.TempDir()
	set, _ := open(t, tools.Options{Session: execbus.SessionOptions{Dir: dir, NoLoginShell: true}})
	patch := "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
	call := func(name string, arguments map[string]any) tools.Answer {
		t.Helper()
		encoded, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		return call(t, set, name, string(encoded))
	}
	checked := call("apply_patch", map[string]any{"input": patch, "check_only": true})
	expect.Contains(t, checked.Text, "Checked only, nothing was changed", "A a")
	if _, err := os.Lstat(dir + "/a"); err == nil {
		t.Error("it was written")
	}
	applied := call("apply_patch", map[string]any{"input": patch})
	if applied.Text != "Success. Updated the following files:\nA a\n" || applied.Err != nil {
		t.Errorf("%+v", applied)
	}
	if files := applied.Structured.(tools.PatchOutcome).Files; len(files) != 1 || files[0].Kind != messages.ChangeAdd || files[0].State != messages.StateChanged || files[0].Added != 1 {
		t.Errorf("%+v", files)
	}
	failed := call("apply_patch", map[string]any{"input": "*** Begin Patch\n*** Update File: a\n@@\n-y\n+z\n*** End Patch"})
	expect.Contains(t, failed.Text, "apply_patch verification failed: ", dir+"/a", "Nothing was changed")
	command := call("exec_command", map[string]any{"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch\nEOF\n"})
	if want := regexp.MustCompile(`^Wall time: 0\.0000 seconds\nOutput:\nExit code: 0\nWall time: \d+(\.\d)? seconds\nOutput:\nSuccess\. Updated the following files:\nM a\n$`); !want.MatchString(command.Text) {
		t.Errorf("%q", command.Text)
	}
	expect.Contains(t, call("exec_command", map[string]any{"cmd": patch}).Text, "apply_patch verification failed: ", "is a patch")
}
