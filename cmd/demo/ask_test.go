package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

// interview is the interactive demo in tmux, in a directory of its own, with questions.
type interview struct {
	*pane
	dir, rules string
}

func beginInterview(t *testing.T, flags ...string) interview {
	t.Helper()
	p := openPane(t, "NO_COLOR=1")
	dir := t.TempDir()
	i := interview{p, dir, filepath.Join(dir, "my.rules")}
	if err := os.WriteFile(i.rules, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.expect(`^shell>$`)
	p.enter("cd " + dir + `; before=$(stty -a); "$DEMO" --approval untrusted --rules my.rules -yield 30s ` + strings.Join(flags, " ") + `; echo "ended: $?"`)
	p.expect(`^demo>$`)
	return i
}

// over ends the demo and checks the terminal.
func (i interview) over() {
	i.t.Helper()
	i.enter(":quit")
	i.expect(`^ended: 0`)
	i.enter(`[ "$before" = "$(stty -a)" ] && echo the sa''me || stty -a`)
	i.expect(`^the same`)
}

func (i interview) has(name string, want bool) {
	i.t.Helper()
	if _, err := os.Stat(filepath.Join(i.dir, name)); (err == nil) != want {
		i.t.Errorf("%s is there: %t, want %t", name, err == nil, want)
	}
}

// written returns the contents of the rule file.
func (i interview) written() string {
	i.t.Helper()
	text, err := os.ReadFile(i.rules)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(text)
}

const keysShown = `\? \[y/a/p/n/x, \? shows all of it\]$`

func TestOnceInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("mkdir one")
	question := i.expect(`^q1: may this run in /\S+, .*(?:without a sandbox\?|… \(\? shows all\))\n    \S+sh -lc 'mkdir one'\n` +
		`  because: it is not known to be safe(?s:.*?)q1` + keysShown)[0]
	if lines := strings.Count(question, "\n") + 1; lines > 6 {
		t.Errorf("the question has %d lines:\n%s", lines, question)
	}
	i.expect("^q1" + keysShown)
	i.has("one", false)
	i.keys("z") // this key is no answer: the question is shown again, in one line
	i.expect(`^q1: \S+sh -lc 'mkdir one'$`)
	i.keys("?")
	i.expect(`^  y  yes, this once`)
	i.has("one", false)
	i.keys("y")
	i.expect(`^q1: yes, once\n(?s:.*)exited, code\(0\)`)
	i.has("one", true)
	i.enter("mkdir one; true")
	i.expect("^q2" + keysShown) // the answer held only once
	i.keys("y")
	i.expect(`exited, code\(0\)(?s:.*)exited, code\(0\)`)
	i.over()
	if text := i.written(); text != "" {
		t.Errorf("a rule was written: %s", text)
	}
}

func TestForSessionInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("mkdir -p one")
	i.expect("^q1" + keysShown)
	i.keys("?")
	i.expect(`^  a  yes, and for the session: this command, in`)
	i.keys("a")
	i.expect(`^q1: yes, for this session`)
	i.expect(`exited, code\(0\)`)
	i.enter("mkdir -p one")
	i.expect(`exited, code\(0\)(?s:.*)exited, code\(0\)`)
	i.enter(":grants")
	i.expect(`^g1  \S+sh -lc 'mkdir -p one'$`)
	i.enter(":revoke g1")
	i.expect(`^g1 is forgotten`)
	i.enter(":revoke g1")
	i.expect(`^demo: revoke g1: there is no such grant`)
	i.enter("mkdir -p one")
	i.expect("^q2" + keysShown)
	i.keys("C-c")
	i.expect(`^q2: no, stop`)
	i.expect(`^demo: exec: approval request aborted`)
	i.expect(`^demo>$`)
	i.over()
}

func TestAlwaysInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("mkdir -p one")
	i.expect("^q1" + keysShown)
	const rule = `prefix_rule(pattern=["mkdir", "-p", "one"], decision="allow")`
	if !strings.Contains(i.look(), "\n  p always: "+rule+"\n") {
		t.Errorf("the rule is not shown")
	}
	i.keys("p")
	i.expect(`^q1: yes, always(?s:.*)exited, code\(0\)`)
	if text := i.written(); text != rule+"\n" {
		t.Errorf("the file has %q", text)
	}
	i.enter("mkdir -p one two")
	i.expect(`exited, code\(0\)(?s:.*)exited, code\(0\)`)
	i.has("two", true)
	i.enter(":policy")
	i.expect(`^approval: untrusted\nsandbox: danger-full-access\nrules: ` + i.rules + `\nnew rules: written to ` + i.rules)
	i.over()
}

func TestWhyNotInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("mkdir one")
	i.expect("^q1" + keysShown)
	i.keys("n")
	i.expect(`^why not\?$`)
	i.enter("use two instead")
	i.expect(`^demo: exec: use two instead$`)
	i.has("one", false)
	i.keys("Up") // the reason for the no is not in the history
	i.expect(`^demo> mkdir one$`)
	i.keys("C-c")
	i.enter("mkdir one")
	i.expect("^q2" + keysShown)
	i.keys("n")
	i.expect(`^why not\?$`)
	i.keys("-l", "no, ")
	i.keys("C-c")
	i.expect(`^q2: no, stop`)
	i.expect(`approval request aborted`)
	i.has("one", false)
	i.over()
}

// x also stops the question that waits behind, which is never shown.
func TestStopInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.keys("-l", "--", "mkdir one\rmkdir two\r") // all at once: later, the question would get the keys
	i.expect("^q1" + keysShown)
	i.keys("x")
	i.expect(`aborted(?s:.*)mkdir two" does not run either`)
	i.expect(`^demo>$`)
	if strings.Contains(i.look(), "q2") {
		t.Error("the second question was shown")
	}
	i.has("one", false)
	i.has("two", false)
	i.over()
}

// A question can be answered while another command keeps writing. The line that was begun is there again afterwards.
func TestQuestionWhileOutputStreams(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("while :; do echo ti''ck; sleep 0.05; done")
	i.expect("^q1" + keysShown)
	i.keys("y")
	i.expect(`^tick$`)
	i.keys("C-z")
	i.expect(`goes on in the background`)
	i.keys("-l", "--", "mkdir one\rmkdir two\recho y") // all at once: later, the question would get the keys
	i.expect(`q2: may this run`)
	i.expect("^q2" + keysShown)
	i.has("one", false)
	i.keys("y")
	i.expect("^q3" + keysShown)
	i.keys("y")
	i.expect(`(?s)tick.*^demo> echo y$`)
	i.expect(`exited, code\(0\)(?s:.*)exited, code\(0\)`)
	i.has("one", true)
	i.has("two", true)
	i.keys("-l", "es")
	i.keys("Enter")
	i.expect(`^yes$`)
	i.over()
}

// However the demo ends while it asks, the terminal is restored, and nothing ran.
func TestTerminalIsRestoredWithAQuestion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(s *seat)
		code int
	}{
		"SIGTERM":               {func(s *seat) { s.signal(s.demo(), syscall.SIGTERM) }, 143},
		"SIGKILL for the host":  {func(s *seat) { s.signal(s.host(), syscall.SIGKILL) }, 137},
		"SIGKILL for the guard": {func(s *seat) { s.signal(s.demo(), syscall.SIGKILL) }, 137},
		"Ctrl-D for a why":      {func(s *seat) { s.send("n"); s.expect(`why not\?`); s.send("\x04") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, 24, 100)
			file := filepath.Join(t.TempDir(), "file")
			s.begin(nil, "--approval", "untrusted")
			s.expect("demo> ")
			s.send("true; sleep 0; mkdir " + file + "\r")
			s.expect(`q1\? \[y/a/p/n/x,`)
			c.end(s)
			s.ends(c.code)
			s.restored()
			if _, err := os.Stat(file); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

// A single command on a terminal: the question comes on the same terminal, and the command gets the later keys.
func TestQuestionAboutOneCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(s *seat)
		code   int
	}{
		"yes": {func(s *seat) {
			s.send("y")
			s.expect("q1: yes, once")
			s.expect("ready")
			s.send("text\r")
			s.expect("got <text>")
		}, 5},
		"no": {func(s *seat) {
			s.send("n")
			s.expect(`why not\?`)
			s.send("not that\r")
			s.expect(`demo: exec: not that`)
		}, 126},
		"stop":     {func(s *seat) { s.send("x"); s.expect("approval request aborted") }, 126},
		"Ctrl-C":   {func(s *seat) { s.send("\x03"); s.expect("approval request aborted") }, 126},
		"a signal": {func(s *seat) { s.signal(s.demo(), syscall.SIGTERM) }, 143},
		"pasted":   {func(s *seat) { s.send("yes"); s.expect("q1: sh -c"); s.expect(`\[y/a`); s.send("x") }, 126},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, 24, 100)
			s.begin(nil, "--approval", "untrusted", "--", "sh", "-c", `echo ready; read -r line; echo "got <$line>"; exit 5`)
			s.expect(`q1\? \[y/a/`)
			c.answer(s)
			s.ends(c.code)
			s.restored()
		})
	}
}

// Without a terminal nobody is asked.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	for name, c := range map[string]struct {
		arguments []string
		input     string
		code      int
		says      string
	}{
		"a script":             {[]string{"--approval", "untrusted"}, "mkdir " + file + "\n", 126, "nobody is there to ask"},
		"a hint":               {[]string{"--approval", "untrusted"}, "mkdir " + file + "\n", 126, "Allow the command with --rules"},
		"the next line is run": {[]string{"--approval", "untrusted"}, "mkdir " + file + "\npwd\n", 0, "nobody is there to ask"},
		"a hint for it":        {[]string{"--approval", "untrusted", "--", "mkdir", file}, "", 126, "Allow the command with --rules"},
		"one command":          {[]string{"--approval", "untrusted", "--", "mkdir", file}, "", 126, "nobody is there to ask"},
		"never":                {[]string{"--approval", "never", "--", "rm", "-rf", file}, "", 126, "rejected"},
		"a sandbox outside":    {[]string{"--sandbox", "external-sandbox", "--", "sh", "-c", "exit 3"}, "", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := demo(t, c.arguments...)
			command.Stdin = strings.NewReader(c.input)
			if got := finish(t, command); got.code != c.code || !strings.Contains(got.stderr, c.says) {
				t.Errorf("%v; want %d and %q", got, c.code, c.says)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

func TestASandboxHoldsOrRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	got := finish(t, demo(t, "--sandbox", "read-only", "--", "mkdir", file))
	if held := got.code == 1; !held && (got.code != 125 || !strings.Contains(got.stderr, "Missing:")) {
		t.Errorf("%v; want 1, or 125 and what is missing", got)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the directory was made")
	}
}

func TestRulesOfTheUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	forbids := write("forbids.rules", `prefix_rule(pattern=["true"], decision="forbidden", justification="not this")`)
	broken := write("broken.rules", "\nprefix_rule(\n")
	write("home/execbus/rules/default.rules", `prefix_rule(pattern=["uname"], decision="forbidden", justification="not that")`)
	write("bad/execbus/rules/default.rules", "prefix_rule(")
	for name, c := range map[string]struct {
		arguments []string
		config    string
		code      int
		says      string
	}{
		"a file":            {[]string{"--rules", forbids, "--", "true"}, "home", 126, "not this"},
		"the user's own":    {[]string{"--", "uname"}, "home", 126, "not that"},
		"a file instead":    {[]string{"--rules", forbids, "--", "uname"}, "home", 0, ""},
		"two files":         {[]string{"--rules", broken, "--rules", forbids, "--", "true"}, "home", 2, broken + ":"},
		"a broken file":     {[]string{"--rules", broken}, "home", 2, broken + ":"},
		"a broken own file": {[]string{"--", "true"}, "bad", 0, "default.rules"},
		"no file":           {[]string{"--rules", dir + "/none", "--", "true"}, "home", 2, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := demo(t, c.arguments...)
			command.Env = append(command.Env, "XDG_CONFIG_HOME="+filepath.Join(dir, c.config))
			if got := finish(t, command); got.code != c.code || !strings.Contains(got.stderr, c.says) {
				t.Errorf("%v; want %d and %q", got, c.code, c.says)
			}
		})
	}
}

// Rules that are remembered forever are where the next demo finds them. Their directories are created.
func TestTheUsersOwnRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, asked := range []bool{true, false} {
		s := open(t, 24, 100)
		s.begin([]string{"XDG_CONFIG_HOME=" + dir + "/config"}, "--approval", "untrusted", "--", "mkdir", "-p", dir+"/new")
		if asked {
			s.expect(`q1\? \[y/a/p/n/x,`)
			s.send("p")
			s.expect(`q1: yes, always`)
		}
		s.ends(0)
		s.restored()
	}
	text, err := os.ReadFile(dir + "/config/execbus/rules/default.rules")
	if want := execbus.RuleLine([]string{"mkdir", "-p", dir + "/new"}) + "\n"; err != nil || string(text) != want {
		t.Errorf("the file has %q, want %q; %v", text, want, err)
	}
}

// A question shows each fact in a row of its own, and no text in it can move the cursor or hide.
func TestQuestionShowsEverything(t *testing.T) {
	t.Parallel()
	const evil = "/tmp/\x1b[2J\r\n  y  no\u202e\u200b"
	a := asked{Question: messages.Question{ID: "q1", Display: "true", Dir: evil, Amendment: []string{evil},
		Additional: &messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true},
			FileSystem: &messages.FileSystemPermissions{Read: []string{evil}, Write: []string{"/data"}}},
		Segments:     []messages.Segment{{Display: "make", Why: "it is not known to be safe"}, {Display: "curl x", Hosts: []string{"x is xn--x"}}},
		MoreSegments: 3, OpenInput: true,
		Environment: []string{"NAME=value"}, Choices: []messages.Choice{{Kind: messages.DecisionApprovedWithRule, Remembers: "much"}}}}
	text := a.showAll()
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || strings.Count(text, "\n") != 12 {
		t.Errorf("%q", text)
	}
	for _, part := range []string{"q1: may this run?\n    true\n", "the network", "writing /data", "with NAME=value", "input stays open",
		"runs: make\n        it is not known to be safe\n  runs: curl x\n        the host x is xn--x\n  and 3 more commands\n", "p  yes, and always: much"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

// The rule that is shown is the one that is written.
func TestRuleLine(t *testing.T) {
	t.Parallel()
	for i, prefix := range [][]string{{"ls"}, {"git", "commit", "-m", "it's \"so\" <&> \\ \u2028 \u00e9\n"}, {"a b", ""}} {
		file := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := rules.Append(file, prefix); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != execbus.RuleLine(prefix)+"\n" {
			t.Errorf("%q: shown %q, written %q; %v", prefix, execbus.RuleLine(prefix), text, err)
		}
	}
}
