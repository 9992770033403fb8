package actors

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// writing asks for a path besides what the sandbox allows.
func writing(command messages.ExecCommand, path string) messages.ExecCommand {
	command = widened(command)
	command.AdditionalPermissions.FileSystem.Write = []string{path}
	return command
}

// askingWary is a session in a sandbox whose commands are asked about.
func askingWary(t *testing.T, spawner ptyio.Spawner) *asker {
	return newAsker(t, &planner{Plan: policy.Plan{Decision: policy.Ask, Reason: "because"}}, hostOptions{seam: seam{Spawner: spawner}}, func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
	})
}

// A path leads elsewhere when its command is to start. That is a new question, and whatever answers or ends it, nothing is left.
func TestAPathThatMovesWhileItIsAskedAbout(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(*asker, messages.ApprovalRequested, waiting)
		err   error
		cause messages.Cause
	}{
		"yes": {func(s *asker, q messages.ApprovalRequested, _ waiting) {
			s.must(s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}))
		}, nil, messages.CauseExited},
		"no": {func(s *asker, q messages.ApprovalRequested, _ waiting) {
			s.must(s.decide(q.ID, messages.Decision{Kind: messages.DecisionDenied}))
		}, messages.ErrRejected, messages.CauseRejected},
		"cancelled": {func(_ *asker, _ messages.ApprovalRequested, call waiting) { call.cancel() }, messages.ErrCancelled, messages.CauseAborted},
		"terminated": {func(s *asker, _ messages.ApprovalRequested, _ waiting) {
			_, err := s.terminate(s.list()[0].Process)
			s.must(err)
		}, messages.ErrProcessEnded, messages.CauseTerminated},
		"closed": {func(s *asker, _ messages.ApprovalRequested, _ waiting) {
			must[protocol.Done](s.host, s.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
		}, messages.ErrProcessEnded, messages.CauseTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/dir"
			w := &wary{Spawner: realSpawner(t, hostOptions{})}
			s := askingWary(t, w)
			s.must(os.Mkdir(dir, 0o755))
			call := s.call(writing(shell("true"), dir))
			first := s.question()
			s.must(errors.Join(os.Rename(dir, dir+".old"), os.Symlink(dir+".old", dir)))
			s.must(s.decide(first.ID, messages.Decision{Kind: messages.DecisionApproved}))
			second := s.question()
			if first.Leads != nil || len(second.Leads) != 1 || !strings.HasSuffix(second.Leads[0], dir+".old") || second.Retry || second.Unsandboxed {
				t.Errorf("the questions are %+v and %+v", first.Question, second.Question)
			}
			if all := s.list(); len(all) != 1 || all[0].State != messages.StateAwaitingApproval {
				t.Errorf("the list has %+v", all)
			}
			c.then(s, second, call)
			if _, err := call.reply(); !errors.Is(err, c.err) {
				t.Errorf("answered with %v", err)
			}
			if end := probe.Expect[messages.ExecEnded](s.events, patience, nil); end.Cause != c.cause {
				t.Errorf("the end is %+v", end.EndRecord)
			}
			launches := w.launches()
			if started := c.err == nil; started != (len(launches) == 1) {
				t.Errorf("%d launches", len(launches))
			} else if c.err == nil && launches[0].Sandbox.Confinement().Additional.FileSystem.Write[0] != dir+".old" {
				t.Errorf("started with %+v", launches[0].Sandbox.Confinement())
			}
			awaitThat(t, "both widened sandboxes are released", func() bool { return slices.Equal(w.releases()[1:], []int{1, 1}) })
			s.answeredOnce()
		})
	}
}

// blind is a machine that cannot say where paths lead.
type blind struct{ *wary }

func (b blind) Resolver() ptyio.Resolver { return struct{ ptyio.Resolver }{b.wary.Resolver()} }

func TestAMachineThatCannotSayWherePathsLead(t *testing.T) {
	w := &wary{Spawner: realSpawner(t, hostOptions{})}
	s := askingWary(t, blind{w})
	call := s.call(writing(shell("true"), "/no/such/place"))
	if q := s.answer(messages.DecisionApproved); len(q.Leads) != 1 || !strings.Contains(q.Leads[0], "it is not known where this path leads") ||
		!strings.Contains(q.Text(), q.Leads[0]) {
		t.Errorf("the question is %+v", q.Question)
	}
	call.result()
	if more := w.launches()[0].Sandbox.Confinement().Additional; more.FileSystem.Write[0] != "/no/such/place" {
		t.Errorf("started with %+v", more)
	}
}

// must fails the test at an error.
func (s *asker) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
