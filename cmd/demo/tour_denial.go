package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// playedSandbox is a spawner that imitates a sandbox, so that the scene is the same on every kernel. Confined commands cannot
// write to files: their file size limit is zero, and the kernel's signal for exceeding it is reported as a denial. It does not
// stop a command that tries to get around it.
type playedSandbox struct{ execbus.Spawner }

// Spawn implements execbus.Spawner.
func (p playedSandbox) Spawn(ctx context.Context, launch execbus.Launch) (execbus.Child, error) {
	if launch.Sandbox == nil {
		return p.Spawner.Spawn(ctx, launch)
	}
	launch.Sandbox = nil
	launch.Argv = append([]string{"/bin/sh", "-c", `ulimit -c 0; ulimit -f 0; exec "$@"`, "played sandbox"}, launch.Argv...)
	tell := launch.Events
	launch.Events = func(event execbus.ChildEvent) {
		if exited, ok := event.(execbus.ChildExited); ok && exited.Status == messages.StatusSignaled(syscall.SIGXFSZ) {
			exited.Denial = &messages.Denial{Operation: "write to a file"}
			event = exited
		}
		tell(event)
	}
	return p.Spawner.Spawn(ctx, launch)
}

// Can implements execbus.Spawner. It claims more than is true, because the sandbox is imitated.
func (playedSandbox) Can(execbus.Launch) (execbus.Enforcement, error) {
	return execbus.Enforcement{Level: messages.AssuranceConfined}, nil
}

func showDenial(ctx context.Context, t *tour, s *scene) error {
	s.say("The sandbox of this step is imitated, so that it is the same on every machine: a spawner around the real one")
	s.say("limits files to 0 bytes, and reports the kernel's signal as a denial. Everything else is real.")
	spawner, err := execbus.NewSpawner()
	if err != nil {
		return err
	}
	o, err := openOffice(s, messages.Decision{Kind: messages.DecisionApproved}, func(options *execbus.Options, session *execbus.SessionOptions) {
		options.Spawner = playedSandbox{spawner}
		session.Approval.Mode = messages.ApproveOnFailure
		session.Sandbox = &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
	})
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
	script := "echo trying; echo text > file"
	s.say("sh -c '%s', under the approval policy on-failure:", script)
	c, result, err := o.run(ctx, t, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", script}})
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
