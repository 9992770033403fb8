package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
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
	i.expect(`^(shell> )?the same`)
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

const keysShown = `^one key: [yapnx, ]+or \? for all of it>\z`

// answer presses a key until it counts: one that comes too soon after the question is no answer, and the demo says so.
func (i interview) answer(key string) {
	i.t.Helper()
	i.expect(keysShown)
	answered := "for all of it> " + key
	refused, before := strings.Count(i.look(), "That was no answer"), strings.Count(i.look(), answered)
	i.keys(key)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		shown := i.look()
		if strings.Count(shown, answered) > before {
			return
		}
		if strings.Count(shown, "That was no answer") > refused {
			refused++
			i.keys(key)
		}
	}
	i.t.Fatalf("%s did not count", key)
}

func TestOnceInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("mkdir one")
	i.expect(`^demo: Run this command\?\n\n\S+sh -lc 'mkdir one'\n\nIt would run without a sandbox\.\n(?s:.*)^Reason: it is not known to be safe`)
	i.has("one", false)
	i.answer("y")
	i.expect(`exited, code\(0\)`)
	i.has("one", true)
	i.enter("mkdir one; true")
	i.answer("y") // the answer held only once
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
	i.answer("a")
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
	i.expect(`is no such grant(?s:.*)` + keysShown)
	i.keys("C-c")
	i.expect(`^demo: exec: approval request aborted`)
	i.expect(`^demo>$`)
	i.over()
}

func TestAlwaysInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("mkdir -p one")
	i.answer("p")
	i.expect(`exited, code\(0\)`)
	if text := i.written(); text != `prefix_rule(pattern=["mkdir", "-p", "one"], decision="allow")`+"\n" {
		t.Errorf("the file has %q", text)
	}
	i.enter("mkdir -p one two")
	i.expect(`exited, code\(0\)(?s:.*)exited, code\(0\)`)
	i.has("two", true)
	i.enter(":policy")
	i.expect(`^approval: untrusted\nsandbox: danger-full-access\nrules: ` + i.rules + `\nnew rules: written to ` + i.rules)
	i.over()
}

func TestNoInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("mkdir one")
	i.answer("n")
	i.expect(`^demo: exec: rejected by user$`)
	i.has("one", false)
	i.keys("Up")
	i.expect(`^demo> mkdir one$`)
	i.keys("C-c")
	i.over()
}

// x also stops the question that waits behind, which is never shown.
func TestStopInTmux(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.keys("-l", "--", "mkdir one\rmkdir two\r") // all at once: later, the question would get the keys
	i.answer("x")
	i.expect(`aborted(?s:.*)mkdir two" does not run either`)
	i.expect(`^demo>$`)
	if strings.Count(i.look(), "Run this command?") != 1 {
		t.Error("the second question was shown")
	}
	i.has("one", false)
	i.has("two", false)
	i.over()
}

// The output of another command waits until a question is answered. The line that was begun is there again afterwards.
func TestQuestionWhileOutputStreams(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.enter("while :; do echo ti''ck; sleep 0.05; done")
	i.answer("y")
	i.expect(`^tick$`)
	i.keys("C-z")
	i.expect(`goes on in the background`)
	i.keys("-l", "--", "mkdir one\rmkdir two\recho y") // all at once: later, the question would get the keys
	i.expect(`sh -lc 'mkdir one'`)
	i.has("one", false)
	i.answer("y")
	i.expect(`sh -lc 'mkdir two'`)
	i.answer("y")
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, 24, 100)
			file := filepath.Join(t.TempDir(), "file")
			s.begin(nil, "--approval", "untrusted")
			s.expect("demo> ")
			s.send("true; sleep 0; mkdir " + file + "\r")
			s.expect(`for all of it> `)
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
			s.answer("y")
			s.expect("ready")
			s.send("text\r")
			s.expect("got <text>")
		}, 5},
		"no":       {func(s *seat) { s.answer("n"); s.expect(`demo: exec: rejected by user`) }, 126},
		"stop":     {func(s *seat) { s.answer("x"); s.expect("approval request aborted") }, 126},
		"Ctrl-C":   {func(s *seat) { s.send("\x03"); s.expect("approval request aborted") }, 126},
		"a signal": {func(s *seat) { s.signal(s.demo(), syscall.SIGTERM) }, 143},
		"pasted":   {func(s *seat) { s.send("yes"); s.expect("no answer"); s.answer("x") }, 126},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, 24, 100)
			s.begin(nil, "--approval", "untrusted", "--", "sh", "-c", `echo ready; read -r line; echo "got <$line>"; exit 5`)
			s.expect(`for all of it> `)
			c.answer(s)
			s.ends(c.code)
			s.restored()
		})
	}
}

// answer presses a key until it counts.
func (s *seat) answer(key string) {
	s.t.Helper()
	for {
		s.send(key)
		if said := s.expect(`no answer: press one key, alone|(?:^|> )[a-z]+\n`)[0]; !strings.Contains(said, "no answer") {
			return
		}
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
			s.expect(`for all of it> `)
			s.answer("p")
		}
		s.ends(0)
		s.restored()
	}
	text, err := os.ReadFile(dir + "/config/execbus/rules/default.rules")
	if want := execbus.RuleLine([]string{"mkdir", "-p", dir + "/new"}) + "\n"; err != nil || string(text) != want {
		t.Errorf("the file has %q, want %q; %v", text, want, err)
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
