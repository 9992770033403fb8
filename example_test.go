package execbus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// open starts a runtime with a session, and shut ends both.
func open(options execbus.SessionOptions) (session *execbus.Session, shut func()) {
	rt := must(execbus.Start(execbus.Options{}))
	session = must(rt.OpenSession(options))
	return session, func() {
		if err := rt.Shutdown(context.Background()); err != nil {
			panic(err)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func ExampleStart() {
	ctx := context.Background()
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: "/usr"})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := session.Exec(ctx, messages.ExecCommand{Script: "pwd; exit 3", Shell: "bash", Login: new(bool)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(result.OutputText(), result.Status, "\n")
	if err := rt.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// /usr
	// code(3)
}

func ExampleRuntime_OpenSession() {
	rt := must(execbus.Start(execbus.Options{}))
	defer func() { _ = rt.Shutdown(context.Background()) }()
	_, err := rt.OpenSession(execbus.SessionOptions{MaxProcesses: -1})
	fmt.Println(err)
	// Output: configure SessionOptions.MaxProcesses: -1 is out of range; use 1 to 50000, or 0 for the default of 64
}

func ExampleRuntime_Shutdown() {
	ctx := context.Background()
	rt := must(execbus.Start(execbus.Options{}))
	session := must(rt.OpenSession(execbus.SessionOptions{}))
	must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))

	fmt.Println("shutdown:", rt.Shutdown(ctx))
	fmt.Println("again:", rt.Shutdown(ctx))
	_, err := session.List(ctx)
	fmt.Println("list:", err)
	// Output:
	// shutdown: <nil>
	// again: <nil>
	// list: use session: the session is closed; open another one
}

func ExampleRuntime_Stats() {
	ctx := context.Background()
	rt := must(execbus.Start(execbus.Options{}))
	defer func() { _ = rt.Shutdown(ctx) }()
	session := must(rt.OpenSession(execbus.SessionOptions{}))
	must(session.Run(ctx, messages.RunCommand{Argv: []string{"true"}}))
	must(session.Run(ctx, messages.RunCommand{Argv: []string{"false"}}))
	must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))
	if err := session.Close(ctx); err != nil {
		fmt.Println(err)
	}
	stats := must(rt.Stats(ctx))
	fmt.Println("started:", stats.Started)
	fmt.Println("exited:", stats.Ended[messages.CauseExited])
	fmt.Println("terminated:", stats.Ended[messages.CauseTerminated])
	// Output:
	// started: 3
	// exited: 2
	// terminated: 1
}

func ExampleSession_Exec() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	result, err := session.Exec(context.Background(), messages.ExecCommand{Argv: []string{"seq", "1", "1000"}, MaxOutputTokens: new(10)})
	if err != nil {
		fmt.Println(err)
		return
	}
	text := tools.Text(result) // for a model
	fmt.Println(text[strings.Index(text, "Process exited"):])
	// Output:
	// Process exited with code 0
	// Original token count: 974
	// Output:
	// Warning: truncated output (original token count: 974)
	// Total output lines: 1000
	//
	// 1
	// 2
	// 3
	// 4
	// 5
	// 6
	// 7
	// 8
	// 9
	// 10…964 tokens truncated…96
	// 997
	// 998
	// 999
	// 1000
}

// An error says what happened, to what, and what to do, and matches a sentinel.
func ExampleSession_Exec_error() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	_, err := session.Exec(context.Background(), messages.ExecCommand{Argv: []string{"/usr/bin/maek"}})
	fmt.Println(errors.Is(err, messages.ErrNoSuchProgram))
	fmt.Println(err)
	// Output:
	// true
	// spawn /usr/bin/maek: no such program; check the path
}

func ExampleSession_Run() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	script := "echo to stdout; echo to stderr >&2; sleep 1000"
	command := messages.RunCommand{Argv: []string{"bash", "-c", script}, Timeout: new(2 * time.Second)}
	result := messages.NormalizeRun(session.Run(context.Background(), command))
	fmt.Printf("%d, timed out: %v\n%s", result.ExitCode, result.TimedOut, result.Aggregated)
	// Output:
	// 124, timed out: true
	// to stdout
	// to stderr
}

func ExampleSession_Write() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	command := messages.ExecCommand{Argv: []string{"tr", "a-z", "A-Z"}, OpenStdin: true}
	started := must(session.Start(ctx, command))
	result := must(session.Write(ctx, messages.WriteStdin{Process: started.ID(), Bytes: []byte("hello\n"), UntilTaken: true}))
	fmt.Println("bytes taken:", result.Taken)
	if err := session.CloseStdin(ctx, messages.CloseStdin{Process: started.ID()}); err != nil {
		fmt.Println(err)
	}
	fmt.Print(must(session.Poll(ctx, messages.Poll{Process: started.ID(), NoTimeout: true})).OutputText())
	// Output:
	// bytes taken: 6
	// HELLO
}

// A command that takes longer than its yield time lives on. NoTimeout waits for its end.
func ExampleSession_Poll() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	command := messages.ExecCommand{Argv: []string{"bash", "-c", "read line; echo done"}, OpenStdin: true, Yield: new(messages.MinYield)}
	result := must(session.Exec(ctx, command))
	fmt.Printf("%d is running: %v\n", result.Process, result.Running)

	if err := session.CloseStdin(ctx, messages.CloseStdin{Process: result.Process}); err != nil {
		fmt.Println(err)
	}
	result = must(session.Poll(ctx, messages.Poll{Process: result.Process, NoTimeout: true}))
	fmt.Printf("%s: %s", result.Status, result.OutputText())

	_, err := session.Poll(ctx, messages.Poll{Process: result.Process})
	fmt.Println(err)
	// Output:
	// 1000 is running: true
	// code(0): done
	// use process 1000: it exited with code 0; read its last output, or start the command again
}

func ExampleSession_Read() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	result := must(session.Exec(ctx, messages.ExecCommand{Argv: []string{"seq", "1", "1000"}}))
	page := must(session.Read(ctx, messages.ReadOutput{Process: result.Process, Tail: 9}))
	for _, chunk := range page.Chunks {
		fmt.Printf("%s from byte %d of %d:\n%s", chunk.Stream, chunk.Offset, page.Total, chunk.Bytes)
	}
	// Output:
	// stdout from byte 3884 of 3893:
	// 999
	// 1000
}

func ExampleSession_Resize() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	command := messages.ExecCommand{Argv: []string{"bash", "-c", "read line; stty size"}, TTY: true}
	started := must(session.Start(ctx, command))
	if err := session.Resize(ctx, messages.Resize{Process: started.ID(), Size: messages.Size{Rows: 50, Cols: 132}}); err != nil {
		fmt.Println(err)
	}
	write := messages.WriteStdin{Process: started.ID(), Bytes: []byte("go\n"), Yield: new(30 * time.Second)}
	lines := strings.Fields(must(session.Write(ctx, write)).OutputText())
	fmt.Println(lines) // the terminal's echo comes first
	// Output: [go 50 132]
}

func ExampleSession_Signal() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	started := must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))
	if err := session.Signal(ctx, messages.Signal{Process: started.ID(), Signal: syscall.SIGINT}); err != nil {
		fmt.Println(err)
	}
	result := must(session.Poll(ctx, messages.Poll{Process: started.ID(), NoTimeout: true}))
	code, _ := result.Status.Code()
	fmt.Println(result.Status, code)
	// Output: signal(2) 130
}

func ExampleSession_CloseStdin() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	started := must(session.Start(ctx, messages.ExecCommand{Argv: []string{"wc", "-c"}, OpenStdin: true}))
	must(session.Write(ctx, messages.WriteStdin{Process: started.ID(), Bytes: make([]byte, 100_000), UntilTaken: true}))
	if err := session.CloseStdin(ctx, messages.CloseStdin{Process: started.ID()}); err != nil {
		fmt.Println(err)
	}
	fmt.Print(must(session.Poll(ctx, messages.Poll{Process: started.ID(), NoTimeout: true})).OutputText())
	// Output: 100000
}

func ExampleSession_Terminate() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	started := must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))
	end := must(session.Terminate(ctx, messages.Terminate{Process: started.ID()}))
	fmt.Println(end)
	fmt.Println("survivors:", end.Tree.Survivors)
	// Output:
	// terminated by user, signal(15)
	// survivors: []
}

func ExampleSession_TerminateAll() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	for range 3 {
		must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))
	}
	fmt.Println(session.TerminateAll(ctx))
	fmt.Println(len(must(session.List(ctx))), "processes")
	// Output:
	// <nil>
	// 0 processes
}

func ExampleSession_List() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))
	must(session.Start(ctx, messages.ExecCommand{Argv: []string{"bash", "-c", "read line"}, TTY: true, Dir: "usr"}))
	for _, p := range must(session.List(ctx)) {
		fmt.Printf("%d %s: %s in %s, terminal: %v\n", p.Process, p.State, p.Label, p.Dir, p.TTY)
	}
	// Output:
	// 1000 running: sleep 1000 in /, terminal: false
	// 1001 running: bash -c 'read line' in /usr, terminal: true
}

func ExampleSession_Records() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	started := must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))
	must(session.Terminate(ctx, messages.Terminate{Process: started.ID()}))
	for _, p := range must(session.Records(ctx)) {
		fmt.Printf("%d %s: %s, %v\n", p.Process, p.State, p.Label, p.End)
	}
	// Output: 1000 closed: sleep 1000, terminated by user, signal(15)
}

func ExampleSession_UpdateEnvironment() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	dir := "usr/bin" // relative to the directory so far
	policy := messages.EnvironmentPolicy{Inherit: messages.InheritCore, Set: map[string]string{"GREETING": "hello"}}
	if err := session.UpdateEnvironment(ctx, messages.UpdateEnvironment{Dir: &dir, Environment: &policy}); err != nil {
		fmt.Println(err)
	}
	command := messages.ExecCommand{Argv: []string{"bash", "-c", "echo $GREETING from $PWD"}}
	fmt.Print(must(session.Exec(ctx, command)).OutputText())
	// Output: hello from /usr/bin
}

func ExampleSession_Events() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	events, err := session.Events(execbus.Watch{Calls: []messages.CallID{"greet"}, Lossless: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer events.Close()
	must(session.Start(ctx, messages.ExecCommand{Call: "greet", Argv: []string{"echo", "hello"}}))
	for event, err := range events.All(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e := event.(type) {
		case messages.ExecStarted:
			fmt.Printf("%d started: %q\n", e.Process, e.Argv)
		case messages.OutputDelta:
			fmt.Printf("%d says on %s: %s", e.Process, e.Stream, e.Bytes)
		case messages.ExecEnded:
			fmt.Printf("%d ended: %s, %d bytes of output\n", e.Process, e.String(), e.Total)
			return
		}
	}
	// Output:
	// 1000 started: ["echo" "hello"]
	// 1000 says on stdout: hello
	// 1000 ended: exited, code(0), 6 bytes of output
}

// While yields are paused no call is answered because its time is over.
func ExampleSession_PauseYields() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	if err := session.PauseYields(ctx); err != nil {
		fmt.Println(err)
	}
	command := messages.ExecCommand{Argv: []string{"bash", "-c", "sleep 0.5; echo done"}, Yield: new(messages.MinYield)}
	result := must(session.Exec(ctx, command))
	fmt.Printf("running: %v, %s", result.Running, result.OutputText())
	if err := session.ResumeYields(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: running: false, done
}

func ExampleSession_Close() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	must(session.Start(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}}))
	fmt.Println(session.Close(ctx))
	_, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"true"}})
	fmt.Println(errors.Is(err, messages.ErrClosed))
	// Output:
	// <nil>
	// true
}

// An approver answers in the place of a person. What was approved for the session is not asked about again.
func ExampleApproverFunc() {
	ctx := context.Background()
	approver := execbus.ApproverFunc(func(_ context.Context, q messages.Question) (messages.Decision, error) {
		fmt.Println("asked:", q.Display)
		return messages.Decision{Kind: messages.DecisionApprovedForSession}, nil
	})
	session, shut := open(execbus.SessionOptions{Dir: "/", Approver: approver,
		Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	defer shut()
	for range 2 {
		result := must(session.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "0"}}))
		fmt.Println(result.Status)
	}
	// Output:
	// asked: sleep 0
	// code(0)
	// code(0)
}

// A watcher for questions by name may answer them, and so may anybody else.
func ExampleSession_Decide() {
	ctx := context.Background()
	session, shut := open(execbus.SessionOptions{Dir: "/", Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	defer shut()
	questions := must(session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindApprovalRequested}}))
	defer questions.Close()
	go func() {
		for event := range questions.All(ctx) {
			if asked, ok := event.(messages.ApprovalRequested); ok {
				_ = session.Decide(ctx, messages.Decide{Question: asked.ID, Decision: messages.Decision{Kind: messages.DecisionDenied, Rejection: "not on a Friday"}})
			}
		}
	}()
	_, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "0"}})
	rejection := err.(*messages.Error)
	fmt.Println(rejection.Code, rejection.Detail)
	// Output: rejected not on a Friday
}

func ExampleSession_Questions() {
	ctx := context.Background()
	session, shut := open(execbus.SessionOptions{Dir: "/", Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	defer shut()
	events := must(session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindApprovalRequested}}))
	defer events.Close()
	ended := make(chan *messages.Result)
	go func() { ended <- must(session.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "0"}})) }()
	must(events.Next(ctx)) // it has been put
	for _, q := range must(session.Questions(ctx)) {
		fmt.Println(q.Display, "in", q.Dir)
		fmt.Println(session.Decide(ctx, messages.Decide{Question: q.ID, Decision: messages.Decision{Kind: messages.DecisionApproved}}))
	}
	fmt.Println((<-ended).Status)
	// Output:
	// sleep 0 in /
	// <nil>
	// code(0)
}

// A revoked grant is asked about again.
func ExampleSession_Revoke() {
	ctx := context.Background()
	asked := 0
	session, shut := open(execbus.SessionOptions{Dir: "/", Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted},
		Approver: execbus.ApproverFunc(func(context.Context, messages.Question) (messages.Decision, error) {
			asked++
			return messages.Decision{Kind: messages.DecisionApprovedForSession}, nil
		})})
	defer shut()
	command := messages.ExecCommand{Argv: []string{"sleep", "0"}}
	must(session.Exec(ctx, command))
	for _, grant := range must(session.Grants(ctx)) {
		fmt.Println(grant.Display, session.Revoke(ctx, messages.RevokeGrant{Grant: grant.ID}))
	}
	must(session.Exec(ctx, command))
	fmt.Println("asked", asked, "times")
	// Output:
	// sleep 0 <nil>
	// asked 2 times
}

// A rule file with an error keeps the others in force.
func ExampleRuntime_RuleErrors() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "rules"))
	defer func() { _ = os.RemoveAll(dir) }()
	_ = os.WriteFile(filepath.Join(dir, "a.rules"), []byte(`prefix_rule(pattern=["sleep"], decision="forbidden")`), 0o600)
	_ = os.WriteFile(filepath.Join(dir, "b.rules"), []byte("prefix_rule("), 0o600)
	rt := must(execbus.Start(execbus.Options{Rules: []execbus.RuleLayer{{Dir: dir, Trusted: true}}}))
	defer func() { _ = rt.Shutdown(ctx) }()
	fmt.Println("files with errors:", len(rt.RuleErrors()))

	session := must(rt.OpenSession(execbus.SessionOptions{}))
	_, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "0"}})
	fmt.Println(err.(*messages.Error).Detail)
	// Output:
	// files with errors: 1
	// `sleep 0` rejected: a rule of the policy forbids commands that begin with `sleep`
}

// Policies change for later commands.
func ExampleExecutor_UpdateEnvironment() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	err := session.Executor().UpdateEnvironment(ctx, messages.UpdateEnvironment{Approval: &messages.ApprovalPolicy{Mode: messages.ApproveNever}})
	fmt.Println(err)
	_, err = session.Exec(ctx, messages.ExecCommand{Argv: []string{"rm", "-rf", "./no-such-directory"}})
	fmt.Println(err.(*messages.Error).Code)
	// Output:
	// <nil>
	// rejected
}

func ExampleSession_Start() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	p, err := session.Start(ctx, messages.ExecCommand{Argv: []string{"sort"}, OpenStdin: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := io.Copy(p, strings.NewReader("pear\napple\n")); err != nil {
		fmt.Println(err)
	}
	if err := p.CloseStdin(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(p.Wait(ctx))
	result, err := p.Poll(ctx, messages.Poll{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", result.Output)
	// Output:
	// code(0) <nil>
	// apple
	// pear
}

func ExampleProcess_Follow() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	p, err := session.Start(ctx, messages.ExecCommand{Script: "echo 1; echo 2 >&2; read line; echo $line", OpenStdin: true, Login: new(false)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(p, "3")
	all := map[messages.Stream]string{}
	for event, err := range p.Follow(ctx, 0) { // from the first byte, however late this begins
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			all[e.Stream] += string(e.Bytes)
		case messages.Gap:
			fmt.Println(e) // this loop was too slow
		}
	}
	fmt.Printf("%q %q\n", all[messages.StreamStdout], all[messages.StreamStderr])
	// Output:
	// "1\n3\n" "2\n"
}

func ExampleSession_Process() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	result, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(time.Duration)})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := session.Process(ctx, result.Process)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Status())
	fmt.Println(p.Terminate(ctx))
	fmt.Println(p.Status())
	// Output:
	// none false
	// terminated by user, signal(15) <nil>
	// signal(15) true
}

func ExampleSession_Executor() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	process, err := session.Executor().Spawn(ctx, execbus.SpawnRequest{ProcessID: "cat-1", Dir: "/",
		Argv: []string{"bash", "-c", `read line; echo "$GREETING $line"; exit 3`}, Env: map[string]string{"GREETING": "hello"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(process, "world")
	for event, err := range process.Follow(ctx, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if delta, ok := event.(messages.OutputDelta); ok { // otherwise messages.Gap or messages.CaughtUp
			fmt.Printf("%s: %s", delta.Stream, delta.Bytes)
		}
	}
	fmt.Println(process.Wait(ctx))
	// Output:
	// stdout: hello world
	// code(3) <nil>
}

func ExampleSession_Wait() {
	session, shut := open(execbus.SessionOptions{Dir: "/", DeterministicIDs: true})
	defer shut()
	ctx := context.Background()
	both := messages.Wait{NoTimeout: true}
	for _, script := range []string{"exit 1", "exit 2"} {
		started, err := session.Start(ctx, messages.ExecCommand{Script: script})
		if err != nil {
			fmt.Println(err)
			return
		}
		both.For = append(both.For, messages.WaitFor{Process: started.ID()})
	}
	exits, err := session.Wait(ctx, both)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, exit := range exits {
		fmt.Println(exit.Status)
	}
	// Unordered output:
	// code(1)
	// code(2)
}
