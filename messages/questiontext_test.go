package messages

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAQuestionSaysWhatAPersonHasToKnow(t *testing.T) {
	q := &Question{Display: "git push; ls", Dir: "/work\nReason: harmless", Program: "/bin/\u202egit", Reason: "a rule asks", Environment: []string{"A=b"},
		Additional:  &AdditionalPermissions{Network: &NetworkPermissions{Enabled: true}, FileSystem: &FileSystemPermissions{Write: []string{"/etc\u3164"}}},
		Segments:    []Segment{{Display: "git push", Why: "it asks", Hosts: []string{"аpple.com"}}, {Display: "ls"}},
		Unsandboxed: true, OpenInput: true, MoreSegments: 2}
	text := q.Text()
	for _, fact := range []string{"Run this command?\n\ngit push; ls\n\n", `Directory: /work\nReason: harmless`, `Program: /bin/\u202egit`, "Reason: a rule asks\n",
		"Sets: A=b\n", "It runs 4 commands.\n", "Also asked about: git push (it asks)\n", "not what it looks like: аpple.com",
		`would be wider: network, write /etc\u3164` + "\n", "without a sandbox.\n", "no question about later input.\n"} {
		if !strings.Contains(text, fact) {
			t.Errorf("%q is not in\n%s", fact, text)
		}
	}
	if retry := (&Question{Retry: true}).Text(); !strings.Contains(retry, "Run it again without a sandbox?") {
		t.Error(retry)
	}
}

func TestAQuestionAboutAPatchShowsFilesAndDiff(t *testing.T) {
	q := &Question{Display: "apply_patch /etc/a", Dir: "/work", Reason: "it writes outside", Additional: &AdditionalPermissions{FileSystem: &FileSystemPermissions{Write: []string{"/etc"}}},
		Patch: &PatchQuestion{Files: []FileChange{{Path: "/etc/a\n", Kind: ChangeMove, From: "/etc/b", Overwrites: true, Added: 2, Removed: 1}, {Path: "/etc/c", Named: "/work/c", Kind: ChangeAdd}},
			MoreFiles: 7, Diff: "--- a\n+++ b\n"}}
	text := q.Text()
	for _, fact := range []string{"Apply this patch?\n\nmove /etc/b to /etc/a\\n, where another file is overwritten (+2 -1)\n", "add /etc/c, which the patch calls /work/c (+0 -0)\n", "7 more files",
		"\n--- a\n+++ b\n\n", "Its sandbox would be wider: write /etc\n", "Directory: /work\n", "Reason: it writes outside"} {
		if !strings.Contains(text, fact) {
			t.Errorf("%q is not in\n%s", fact, text)
		}
	}
	if strings.Contains(text, "Run this command") || strings.Contains(text, q.Display) {
		t.Error(text)
	}
}

func TestAQuestionSaysWhichOfSeveralCommandsItIsAbout(t *testing.T) {
	q := &Question{Display: "sh -c 'ls; make'", Segments: []Segment{{Display: "make", Why: "it asks"}, {Display: "ls"}}, Reason: "it asks"}
	if text := q.Text(); !strings.Contains(text, "Reason: it asks\nIt runs 2 commands.\nThis is about: make") || strings.Count(text, "it asks") != 1 {
		t.Error(text)
	}
}

func TestAQuestionSaysTheCommandOnce(t *testing.T) {
	for _, q := range []*Question{
		{Display: "git push", Segments: []Segment{{Display: "git push", Why: "it asks"}}, Reason: "it asks"},
		{Display: "bash -lc 'git push'", Segments: []Segment{{Display: "git push", Why: "it asks"}}, Reason: "it asks"},
		{Display: "bash -lc 'git push; git push'", Segments: []Segment{{Display: "git push", Why: "it asks"}, {Display: "git push", Why: "it asks"}}, Reason: "it asks"},
	} {
		if text := q.Text(); strings.Count(text, q.Display) != 1 || strings.Count(text, "git push") != strings.Count(q.Display, "git push") || strings.Count(text, "it asks") != 1 {
			t.Error(text)
		}
	}
}

// However long a fact is, the text says so, and both its ends stay.
func TestAQuestionIsBounded(t *testing.T) {
	long := "begins " + strings.Repeat("é", 1<<20) + " ends"
	q := &Question{Display: long, Dir: long, Program: long, Reason: long, Segments: []Segment{{Display: long, Why: long, Hosts: []string{long}}, {}}}
	variable := "A=" + long
	for range 1000 {
		q.Environment = append(q.Environment, variable)
	}
	text := q.Text()
	if n := utf8.RuneCountInString(text); n > 30*(maxFact+100) {
		t.Errorf("%d characters", n)
	}
	if !strings.Contains(text, "\n\nbegins é") || !strings.Contains(text, "é ends\n\n") || !strings.Contains(text, "[… of 1048588 characters 1046588 are not shown …]") ||
		!strings.Contains(text, "It sets 980 more variables.\n") {
		t.Errorf("%.3000q", text)
	}
	if q.Environment = nil; strings.Count(q.WholeText(), long) != 6 {
		t.Error("the whole text is cut")
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

func TestAQuestionAboutAHost(t *testing.T) {
	rule := HostRule{Host: "xn--pple-43d.com:80", Protocol: HostHTTP, Decision: HostAllow}
	q := &Question{Display: "network-access http://xn--pple-43d.com", Dir: "/work\n", Reason: "no rule names it", Host: &HostQuestion{Process: 1000, Command: "curl x", Host: "xn--pple-43d.com",
		Port: 80, Protocol: HostHTTP, Looks: "аpple.com is xn--pple-43d.com", Rule: &rule}}
	text := q.Text()
	for _, fact := range []string{"Let a running command talk to this host?\n\nxn--pple-43d.com:80 (http)\n\n", "not what it looks like: аpple.com is xn--pple-43d.com\n", "It is plain text: ",
		"Command: curl x (process 1000)\n", "A rule would be: allow xn--pple-43d.com:80 (http)\n", `Directory: /work\n` + "\n", "Reason: no rule names it"} {
		if !strings.Contains(text, fact) {
			t.Errorf("%q is not in\n%s", fact, text)
		}
	}
	if strings.Contains(text, "Run this command") || strings.Contains(text, q.Display) {
		t.Error(text)
	}
	q.Host = &HostQuestion{Host: "2001:db8::1", Port: 22, Protocol: HostTCP}
	if text := q.Text(); !strings.Contains(text, "\n\n[2001:db8::1]:22 (tcp)\n\n") || !strings.Contains(text, "It is a bare connection: ") ||
		!strings.Contains(text, "does not say which of the session's commands") || strings.Contains(text, "A rule would be") {
		t.Error(text)
	}
	q.Host = &HostQuestion{Host: "example.com", Port: 443, Protocol: HostHTTPS, Command: "curl x"}
	if text := q.Text(); !strings.Contains(text, "Only this one runs: curl x\n") || strings.Contains(text, "plain text") || strings.Contains(text, "bare") {
		t.Error(text)
	}
}
