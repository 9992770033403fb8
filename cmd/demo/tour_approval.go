package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// office is a runtime of its own, with one session, an approver who always gives the same answer, and a temporary directory.
type office struct {
	scene   *scene
	rt      *execbus.Runtime
	session *execbus.Session
	events  subscription
	dir     string
	rules   string // the file that gets new rules
	answer  messages.Decision
	before  func() // called before each answer; nil if nothing is to be called
	shown   bool   // a question was shown in full
}

// openOffice opens an office that asks about every command not known to be safe. change may adjust its options.
func openOffice(s *scene, answer messages.Decision, change func(*execbus.Options, *execbus.SessionOptions)) (*office, error) {
	o := &office{scene: s, answer: answer}
	var err error
	if o.dir, err = os.MkdirTemp("", "execbus-tour-"); err != nil {
		return nil, err
	}
	o.rules = filepath.Join(o.dir, "rules", "default.rules")
	options := execbus.Options{AmendmentFile: o.rules}
	session := execbus.SessionOptions{Dir: o.dir, Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted},
		Approver: execbus.ApproverFunc(o.approve)}
	if change != nil {
		change(&options, &session)
	}
	if o.rt, err = execbus.Start(options); err != nil {
		return nil, errors.Join(err, os.RemoveAll(o.dir))
	}
	if o.session, err = o.rt.OpenSession(session); err == nil {
		o.events, err = o.session.Events(execbus.Watch{})
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *office) close() {
	err := errors.Join(shutdown(o.rt), os.RemoveAll(o.dir))
	o.scene.check(err == nil, "nothing is left of it")
}

// approve shows a question as the interactive demo would, the first in full, and gives the answer.
func (o *office) approve(_ context.Context, q messages.Question) (messages.Decision, error) {
	text := q.Text()
	if o.shown {
		text = fmt.Sprintf("Run this command?\n\n%s\n\nand so on, as above", q.Display)
	}
	o.scene.quote(text)
	o.shown = true
	if o.before != nil {
		o.before()
	}
	for _, choice := range q.Choices {
		if choice.Kind == o.answer.Kind {
			o.scene.say("The answer: %s", strings.TrimSpace(choice.String()+" "+o.answer.Rejection))
		}
	}
	return o.answer, nil
}

// course records the events of one command.
type course struct {
	questions, starts, denials int
	decisions                  []messages.ToolDecision
	enforced                   *messages.Enforcement // of the first attempt
	end                        messages.EndRecord
}

// run runs a command to its end. err says why it did not run.
func (o *office) run(ctx context.Context, t *tour, command messages.ExecCommand) (c course, result *messages.Result, err error) {
	command.Call, command.Yield = messages.CallID(t.call()), new(messages.MaxYield)
	result, err = o.session.Exec(ctx, command)
	for {
		event, lost := o.events.Next(ctx)
		if lost != nil {
			return c, result, errors.Join(err, lost)
		}
		switch e := event.(type) {
		case messages.ApprovalRequested:
			c.questions++
		case messages.ToolDecision:
			c.decisions = append(c.decisions, e)
		case messages.ExecStarted:
			c.starts++
			c.enforced = e.Enforced
		case messages.AttemptEnded:
			c.denials++
		case messages.ExecEnded:
			c.end = e.EndRecord
			return c, result, err
		}
	}
}

// makeDir returns a command that is not known to be safe.
func makeDir(names ...string) messages.ExecCommand {
	return messages.ExecCommand{Argv: append([]string{"/bin/mkdir", "-p"}, names...)}
}

// has reports whether a file exists.
func (o *office) has(name string) bool {
	_, err := os.Lstat(filepath.Join(o.dir, name))
	return err == nil
}

func showQuestion(ctx context.Context, t *tour, s *scene) error {
	o, err := openOffice(s, messages.Decision{Kind: messages.DecisionApproved}, nil)
	if err != nil {
		return err
	}
	defer o.close()
	s.say("The approval policy is untrusted: pwd runs at once, mkdir does not. The tour itself presses the keys.")
	safe, _, err := o.run(ctx, t, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", "pwd"}})
	if err != nil {
		return err
	}
	s.check(safe.questions == 0 && safe.starts == 1, "pwd, known to be safe, ran without a question")
	asked := false
	o.before = func() { asked = !o.has("new") }
	c, result, err := o.run(ctx, t, makeDir("new"))
	if err != nil {
		return err
	}
	s.fact("questions", c.questions)
	s.fact("decisions", c.decisions)
	s.check(c.questions == 1 && asked, "there was one question, before anything had happened")
	s.check(result.Status == messages.StatusExited(0) && o.has("new"), "then the command ran")
	s.check(len(c.decisions) == 1 && c.decisions[0].Source == messages.DecidedByPerson, "the record says that a person decided")
	return nil
}

func showRemembered(ctx context.Context, t *tour, s *scene) error {
	o, err := openOffice(s, messages.Decision{Kind: messages.DecisionApprovedForSession}, nil)
	if err != nil {
		return err
	}
	defer o.close()
	var questions []int
	ask := func() (course, error) {
		c, _, err := o.run(ctx, t, makeDir("new"))
		questions = append(questions, c.questions)
		return c, err
	}
	if _, err := ask(); err != nil {
		return err
	}
	s.say("The same command again:")
	again, err := ask()
	if err != nil {
		return err
	}
	s.check(again.starts == 1 && len(again.decisions) == 1 && again.decisions[0].Source == messages.DecidedByCache, "it ran because of the earlier answer")
	grants, err := o.session.Grants(ctx)
	if err != nil {
		return err
	}
	for _, g := range grants {
		s.say("This is remembered:")
		s.quote(string(g.ID) + "  " + g.Display)
		if err := o.session.Revoke(ctx, messages.RevokeGrant{Grant: g.ID}); err != nil {
			return err
		}
	}
	s.say("The answer is revoked, and the same command is given once more:")
	if _, err := ask(); err != nil {
		return err
	}
	s.fact("questions", questions)
	s.check(slices.Equal(questions, []int{1, 0, 1}), "questions: %d for the first, %d for the second, %d after the revocation",
		questions[0], questions[1], questions[2])
	return nil
}

func showRefusal(ctx context.Context, t *tour, s *scene) error {
	const why = "use the existing directory"
	o, err := openOffice(s, messages.Decision{Kind: messages.DecisionDenied, Rejection: why}, nil)
	if err != nil {
		return err
	}
	defer o.close()
	c, _, err := o.run(ctx, t, makeDir("new"))
	if err == nil {
		s.check(false, "a refused command is an error")
		return nil
	}
	s.say("The caller gets this answer:")
	s.quote(err.Error())
	s.fact("error", err.Error())
	s.check(errors.Is(err, messages.ErrRejected) && strings.Contains(err.Error(), why), "the answer is a rejection, with the reason")
	s.check(c.starts == 0 && c.end.Cause == messages.CauseRejected, "nothing was started, and the end record says: %s", c.end.Cause)
	s.check(!o.has("new"), "the directory does not exist")
	return nil
}

func showAmendment(ctx context.Context, t *tour, s *scene) error {
	o, err := openOffice(s, messages.Decision{Kind: messages.DecisionApprovedWithRule}, nil)
	if err != nil {
		return err
	}
	defer o.close()
	s.say("The caller of this command suggests a rule for commands that begin with /bin/mkdir -p.")
	command := makeDir("one")
	command.PrefixRule = []string{"/bin/mkdir", "-p"}
	first, _, err := o.run(ctx, t, command)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(o.rules)
	if err != nil {
		return err
	}
	s.say("The rule file now contains:")
	s.quote(string(text))
	s.fact("rule", string(text))
	s.check(first.questions == 1 && string(text) == execbus.RuleLine(command.PrefixRule)+"\n", "it is the line that the question showed")
	s.say("Another command that begins with these words:")
	second, _, err := o.run(ctx, t, makeDir("two", "three"))
	if err != nil {
		return err
	}
	s.check(second.questions == 0 && o.has("two") && o.has("three"), "it ran without a question")
	s.check(len(second.decisions) == 1 && second.decisions[0].Source == messages.DecidedByRule, "the record says that a rule decided")
	other, _, err := o.run(ctx, t, messages.ExecCommand{Argv: []string{"/bin/mkdir", "four"}})
	s.check(err == nil && other.questions == 1, "a command without the -p still needs an answer")
	return nil
}
