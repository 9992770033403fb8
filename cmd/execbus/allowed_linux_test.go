package main

import (
	"os"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// A person who runs a command learns the setting for a host that was blocked.
func TestRunNamesTheSettingForABlockedHost(t *testing.T) {
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(roleVariable, "execbus") // for the program inside
	code, _, said := runs(t, "", "--cd", t.TempDir(), "--allow-host", "a.example", "--", self, "connect", "b.example", "22")
	if code != exitRefused || !strings.Contains(said, "network access to b.example:22 (tcp) was blocked") || !strings.Contains(said, "; so does --allow-host b.example:22/tcp\n") {
		t.Errorf("%d, %s", code, said)
	}
	if text := allowHost(nil) + allowHost(&messages.HostRule{Host: "a", Decision: messages.HostAllow, HiddenName: true}) + allowHost(&messages.HostRule{Host: "a", Decision: messages.HostPrompt}); text != "" {
		t.Errorf("what no setting says: %q", text)
	}
}

func TestAURLIsNoHost(t *testing.T) {
	if code, _, said := runs(t, "", "--allow-host", "https://a.example/path", "--", "true"); code != exitMisused || !strings.Contains(said, "such as a.example\n") {
		t.Errorf("%d, %s", code, said)
	}
}
