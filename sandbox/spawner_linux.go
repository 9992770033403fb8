package sandbox

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/execbus/execbus/internal/reexec"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/host"
)

// spawner lets its starter start the launches that can be enforced.
type spawner struct {
	starter interface {
		Enclose(*confine.Plan, []*os.File, confine.Level, func(*host.Sockets)) (*host.Enclosure, error)
		Start(context.Context, host.Start) (ptyio.Leader, error)
		Forget(*host.Enclosure)
		Ready(context.Context) error
		Refresh()
		Close() error
	}
	unisolated string // why it isolates nothing although the kernel could; empty if there is no reason
	unseen     string // why it sees no executions although the kernel could
}

// needsWarden says why some spawners isolate nothing.
const needsWarden = "it needs a warden, and commands are started without one"

func newSpawner(o Options) (ptyio.Spawner, error) {
	if o.Direct {
		return &spawner{starter: host.NewDirect(), unisolated: needsWarden, unseen: needsWarden}, nil
	}
	options := host.Options{Warden: o.Warden, Environment: o.WardenEnvironment, StateDir: o.StateDir, Recovered: o.Recovered,
		Notice: o.Notice, Timeouts: o.timeouts}
	if o.Lost != nil {
		options.Lost = func(lost host.WardenLost) { o.Lost(WardenLost(lost)) }
	}
	wardens, err := host.NewWardens(options)
	if err != nil {
		return nil, err
	}
	s := &spawner{starter: wardens}
	if o.Warden == "" && reexec.CannotExecute() != "" {
		s.unisolated, s.unseen = needsWarden, needsWarden
	}
	if o.WithoutNamespaces {
		s.unisolated = "this host has chosen to make no namespaces"
	}
	return s, nil
}

// Spawn refuses a launch that cannot be enforced before it looks for the program.
func (s *spawner) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	enforced, err := s.Can(launch)
	if err != nil {
		return nil, err
	}
	within := host.Within{By: s.starter}
	if launch.Sandbox != nil || launch.Limits != (messages.Limits{}) || launch.Executions != nil {
		within.Enforced = &enforced
	}
	if !enforced.Executions {
		launch.Executions = nil
	}
	if e, is := launch.Sandbox.(*enclosure); is {
		if err := e.use(); err != nil {
			return nil, err
		}
		defer e.unuse()
		launch.Env = e.tell(launch.Env)
		within.Enclosure = e.made
	}
	return ptyio.Spawn(ctx, launch, within)
}

// Can implements ptyio.Spawner.
func (s *spawner) Can(launch ptyio.Launch) (messages.Enforcement, error) {
	enforced := messages.Enforcement{Level: messages.AssuranceNone}
	if launch.Sandbox != nil {
		var err error
		if enforced, err = enforcedBy(launch.Sandbox); err != nil {
			return enforced, err
		}
	}
	enforced, err := limited(enforced, launch.Limits)
	return s.seen(enforced, launch.Executions), err
}

// enforcedBy returns what an enclosure enforces.
func enforcedBy(enclosed ptyio.Enclosure) (messages.Enforcement, error) {
	e, ok := enclosed.(*enclosure)
	if !ok {
		return messages.Enforcement{}, &messages.Error{Code: messages.ErrInvalidRequest, Op: "spawn", Subject: "sandbox",
			Detail: "it was not made by the spawner that starts programs here; set the policy again", Hint: "use Spawner.Enclose of the same spawner"}
	}
	return e.enforced, e.refused
}

// networkOff tells programs that they need not try the network.
const networkOff = "EXECBUS_SANDBOX_NETWORK_DISABLED="

// tell returns an environment that tells the command whether the policy forbids all of the network, even if the request says otherwise.
func (e *enclosure) tell(env []string) []string {
	if e.Plan.Network || e.proxied() {
		return env
	}
	env = slices.DeleteFunc(slices.Clone(env), func(variable string) bool { return strings.HasPrefix(variable, networkOff) })
	return append(env, networkOff+"1")
}

// Resolver implements ptyio.Spawner.
func (*spawner) Resolver() ptyio.Resolver { return ptyio.Local() }

// Prompt implements ptyio.Prompt.
func (*spawner) Prompt() {}

// Ready starts the warden, if there is to be one, and waits until it has greeted.
func (s *spawner) Ready(ctx context.Context) error { return s.starter.Ready(ctx) }

// Refresh makes the next start read again what commands inherit from this process.
func (s *spawner) Refresh() { s.starter.Refresh() }

// Close implements ptyio.Spawner.
func (s *spawner) Close() error { return s.starter.Close() }
