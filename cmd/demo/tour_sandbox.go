package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// trespass tries what a sandbox stops. Its argument is the pid of the host.
const trespass = `echo work > inside; echo "network off: $EXECBUS_SANDBOX_NETWORK_DISABLED"
kill -0 "$1" 2>/dev/null && echo "the host can get signals"
echo hook > .git/hook && echo ".git can be changed"
echo work > ../outside`

func showSandbox(ctx context.Context, t *tour, s *scene) error {
	o, err := openCage(s, messages.ApproveNever)
	if err != nil {
		return err
	}
	defer o.close()
	s.say("The sandbox policy is workspace-write: a command may write in its workspace, and may not use the network.")
	c, result, err := o.run(ctx, t, messages.ExecCommand{Argv: []string{"/bin/sh", "-c", trespass, "sh", fmt.Sprint(os.Getpid())}})
	if tooWeak(err) {
		return s.skip(err.Error())
	}
	if err != nil {
		return err
	}
	s.quote(tools.Text(result))
	s.fact("enforced", c.enforced)
	if c.enforced != nil {
		s.say("What was enforced: %s.", c.enforced)
	}
	s.check(o.has("workspace/inside") && !o.has("outside"), "the command has written in its workspace, and not outside of it")
	s.check(strings.Contains(result.OutputText(), "network off: 1"), "it was told that there is no network")
	d := result.Denial
	s.check(d != nil && !d.Grant.Empty() && (d.Path == filepath.Join(o.dir, "outside") || strings.Contains(d.Path, ".git")),
		"the answer says what was denied, and which permission would allow it")
	if c.enforced == nil || c.enforced.Level != messages.AssuranceIsolated {
		s.say("At this level .git is not protected.")
		return nil
	}
	s.check(!o.has("workspace/.git/hook"), "it could not write in .git, where the hooks are that git runs outside of the sandbox")
	s.check(!strings.Contains(result.OutputText(), "can get signals"), "it could not reach the host, which is not among the processes that it sees")
	return nil
}

// tooWeak reports whether a command was refused because this machine cannot enforce its policy.
func tooWeak(err error) bool {
	refusal, is := errors.AsType[*messages.Error](err)
	return is && refusal.Enforceable != ""
}
