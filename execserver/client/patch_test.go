package client

import (
	"errors"
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

func TestAServerWithoutTheProgramForPatchesIsNamed(t *testing.T) {
	dial, _ := socketWay(t, newServer(t), 0, nil)
	if _, err := begun(t, dial, all).resolver.PatchProgram(t.Context()); !errors.Is(err, messages.ErrUnsupported) {
		t.Error(err)
	}
	dial, _ = socketWay(t, newServer(t), 0, nil)
	able := begun(t, dial, append(all[:len(all):len(all)], wire.ExtensionPatches)).resolver
	if launch, err := able.PatchProgram(t.Context()); err != nil || launch.Argv0 != patchProgram {
		t.Errorf("%+v, %v", launch, err)
	}
	one, err := able.Machine(t.Context())
	if again, _ := able.Machine(t.Context()); err != nil || one == "" || one != again {
		t.Errorf("%q, %q, %v", one, again, err)
	}
}
