package actors

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
)

func TestScriptsRunInEveryInstalledShell(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	for _, shell := range command.Shells() {
		for _, place := range []string{"/bin", "/usr/bin", "/usr/local/bin"} {
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
