package denial

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// record is the output of a real program that failed, and the facts about why.
type record struct {
	name   string
	fields map[string]string
	output string
}

// records reads a file of records: "=== command line", fields, "---", output.
func records(t *testing.T, file string) []record {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []record
	for _, block := range strings.Split("\n"+string(text), "\n=== ")[1:] {
		head, output, _ := strings.Cut(block, "\n---\n")
		lines := strings.Split(head, "\n")
		r := record{name: lines[0], fields: map[string]string{}, output: output}
		for _, line := range lines[1:] {
			key, value, _ := strings.Cut(line, ": ")
			r.fields[key] = value
		}
		all = append(all, r)
	}
	return all
}

func (r record) denial(t *testing.T) *messages.Denial {
	t.Helper()
	code, err := strconv.Atoi(r.fields["exit"])
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	return Of(Facts{Status: messages.StatusExited(code), Output: []byte(r.output), Dir: "/ws", Rules: Rules{
		Write: []string{"/ws", "/tmp"}, Protected: []string{".git", ".agents", ".codex"}, Network: r.fields["network"] == "on",
	}})
}

func TestOrdinaryFailuresAreNoDenials(t *testing.T) {
	all, wrong := records(t, "ordinary.txt"), 0
	for _, r := range all {
		d := r.denial(t)
		if (d != nil) != (r.fields["mistaken"] != "") {
			t.Errorf("%s: %v", r.name, d)
		}
		if d == nil {
			continue
		}
		wrong++
		t.Logf("mistaken: %s: %s", r.name, r.fields["mistaken"])
		if !d.FromText {
			t.Errorf("%s: %v, for certain", r.name, d)
		}
	}
	t.Logf("%d of %d ordinary failures are taken for denials", wrong, len(all))
	if len(all)-wrong < 50 {
		t.Errorf("only %d", len(all)-wrong)
	}
}

func TestDeniedOperationsAreRecognised(t *testing.T) {
	all, missed, guessed := records(t, "denied.txt"), 0, 0
	for _, r := range all {
		d := r.compare(t, r.denial(t))
		switch {
		case d == nil:
			missed++
		case d.FromText:
			guessed++
		}
	}
	t.Logf("of %d denied operations %d are missed and %d guessed", len(all), missed, guessed)
	if len(all)-missed < 30 {
		t.Errorf("only %d", len(all)-missed)
	}
}

// compare checks a denial against the fields of its record.
func (r record) compare(t *testing.T, d *messages.Denial) *messages.Denial {
	t.Helper()
	if (d == nil) != (r.fields["missed"] != "") {
		t.Errorf("%s, %s: %v", r.name, r.fields["by"], d)
	}
	if d == nil {
		t.Logf("missed: %s, by %s: %s", r.name, r.fields["by"], r.fields["missed"])
		return nil
	}
	for field, got := range map[string]string{"operation": d.Operation, "path": d.Path, "address": d.Address, "grant": d.Grant.String()} {
		if want := r.fields[field]; got != want {
			t.Errorf("%s, by %s: %s is %q, want %q", r.name, r.fields["by"], field, got, want)
		}
	}
	if d.FromText != (r.fields["guess"] == "yes") {
		t.Errorf("%s: a guess: %v", r.name, d.FromText)
	}
	return d
}

// The tables live-*.txt were recorded at both levels, without the network, in /ws with the home directory /home/u. TestLive runs most
// of them.
func TestRecordedCommands(t *testing.T) {
	judge := func(r record) *messages.Denial {
		code, err := strconv.Atoi(r.fields["exit"])
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		return Of(Facts{Status: messages.StatusExited(code), Output: []byte(r.output), Dir: "/ws", Command: []string{"bash", "-c", r.name},
			Rules: Rules{Write: []string{"/ws"}, Protected: []string{".git", ".agents", ".codex"}, Home: "/home/u"}})
	}
	for _, r := range records(t, "live-ordinary.txt") {
		if d := judge(r); d != nil {
			t.Errorf("a false alarm: %s, by %s: %v", r.name, r.fields["by"], d)
		}
	}
	for _, r := range records(t, "live-denied.txt") {
		r.compare(t, judge(r))
	}
}

func TestStatusAndWords(t *testing.T) {
	for _, c := range []struct {
		status       messages.ExitStatus
		text         string
		denied, fact bool
	}{
		{messages.StatusExited(0), "permission denied", false, false},
		{messages.StatusExited(1), "nothing to be seen", false, false},
		{messages.StatusExited(1), "Operation not permitted", true, false},
		{messages.StatusExited(1), "PERMISSION DENIED", true, false},
		{messages.StatusExited(1), "a Read-only file system", true, false},
		{messages.StatusExited(1), "\x1b[31mOperation not permitted\x1b[0m", true, false},
		{messages.StatusExited(1), "killed by seccomp: not allowed", true, false},
		{messages.StatusExited(1), "the sandbox denied it", true, false},
		{messages.StatusExited(1), "sandbox: 3 tests failed", false, false},
		{messages.StatusExited(1), "at /src/sandbox/main.go:3: a syntax error", false, false},
		{messages.StatusExited(1), "blocked by landlock", true, false},
		{messages.StatusExited(1), "landlock", false, false},
		{messages.StatusExited(1), "failed to write file", true, false},
		{messages.StatusExited(1), "git@example.com: Permission denied (publickey).", false, false},
		{messages.StatusExited(1), "ERROR:  permission denied for table users", false, false},
		{messages.StatusExited(127), "bash: x: command not found", false, false},
		{messages.StatusExited(127), "bash: /etc/x: Read-only file system", true, true},
		{messages.StatusExited(126), "cannot execute", false, false},
		{messages.StatusExited(126), "bash: /etc/x: Permission denied", false, false},
		{messages.StatusExited(2), "usage", false, false},
		{messages.StatusExited(159), "", true, false},
		{messages.StatusSignaled(31), "", true, true},
		{messages.StatusSignaled(9), "", false, false},
		{messages.StatusSignaled(15), "permission denied", true, false},
		{messages.StatusNone(), "permission denied", false, false},
	} {
		got := Of(Facts{Status: c.status, Output: []byte(c.text), Dir: "/", Rules: Rules{Network: true}})
		if (got != nil) != c.denied || got != nil && got.FromText == c.fact {
			t.Errorf("%v with %q: %v", c.status, c.text, got)
		}
	}
}

func TestRulesOnPaths(t *testing.T) {
	rules := Rules{Write: []string{"/", "/ws", "/ws/.git/allowed"}, Protected: []string{".git"}, Unreadable: []string{"/ws/secret"},
		Read: []string{"/ws/secret/public"}}
	for _, c := range []struct {
		line, operation, path, grant string
	}{
		{"touch: cannot touch '/etc/x': Permission denied", "", "", ""}, // writing is allowed, so the file's mode refused it
		{"touch: cannot touch '/ws/.git/x': Permission denied", "write", "/ws/.git/x", "write /ws/.git"},
		{"touch: cannot touch '/ws/.gitignore': Permission denied", "", "", ""},
		{"touch: cannot touch '/ws/.git/allowed/x': Permission denied", "", "", ""},
		{"touch: cannot touch '/ws/deep/in/.git': Read-only file system", "write", "/ws/deep/in/.git", "write /ws/deep/in/.git"},
		{"touch: cannot touch '/other/../ws/.git/a b': Read-only file system", "write", "/ws/.git/a b", "write /ws/.git"},
		{"cat: /ws/.git/x: Permission denied", "", "", ""},
		{"cat: /ws/secret/key: Permission denied", "read", "/ws/secret/key", "read /ws/secret/key"},
		{"cat: /ws/secrets: Permission denied", "", "", ""},
		{"cat: /ws/secret/public/key: Permission denied", "", "", ""},
		{"cat: secret: Permission denied", "read", "/ws/secret", ""},
	} {
		d := Of(Facts{Status: messages.StatusExited(1), Output: []byte(c.line), Dir: "/ws", Rules: rules})
		if d == nil {
			d = &messages.Denial{}
		}
		if d.Operation != c.operation || d.Path != c.path || d.Grant.String() != c.grant || d.FromText {
			t.Errorf("%s: %+v, grant %v", c.line, *d, d.Grant)
		}
	}
	nested := "touch: cannot touch '/ws/deep/in/.git': Permission denied" // only some of these names are protected
	if d := Of(Facts{Status: messages.StatusExited(1), Output: []byte(nested), Dir: "/ws", Rules: rules}); d == nil || !d.FromText || d.Path != "/ws/deep/in/.git" {
		t.Errorf("%s: %v", nested, d)
	}
	for _, path := range []string{"/dev/sda", "/proc/sys/kernel/core_pattern", "/sys/x"} {
		d := Of(Facts{Status: messages.StatusExited(1), Output: []byte("tee: " + path + ": Permission denied"), Dir: "/"})
		if d == nil || d.Path != path || d.FromText || d.Grant != nil {
			t.Errorf("%s: %+v", path, d)
		}
	}
}

// A socket is not the network: a grant for the network would not help.
func TestUnixSockets(t *testing.T) {
	listed := Rules{Write: []string{"/ws"}, Sockets: []string{"/run/x.sock"}}
	for _, c := range []struct {
		line    string
		command string
		rules   Rules
		address string // empty: no denial
		guess   bool
	}{
		{"nc: unix connect to /run/x.sock failed: Operation not permitted: on socket \"/run/x.sock\"", "", Rules{}, "/run/x.sock", false},
		{"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "", Rules{}, "/var/run/docker.sock", true},
		{"Cannot connect to the Docker daemon at unix:///run/x.sock. Is the docker daemon running?", "", listed, "", false},
		{"dial unix:/ws/app.sock: connect: connection refused", "", listed, "", false},
		{"dial unix:/ws/app.sock: connect: permission denied", "", Rules{Write: []string{"/ws"}, Network: true}, "", false},
		{"dial unix:/ws/app.sock: socket: operation not permitted", "", Rules{Write: []string{"/ws"}}, "/ws/app.sock", false},
		{"curl: (7) Failed to connect to x port 80 after 0 ms: Couldn't connect to server", "curl --unix-socket app.sock http://x/", Rules{Write: []string{"/ws"}}, "/ws/app.sock", true},
		{"curl: (7) Failed to connect to x port 80 after 0 ms: Couldn't connect to server", "curl --unix-socket app.sock http://x/", listed, "", false},
	} {
		d := Of(Facts{Status: messages.StatusExited(1), Output: []byte(c.line), Dir: "/ws", Command: []string{c.command}, Rules: c.rules})
		if (d == nil) != (c.address == "") {
			t.Errorf("%s: %v", c.line, d)
			continue
		}
		if d != nil && (d.Operation != "use a socket" || d.Address != c.address || d.Grant != nil || d.FromText != c.guess) {
			t.Errorf("%s: %+v", c.line, *d)
		}
	}
}

// A grant names a file in a home directory, and never all of that. Elsewhere it names the directory, in which files can be replaced.
func TestGrants(t *testing.T) {
	for path, want := range map[string]string{"/data/u/f": "/data/u/f", "/data/u/.cache/f": "/data/u/.cache", "/root/f": "/root/f", "/home/v/.bashrc": "/home/v/.bashrc",
		"/Users/v/f": "/Users/v/f", "/home/v": "/home/v", "/srv/x/f": "/srv/x", "/f": "/f",
		"/data/f": "/data/f", "/data/u": "", "/data": ""} {
		d := Of(Facts{Status: messages.StatusExited(1), Output: []byte("touch: cannot touch '" + path + "': Permission denied"), Dir: "/ws",
			Rules: Rules{Write: []string{"/ws"}, Home: "/data/u"}})
		if want != "" {
			want = "write " + want
		}
		if d == nil || d.Grant.String() != want {
			t.Errorf("%s: %v", path, d)
		}
	}
}

// A command that changes its directory is denied where it went, and not where it began.
func TestACommandThatChangesItsDirectory(t *testing.T) {
	const line = "tar: s: Cannot mkdir: Permission denied"
	for command, path := range map[string]string{"tar -C /etc -xf t.tar": "/etc/s", "cd /etc && mkdir s": "/etc/s", "tar --directory=/etc -xf t": "/etc/s",
		"tar -C /ws/ro -xf t.tar": "", "tar -xf t.tar": "", "cat /etc/passwd; mkdir s": ""} {
		d := Of(Facts{Status: messages.StatusExited(2), Output: []byte(line), Dir: "/ws", Command: []string{"sh", "-c", command}, Rules: Rules{Write: []string{"/ws"}}})
		if (d == nil) != (path == "") || d != nil && (d.Path != path || !d.FromText) {
			t.Errorf("%s: %v", command, d)
		}
	}
}

func TestRulesOfAPolicy(t *testing.T) {
	policy := messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, WritableRoots: []string{"/data/"}}
	more := &messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true},
		FileSystem: &messages.FileSystemPermissions{Write: []string{".git"}, Read: []string{"x"}}}
	for _, c := range []struct {
		policy  messages.SandboxPolicy
		more    *messages.AdditionalPermissions
		write   []string
		network bool
	}{
		{messages.SandboxPolicy{}, nil, nil, false},
		{messages.SandboxPolicy{Type: messages.SandboxReadOnly, NetworkAccess: true}, nil, nil, true},
		{policy, nil, []string{"/ws", "/data", "/tmp", "/t"}, false},
		{messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}, nil, []string{"/ws"}, false},
		{policy, more, []string{"/ws", "/data", "/tmp", "/t", "/elsewhere/.git"}, true},
	} {
		r := RulesOf(c.policy, "/ws", "/t", c.more, "/elsewhere")
		if !slices.Equal(r.Write, c.write) || r.Network != c.network || c.more != nil && !slices.Equal(r.Read, []string{"/elsewhere/x"}) {
			t.Errorf("%v: %+v", c.policy, r)
		}
	}
	denying := messages.SandboxPolicy{DeniedReads: []string{"/home/u/.ssh/"}, ProtectedNames: []string{".idea"}}
	if r := RulesOf(denying, "/ws", "", nil, ""); !slices.Equal(r.Unreadable, []string{"/home/u/.ssh"}) || !slices.Contains(r.Protected, ".idea") {
		t.Errorf("%+v", r)
	}
	if policy.WritableRoots[0] != "/data/" || denying.DeniedReads[0] != "/home/u/.ssh/" || more.FileSystem.Write[0] != ".git" {
		t.Error("the policy was changed")
	}
}

// The deciding line may be anywhere in a flood of lines that prove nothing.
func TestALongOutput(t *testing.T) {
	noise := strings.Repeat("cat: s: Permission denied\n", 20_000)
	line := "touch: cannot touch '/etc/x': Permission denied\n"
	for name, output := range map[string]string{"beginning": line + noise, "end": noise + line,
		"end, without lines": strings.Repeat("\x00", 1<<20) + " " + line} {
		d := Of(Facts{Status: messages.StatusExited(1), Output: []byte(output), Dir: "/ws", Rules: Rules{Write: []string{"/ws"}}})
		if d == nil || d.Path != "/etc/x" {
			t.Errorf("at the %s: %v", name, d)
		}
	}
}
