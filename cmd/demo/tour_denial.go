package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

func showDenial(ctx context.Context, t *tour, s *scene) error {
	o, err := openCage(s, messages.ApproveOnFailure)
	if err != nil {
		return err
	}
	defer o.close()
	written := func() int64 {
		info, err := os.Stat(filepath.Join(o.dir, "file"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	before := int64(-1)
	o.before = func() { before = written() }
	script := "echo trying; echo text > ../file"
	s.say("sh -c '%s', under the approval policy on-failure:", script)
	c, result, err := o.run(ctx, t, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", script}})
	if tooWeak(err) {
		return s.skip(err.Error())
	}
	if err != nil {
		return err
	}
	s.quote(tools.Text(result))
	s.fact("decisions", c.decisions)
	s.check(c.denials == 1 && before == 0, "the first attempt was denied, and wrote nothing")
	s.check(c.questions == 1 && c.starts == 1, "there was one question, about another attempt of the same process")
	s.check(len(c.decisions) == 2 && !c.decisions[0].Unsandboxed && c.decisions[1].Unsandboxed && c.decisions[1].Source == messages.DecidedByPerson,
		"the record: first by policy, in the sandbox, then by a person, without it")
	s.check(result.Status == messages.StatusExited(0) && written() == int64(len("text\n")), "the second attempt has written the file")
	return nil
}

// openCage opens an office whose commands can write only in the directory "workspace" below its own. The person who is asked agrees.
func openCage(s *scene, mode messages.ApprovalMode) (*office, error) {
	var failed error
	o, err := openOffice(s, messages.Decision{Kind: messages.DecisionApproved}, func(_ *execbus.Options, session *execbus.SessionOptions) {
		session.Dir = filepath.Join(session.Dir, "workspace")
		failed = os.MkdirAll(filepath.Join(session.Dir, ".git"), 0o700)
		session.Approval.Mode, session.LeastAssurance = mode, messages.AssuranceConfined
		session.Sandbox = &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}
	})
	if err == nil && failed != nil {
		o.close()
		return nil, failed
	}
	return o, err
}
