package execbus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// An approver answers in the place of a person. What was approved for the session is not asked about again.
func ExampleApproverFunc() {
	ctx := context.Background()
	approver := execbus.ApproverFunc(func(_ context.Context, q messages.Question) (messages.Decision, error) {
		fmt.Println("asked:", q.Display)
		return messages.Decision{Kind: messages.DecisionApprovedForSession}, nil
	})
	session := must(onWarden().OpenSession(execbus.SessionOptions{Dir: "/", Approver: approver,
		Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}))
	defer func() { _ = session.Close(ctx) }()
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
	session := must(onWarden().OpenSession(execbus.SessionOptions{Dir: "/", Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}))
	defer func() { _ = session.Close(ctx) }()
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
	session := must(onWarden().OpenSession(execbus.SessionOptions{Dir: "/", Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}}))
	defer func() { _ = session.Close(ctx) }()
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
	session := must(onWarden().OpenSession(execbus.SessionOptions{Dir: "/", Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted},
		Approver: execbus.ApproverFunc(func(context.Context, messages.Question) (messages.Decision, error) {
			asked++
			return messages.Decision{Kind: messages.DecisionApprovedForSession}, nil
		})}))
	defer func() { _ = session.Close(ctx) }()
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
	session, shut := open()
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
