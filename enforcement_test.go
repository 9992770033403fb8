package execbus_test

import (
	"context"
	"errors"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// The runtime predicts what the commands of a session get: the same level, or the same refusal.
func TestARuntimeSaysWhatWouldBeEnforced(t *testing.T) {
	spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, execbus.Options{Spawner: spawner})
	best := messages.AssuranceNone
	if enforced, err := rt.Enforcement(t.Context(), execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{}, LeastAssurance: messages.AssuranceNone}); err != nil {
		t.Fatal(err)
	} else if best = enforced.Level; best.AtLeast(messages.AssuranceIsolated) {
		t.Fatalf("without namespaces it is %v", enforced)
	}
	for _, options := range []execbus.SessionOptions{
		{Dir: t.TempDir()},
		{Dir: t.TempDir(), Sandbox: &messages.SandboxPolicy{}, LeastAssurance: messages.AssuranceNone},
		{Dir: t.TempDir(), Sandbox: &messages.SandboxPolicy{}, LeastAssurance: messages.AssuranceConfined},
		{Dir: t.TempDir(), Sandbox: &messages.SandboxPolicy{}, LeastAssurance: messages.AssuranceIsolated},
		{Dir: t.TempDir(), Sandbox: &messages.SandboxPolicy{DeniedReads: []string{"/etc/passwd"}}},
	} {
		want, predicted := rt.Enforcement(t.Context(), options)
		session := openSession(t, rt, options)
		_, refused := session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"true"}})
		switch {
		case predicted == nil && refused != nil, predicted != nil && (refused == nil || refused.Error() != predicted.Error()):
			t.Errorf("%v: %v was predicted, and the command was answered with %v", options.Sandbox, predicted, refused)
		case predicted != nil:
			if typed, is := errors.AsType[*messages.Error](predicted); !is || typed.Code != messages.ErrUnsupported || typed.Enforceable != best {
				t.Errorf("%v: %+v, want %q as enforceable", options.Sandbox, predicted, best)
			}
		case options.Sandbox == nil && want.Level != messages.AssuranceNone, options.Sandbox != nil && want.Level != best:
			t.Errorf("%v: %v", options.Sandbox, want)
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := rt.Enforcement(over, execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{}}); !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("after the context ended: %v", err)
	}
	if _, err := rt.Enforcement(t.Context(), execbus.SessionOptions{LeastAssurance: "total"}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("with wrong options: %v", err)
	}
}

// failing is a spawner of a host whose answers about sandboxes are not what they should be.
type failing struct {
	ptyio.Spawner
	enclose func() (ptyio.Enclosure, error)
}

func (f failing) Enclose(context.Context, ptyio.Confinement) (ptyio.Enclosure, error) {
	return f.enclose()
}

func TestEveryErrorOfEnforcementIsTyped(t *testing.T) {
	for name, enclose := range map[string]func() (ptyio.Enclosure, error){
		"panics":  func() (ptyio.Enclosure, error) { panic("it is broken") },
		"nothing": func() (ptyio.Enclosure, error) { return nil, nil },
		"plain":   func() (ptyio.Enclosure, error) { return nil, errors.New("it is broken") },
	} {
		rt := newRuntime(t, execbus.Options{Spawner: failing{newSpawner(t, true), enclose}})
		options := execbus.SessionOptions{Dir: t.TempDir(), Sandbox: &messages.SandboxPolicy{}}
		_, predicted := rt.Enforcement(t.Context(), options)
		_, refused := openSession(t, rt, options).Exec(t.Context(), messages.ExecCommand{Argv: []string{"true"}})
		for _, err := range []error{predicted, refused} {
			if typed, is := err.(*messages.Error); !is || typed.Code != messages.ErrRuntimeFailure {
				t.Errorf("%s: %#v", name, err)
			}
		}
	}
}
