package process

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// shelf is a machine that has just these files, and a user with a shell.
type shelf struct {
	ptyio.Resolver
	own   string
	files []string
	path  map[string]string // the programs in PATH
}

func (s shelf) UserShell(context.Context) (string, error) { return s.own, nil }

func (s shelf) TrustedDirs(context.Context) ([]string, error) {
	return []string{"/bin", "/usr/bin", "/nix"}, nil
}

func (s shelf) IsFile(_ context.Context, path string) (bool, error) {
	return slices.Contains(s.files, path), nil
}

func (s shelf) Program(_ context.Context, name, _, _ string) (string, error) {
	if found := s.path[name]; found != "" {
		return found, nil
	}
	return "", messages.ErrNoSuchProgram
}

func TestTheShellThatWasAskedForIsUsedOrNone(t *testing.T) {
	machine := shelf{own: "/opt/zsh", files: []string{"/opt/zsh", "/bin/sh", "/bin/dash", "/nix/ksh93", "/usr/bin/mksh", "/bin/busybox", "/bin/fish", "/tmp/yash", "/tmp/bash"},
		path: map[string]string{"ksh93": "/nix/ksh93", "fish": "/bin/fish", "yash": "/tmp/yash", "bash": "/tmp/bash"}}
	fishy := machine
	fishy.own = "/bin/fish"
	homeless := machine
	homeless.own = ""
	none := shelf{}
	for _, test := range []struct {
		machine shelf
		asked   string
		login   bool
		want    []string
		err     error
	}{
		{machine, "", false, []string{"/opt/zsh", "-c", "script"}, nil},
		{machine, "", true, []string{"/opt/zsh", "-lc", "script"}, nil},
		{machine, "zsh", false, []string{"/opt/zsh", "-c", "script"}, nil},
		{machine, "/bin/dash", true, []string{"/bin/dash", "-lc", "script"}, nil},
		{machine, "ksh93", false, []string{"/nix/ksh93", "-c", "script"}, nil},
		{machine, "mksh", false, []string{"/usr/bin/mksh", "-c", "script"}, nil},
		{machine, "busybox", false, []string{"/bin/busybox", "sh", "-c", "script"}, nil},
		{fishy, "", false, []string{"/bin/sh", "-c", "script"}, nil}, // whose own takes no scripts
		{machine, "bash", false, nil, messages.ErrNoSuchProgram},     // and is not replaced by another
		{machine, "/usr/bin/sh", false, nil, messages.ErrNoSuchProgram},
		{machine, "yash", false, nil, messages.ErrNoSuchProgram},       // the one in PATH is anybody's
		{machine, "/tmp/yash", false, nil, messages.ErrInvalidRequest}, // a link to bash, perhaps
		{machine, "/bin/../tmp/bash", false, nil, messages.ErrInvalidRequest},
		{machine, "/bin/nu", false, nil, messages.ErrInvalidRequest},
		{homeless, "", false, []string{"/bin/sh", "-c", "script"}, nil}, // SHELL names any file
		{homeless, "bash", false, nil, messages.ErrNoSuchProgram},
		{machine, "fish", false, nil, messages.ErrInvalidRequest},
		{machine, "/bin/cat", false, nil, messages.ErrInvalidRequest},
		{none, "", false, nil, messages.ErrNoSuchProgram},
	} {
		got, err := shellArgv(t.Context(), test.machine, []string{"SHELL=/tmp/bash"}, "script", test.asked, test.login)
		if test.err != nil {
			if !errors.Is(err, test.err) {
				t.Errorf("%q: %v, want %q", test.asked, err, test.err)
			}
		} else if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, %v, want %q", test.asked, got, err, test.want)
		}
	}
}
