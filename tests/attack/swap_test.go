//go:build linux

package attack

import (
	"context"
	"os"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// The root is replaced after the policy was set and before the command starts. The command must not write to the replacement.
func TestARootThatIsReplaced(t *testing.T) {
	rt := host(t)
	if level, _, why := best(t, rt); level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %s", why)
	}
	for name, replace := range map[string]func(*scene) error{
		"by a link":          func(s *scene) error { return os.Symlink(s.Out, s.Work) },
		"by a directory":     func(s *scene) error { return os.Mkdir(s.Work, 0o755) },
		"by the one outside": func(s *scene) error { return os.Rename(s.Out, s.Work) },
		"by nothing":         func(*scene) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := stage(t, rt, attack{})
			session, err := rt.OpenSession(execbus.SessionOptions{Dir: s.Work, Sandbox: &s.policy, LeastAssurance: messages.AssuranceConfined})
			must(t, err)
			defer func() { must(t, session.Close(context.Background())) }()
			if _, err := session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"true"}}); err != nil {
				t.Fatal(err)
			}
			must(t, os.Rename(s.Work, s.Work+".old"))
			must(t, replace(s))
			result, err := session.Exec(t.Context(), messages.ExecCommand{Dir: "/", Argv: []string{"touch", s.Work + "/new"}})
			if _, found := os.Stat(s.Work + "/new"); found == nil {
				t.Errorf("it was written: %+v, %v", result, err)
			}
			if err == nil {
				t.Errorf("it started: %s", result.Output)
			}
		})
	}
}
