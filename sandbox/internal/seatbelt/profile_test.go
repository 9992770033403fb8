package seatbelt

import (
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

var workspace = Rules{
	Write: []Root{
		{Path: "/Users/ann/src", Protected: []string{"/Users/ann/src/.git", "/Users/ann/src/.codex"}},
		{Path: "/private/tmp"},
	},
	Reading: []confine.Rule{{Path: "/Users/ann/.ssh", Access: confine.Nothing}, {Path: "/Users/ann/.ssh/known_hosts", Access: confine.Read},
		{Path: "/Users/ann/.ssh/new", Access: confine.Write}},
	Sockets: []string{"/private/var/run/agent.sock"},
}

func TestTheTextAndItsParameters(t *testing.T) {
	p := Write(workspace)
	want := base +
		`(allow file-write* (require-all (subpath (param "ROOT_0"))` +
		` (require-not (require-any (literal (param "ROOT_0_PROTECTED_0")) (subpath (param "ROOT_0_PROTECTED_0"))))` +
		` (require-not (require-any (literal (param "ROOT_0_PROTECTED_1")) (subpath (param "ROOT_0_PROTECTED_1"))))))` + "\n" +
		`(allow file-write* (require-all (subpath (param "ROOT_1"))))
(allow network-outbound (remote unix-socket (subpath (param "ROOT_0"))))
(allow network-bind network-inbound (local unix-socket (subpath (param "ROOT_0"))))
(allow network-outbound (remote unix-socket (subpath (param "ROOT_1"))))
(allow network-bind network-inbound (local unix-socket (subpath (param "ROOT_1"))))
(allow network-outbound (remote unix-socket (literal (param "SOCKET_0"))))
(deny file-read* file-write* (literal (param "UNREADABLE_0")) (subpath (param "UNREADABLE_0")))
(allow file-read* (literal (param "READABLE_1")) (subpath (param "READABLE_1")))
(allow file-read* file-write* (literal (param "READABLE_2")) (subpath (param "READABLE_2")))
`
	if p.Text != want {
		t.Errorf("the text is\n%s\nwant\n%s", p.Text, want)
	}
	parameters := []Parameter{{"ROOT_0", "/Users/ann/src"}, {"ROOT_0_PROTECTED_0", "/Users/ann/src/.git"},
		{"ROOT_0_PROTECTED_1", "/Users/ann/src/.codex"}, {"ROOT_1", "/private/tmp"}, {"SOCKET_0", "/private/var/run/agent.sock"},
		{"UNREADABLE_0", "/Users/ann/.ssh"}, {"READABLE_1", "/Users/ann/.ssh/known_hosts"}, {"READABLE_2", "/Users/ann/.ssh/new"}}
	if !slices.Equal(p.Parameters, parameters) {
		t.Errorf("the parameters are %v", p.Parameters)
	}
}

func TestTheCommandLine(t *testing.T) {
	p := Write(Rules{Write: []Root{{Path: "/src"}}})
	want := []string{"/usr/bin/sandbox-exec", "-p", p.Text, "-DROOT_0=/src", "--", "/bin/echo", "-D", "--"}
	if argv := p.Argv("/bin/echo", "-D", "--"); !slices.Equal(argv, want) {
		t.Errorf("%q", argv)
	}
}

func TestNothingIsAllowedThatIsNotAskedFor(t *testing.T) {
	p := Write(Rules{})
	if len(p.Parameters) > 0 || p.Text != base {
		t.Errorf("reading only: %v, %s", p.Parameters, p.Text)
	}
	for _, word := range []string{"network", "file-write*", "system-socket"} {
		for line := range strings.SplitSeq(base, "\n") {
			if strings.Contains(line, word) && !strings.HasPrefix(line, ";") && !strings.Contains(line, "/dev/") {
				t.Errorf("%s is allowed without a reason: %s", word, line)
			}
		}
	}
	if !strings.HasPrefix(base, "(version 1)\n(deny default)\n") {
		t.Error("what is not named is not denied")
	}
	with := Write(Rules{Network: true}).Text
	if !strings.Contains(with, "(allow network-outbound (remote ip))") || strings.Contains(with, "(allow network*") {
		t.Errorf("with the network: %s", with)
	}
}

// A directory can have any name. Its name must not become part of the text.
func TestNamesAreNotText(t *testing.T) {
	evil := `/src")) (allow default) ; "` + "\n"
	p := Write(Rules{Write: []Root{{Path: evil, Protected: []string{evil + "/.git"}}}, Reading: []confine.Rule{{Path: evil}}, Sockets: []string{evil}})
	if strings.Contains(p.Text, "allow default") || strings.Contains(p.Text, "/src") {
		t.Error(p.Text)
	}
	if open, closed := strings.Count(p.Text, "("), strings.Count(p.Text, ")"); open != closed {
		t.Errorf("%d parentheses are opened and %d closed", open, closed)
	}
	if !slices.Contains(p.Argv("/bin/sh"), "-DROOT_0="+evil) {
		t.Error("the name is not passed on as it is")
	}
}

// Denials come after permissions: the last matching rule counts.
func TestDenialsComeLast(t *testing.T) {
	p := Write(Rules{Write: workspace.Write, Reading: workspace.Reading[:1], Network: true})
	if allowed, denied := strings.LastIndex(p.Text, "(allow"), strings.Index(p.Text, "(deny file-read*"); denied < allowed {
		t.Error(p.Text)
	}
}
