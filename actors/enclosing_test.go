package actors

import (
	"context"
	"errors"
	"os"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// wary is a spawner that notes what it has to enforce, and claims to enforce it.
type wary struct {
	ptyio.Spawner
	refuse error                         // the result of Can
	look   func(ptyio.Confinement) error // what Enclose does; nil for nothing
	limit  messages.Limit                // the spawner ends its children because of this limit
	mu     sync.Mutex                    // guards the rest, which tests read
	made   []*waryEnclosure              // by Enclose and Widen, in their order
	given  []ptyio.Launch
}

// told is an answer, or an error.
func (s *talk) told(message any) any {
	s.t.Helper()
	reply, err := s.call(message).reply()
	if err != nil {
		return err
	}
	return reply
}

type waryEnclosure struct {
	ptyio.Enclosure
	maker    *wary
	released int
}

func (w *wary) enclosure(inner ptyio.Enclosure) ptyio.Enclosure {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := &waryEnclosure{Enclosure: inner, maker: w}
	w.made = append(w.made, e)
	return e
}

func (e *waryEnclosure) Release() {
	e.maker.mu.Lock()
	defer e.maker.mu.Unlock()
	e.released++
}

func (e *waryEnclosure) Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	inner, err := e.Enclosure.Widen(ctx, more, dir)
	return e.maker.enclosure(inner), err
}

func (w *wary) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	if w.look != nil {
		if err := w.look(c); err != nil {
			return nil, err
		}
	}
	return w.enclosure(ptyio.Enclosed(c)), nil
}

var played = messages.Enforcement{Level: messages.AssuranceConfined, Mechanisms: []string{"play"}}

func (w *wary) Can(ptyio.Launch) (messages.Enforcement, error) { return played, w.refuse }

func (w *wary) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	w.mu.Lock()
	w.given = append(w.given, launch)
	w.mu.Unlock()
	confined, events := launch.Sandbox != nil, launch.Events
	launch.Sandbox, launch.Limits = nil, messages.Limits{}
	launch.Events = func(e ptyio.Event) {
		switch event := e.(type) {
		case ptyio.Spawned:
			if confined {
				event.Enforced = &played
			}
			e = event
		case ptyio.Exited:
			event.Limit = w.limit
			e = event
		}
		events(e)
	}
	return w.Spawner.Spawn(ctx, launch)
}

func (w *wary) launches() []ptyio.Launch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.given)
}

// releases are how often each enclosure was released.
func (w *wary) releases() (all []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.made {
		all = append(all, e.released)
	}
	return all
}

func newWary(t *testing.T, w *wary, change func(*shared.SessionConfig)) *asker {
	w.Spawner = realSpawner(t, hostOptions{})
	return newAsker(t, &planner{Plan: policy.Plan{Decision: policy.Run}}, hostOptions{seam: seam{Spawner: w}}, func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
		if change != nil {
			change(c)
		}
	})
}

func TestPathsOfAPolicyAreLookedUpOnceAndNotByCommands(t *testing.T) {
	w := &wary{}
	s := newWary(t, w, func(c *shared.SessionConfig) {
		c.Base = append(slices.Clone(os.Environ()), "TMPDIR=/the/hosts")
		c.Environment.Set, c.LeastAssurance = map[string]string{"TMPDIR": "/the/sessions"}, messages.AssuranceIsolated
	})
	for range 3 {
		command := shell("true")
		command.Dir, command.Environment = "/", &messages.EnvironmentPolicy{Set: map[string]string{"TMPDIR": "/the/commands"}}
		if r, ok := s.told(command).(*messages.Result); !ok || r.Status != messages.StatusExited(0) {
			t.Fatalf("%+v", r)
		}
	}
	if n := len(w.releases()); n != 1 {
		t.Errorf("%d looks", n)
	}
	for _, l := range w.launches() {
		c := l.Sandbox.Confinement()
		if c.Dir != s.host.dir || c.TempDir != "/the/hosts" || c.Least != messages.AssuranceIsolated || c.Policy.Type != messages.SandboxWorkspaceWrite {
			t.Errorf("%+v", c)
		}
	}
}

func TestAnEnclosureIsReleasedWithItsPolicyAndItsSession(t *testing.T) {
	w := &wary{}
	s := newWary(t, w, nil)
	await := func(want ...int) {
		t.Helper()
		awaitThat(t, "the right enclosures are released", func() bool { return slices.Equal(w.releases(), want) })
	}
	s.told(shell("true"))
	s.told(messages.UpdateEnvironment{Dir: new("/")})
	s.told(shell("true"))
	await(0)
	s.told(messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly}})
	s.told(shell("true"))
	await(1, 0)
	if launches := w.launches(); launches[1].Sandbox.Confinement().Dir == "/" || launches[2].Sandbox.Confinement().Dir != "/" {
		t.Error("a new directory changed the writable paths, or a new policy did not")
	}
	s.told(widened(shell("true")))
	await(1, 0, 1)
	if c := w.launches()[3].Sandbox.Confinement(); c.AdditionalDir != "/" || c.Additional.FileSystem.Write[0] != "/x" {
		t.Errorf("%+v", c)
	}
	s.told(protocol.CloseSession{})
	await(1, 1, 1)
}

// forgotten counts the contexts of lookups that are not in memory any more.
type forgotten struct {
	*wary
	count chan struct{}
}

func (f forgotten) Enclose(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	goruntime.SetFinalizer(ctx, func(context.Context) { f.count <- struct{}{} })
	return f.wary.Enclose(ctx, c)
}

func TestAReplacedPolicyLeavesNothingInMemory(t *testing.T) {
	const updates = 10
	spawner := forgotten{&wary{Spawner: realSpawner(t, hostOptions{})}, make(chan struct{}, updates+1)}
	s := newAsker(t, &planner{}, hostOptions{seam: seam{Spawner: spawner}}, func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
	})
	for range updates {
		s.told(messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly}})
	}
	awaitThat(t, "every policy but the last is forgotten", func() bool {
		goruntime.GC()
		return len(spawner.count) == updates
	})
}

func TestALookupThatFailsRefusesEachCommand(t *testing.T) {
	for name, look := range map[string]func(ptyio.Confinement) error{
		"error": func(ptyio.Confinement) error {
			return &messages.Error{Code: messages.ErrUnsupported, Op: "confine", Detail: "no"}
		},
		"panic": func(ptyio.Confinement) error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			w := &wary{look: look}
			s := newWary(t, w, nil)
			for range 2 {
				if err, ok := s.told(shell("true")).(*messages.Error); !ok || len(w.launches()) > 0 {
					t.Errorf("%v, %d launches", err, len(w.launches()))
				}
			}
			if r, ok := s.told(protocol.ListProcesses{}).(messages.Processes); !ok || len(r) > 0 {
				t.Errorf("the session does not answer: %v", r)
			}
		})
	}
}

// careless is a spawner of a host whose enclosures are missing, or whose Release panics.
type careless struct {
	*wary
	missing bool
	wider   bool // this is about Widen
}

func (c careless) Enclose(ctx context.Context, confinement ptyio.Confinement) (ptyio.Enclosure, error) {
	if c.missing && !c.wider {
		return nil, nil
	}
	enclosure, err := c.wary.Enclose(ctx, confinement)
	return carelessEnclosure{enclosure, c}, err
}

type carelessEnclosure struct {
	ptyio.Enclosure
	spawner careless
}

func (e carelessEnclosure) Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	if e.spawner.missing {
		return nil, nil
	}
	wider, err := e.Enclosure.Widen(ctx, more, dir)
	return carelessEnclosure{wider, e.spawner}, err
}

func (e carelessEnclosure) Release() {
	e.Enclosure.Release()
	panic("released")
}

// widened asks for more permissions.
func widened(command messages.ExecCommand) messages.ExecCommand {
	command.SandboxPermissions, command.Justification = messages.PermissionsWithAdditional, "it is a test"
	command.AdditionalPermissions = &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{"x"}}}
	return command
}

func (c careless) open(t *testing.T) *asker {
	c.wary.Spawner = realSpawner(t, hostOptions{})
	return newAsker(t, &planner{Plan: policy.Plan{Decision: policy.Run}}, hostOptions{seam: seam{Spawner: c}}, func(c *shared.SessionConfig) {
		c.Sandbox = messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
	})
}

func TestWithoutItsEnclosureACommandIsRefused(t *testing.T) {
	for _, wider := range []bool{false, true} {
		c := careless{wary: &wary{}, missing: true, wider: wider}
		s := c.open(t)
		if err, ok := s.told(widened(shell("true"))).(*messages.Error); !ok || err.Code != messages.ErrRuntimeFailure || len(c.launches()) > 0 {
			t.Errorf("wider %t: %v, %d launches", wider, err, len(c.launches()))
		}
	}
}

func TestAReleaseThatPanicsDoesNoHarm(t *testing.T) {
	c := careless{wary: &wary{}}
	s := c.open(t)
	s.told(widened(shell("true")))
	s.told(protocol.CloseSession{})
	awaitThat(t, "both are released", func() bool { return slices.Equal(c.releases(), []int{1, 1}) })
}

func TestALookupThatHangsKeepsOnlyCommandsWaiting(t *testing.T) {
	gate := make(chan struct{})
	w := &wary{look: func(ptyio.Confinement) error { <-gate; return nil }}
	s := newWary(t, w, nil)
	waiting := s.call(shell("true"))
	s.told(protocol.ListProcesses{})
	close(gate)
	if r := waiting.result(); r.Status != messages.StatusExited(0) {
		t.Errorf("%+v", r)
	}
}

func TestEnforcementIsReported(t *testing.T) {
	s := newWary(t, &wary{}, nil)
	s.told(shell("true"))
	started := probe.Expect[messages.ExecStarted](s.events, patience, nil)
	if started.Enforced == nil || started.Enforced.Level != messages.AssuranceConfined {
		t.Errorf("started: %v", started.Enforced)
	}
	record := s.told(protocol.ListProcesses{Records: true}).(messages.Processes)[0]
	if record.Enforced == nil || record.Enforced.Level != messages.AssuranceConfined {
		t.Errorf("record: %v", record.Enforced)
	}
}

func TestLimitsOfSessionAndCommandAreJoined(t *testing.T) {
	w := &wary{}
	s := newWary(t, w, func(c *shared.SessionConfig) {
		c.Sandbox.Type = messages.SandboxDangerFullAccess
		c.Limits = messages.Limits{Processes: 10, WallTime: time.Hour}
	})
	command := shell("true")
	command.Limits = messages.Limits{Processes: 20, WallTime: time.Minute, OpenFiles: 5}
	s.told(command)
	s.told(messages.RunCommand{Argv: []string{"true"}, Limits: messages.Limits{Processes: 3}})
	s.told(messages.UpdateEnvironment{Limits: &messages.Limits{MemoryBytes: 1}})
	s.told(shell("true"))
	for i, want := range []messages.Limits{{Processes: 10, WallTime: time.Minute, OpenFiles: 5}, {Processes: 3, WallTime: time.Hour}, {MemoryBytes: 1}} {
		if got := w.launches()[i].Limits; got != want {
			t.Errorf("launch %d has %+v, want %+v", i, got, want)
		}
	}
	w.refuse = errors.New("no limits here")
	if err, ok := s.told(shell("true")).(*messages.Error); !ok || len(w.launches()) != 3 {
		t.Errorf("%v after %d launches", err, len(w.launches()))
	}
}

func TestAReachedLimitIsTheCause(t *testing.T) {
	s := newWary(t, &wary{limit: messages.LimitMemory}, nil)
	r := s.told(shell("true")).(*messages.Result)
	if r.Cause != messages.CauseTerminated || r.By != messages.TerminatedByLimit || r.Limit != messages.LimitMemory {
		t.Errorf("%+v", r)
	}
	if end := s.theEnd(); end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByLimit || end.Limit != messages.LimitMemory {
		t.Errorf("%+v", end.EndRecord)
	}
	run := s.told(messages.RunCommand{Argv: []string{"true"}}).(*messages.RunResult)
	if run.Limit != messages.LimitMemory {
		t.Errorf("%+v", run)
	}
}
