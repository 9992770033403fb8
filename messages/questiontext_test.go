package messages

import (
	"strings"
	"testing"
)

func TestAQuestionSaysWhatAPersonHasToKnow(t *testing.T) {
	q := &Question{Display: "git push", Dir: "/work\nReason: harmless", Program: "/bin/\u202egit", Reason: "a rule asks", Environment: []string{"A=b"},
		Additional:  &AdditionalPermissions{Network: &NetworkPermissions{Enabled: true}, FileSystem: &FileSystemPermissions{Write: []string{"/etc"}}},
		Segments:    []Segment{{Display: "git push", Why: "it asks", Hosts: []string{"аpple.com"}}, {Display: "ls"}},
		Unsandboxed: true, OpenInput: true, MoreSegments: 2}
	text := q.Text()
	for _, fact := range []string{"Run this command?\n\ngit push\n\n", `Directory: "/work\nReason: harmless"`, `Program: "/bin/\u202egit"`, "Reason: a rule asks\n",
		"Sets: A=b\n", "It runs: git push (it asks)\n", "not what it looks like: аpple.com\n", "It runs: ls\n", "It runs 2 more commands.\n",
		"would be wider: network, write /etc\n", "without a sandbox.\n", "no question about later input."} {
		if !strings.Contains(text, fact) {
			t.Errorf("%q is not in\n%s", fact, text)
		}
	}
	if retry := (&Question{Retry: true}).Text(); !strings.Contains(retry, "Run it again without a sandbox?") {
		t.Error(retry)
	}
}

func TestAChoiceSaysWhatItRemembers(t *testing.T) {
	for c, want := range map[Choice]string{
		{Sentence: "Run it this once."}:                           "Run it this once.",
		{Sentence: "Run it, and go on.", Remembers: "ls in /tmp"}: "Run it, and go on: ls in /tmp",
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
