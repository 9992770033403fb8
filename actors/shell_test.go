package actors

import (
	"context"
	"os"
	"path/filepath"
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
	machine := shelf{own: "/opt/zsh", files: []string{"/opt/zsh", "/bin/sh", "/bin/dash", "/opt/ksh93", "/usr/bin/mksh", "/bin/busybox", "/bin/fish"},
		path: map[string]string{"ksh93": "/opt/ksh93", "fish": "/bin/fish"}}
	fishy := machine
	fishy.own = "/bin/fish"
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
		{machine, "ksh93", false, []string{"/opt/ksh93", "-c", "script"}, nil},
		{machine, "mksh", false, []string{"/usr/bin/mksh", "-c", "script"}, nil},
		{machine, "busybox", false, []string{"/bin/busybox", "sh", "-c", "script"}, nil},
		{fishy, "", false, []string{"/bin/sh", "-c", "script"}, nil}, // whose own takes no scripts
		{machine, "bash", false, nil, messages.ErrNoSuchProgram},     // and is not replaced by another
		{machine, "/usr/local/bin/sh", false, nil, messages.ErrNoSuchProgram},
		{machine, "fish", false, nil, messages.ErrInvalidRequest},
		{machine, "/bin/cat", false, nil, messages.ErrInvalidRequest},
		{none, "", false, nil, messages.ErrNoSuchProgram},
	} {
		got, err := shellArgv(t.Context(), test.machine, nil, "script", test.asked, test.login)
		if test.err != nil {
			wantError(t, test.asked, err, test.err)
		} else if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, %v, want %q", test.asked, got, err, test.want)
		}
	}
}

func TestScriptsRunInEveryInstalledShell(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	for _, shell := range shellKinds {
		for _, place := range usualPlaces {
			path := filepath.Join(place, shell)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			got := s.exec(messages.ExecCommand{Script: "if (exit 3); then :; else echo $?; fi; exit 4", Shell: path, Login: new(bool), Yield: new(messages.MaxYield)})
			wantCode(t, got, 4)
			if string(got.Output) != "3\n" {
				t.Errorf("%s said %q", path, got.Output)
			}
		}
	}
}
