//go:build linux

package sandbox_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestCommandsAreAsTheHostIsWhenTheyStart(t *testing.T) {
	for _, c := range []struct{ change, script, want string }{
		{"user", "id -u; id -G", "65534\\n65534\\n"},
		{"no new privileges", "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\\t1\\n"},
		{"umask", "umask", "0027\\n"},
		{"limit", "ulimit -q", "7\\n"},
	} {
		t.Run(c.change, func(t *testing.T) {
			if c.change == "user" && os.Geteuid() != 0 {
				t.Skip("only root can become another")
			}
			host := exec.Command(self(t))
			host.Env = environment(roleVariable+"=changes", "CHANGE="+c.change, "SCRIPT="+c.script)
			out, err := host.CombinedOutput()
			if strings.Contains(string(out), "not here") {
				t.Skip(string(out))
			}
			if want := `"` + c.want + "\"\nthe first warden has ended\n"; err != nil || string(out) != want {
				t.Errorf("%v %s instead of %s", err, out, want)
			}
		})
	}
}

func TestBlockedSignalsAreReset(t *testing.T) {
	for _, spawner := range []string{"warden", "direct"} {
		host := exec.Command(self(t))
		host.Env = environment(roleVariable+"=blocked", "SPAWNER="+spawner, "SCRIPT=exec grep SigBlk /proc/self/status")
		out, err := host.CombinedOutput()
		if err != nil || !strings.Contains(string(out), `SigBlk:\t0000000000000000`) {
			t.Errorf("%s: %v %s", spawner, err, out)
		}
	}
}
