package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules"
)

const asks = `for all of it> `

// answer presses a key until it counts: one that comes too soon after the question is no answer, and the demo says so.
func (s *seat) answer(key string) {
	s.t.Helper()
	s.expect(asks)
	for {
		s.send(key)
		if said := s.expect(`no answer: press one key, alone|(?:^|> )[a-z]+\n`)[0]; !strings.Contains(said, "no answer") {
			return
		}
		s.expect(asks)
	}
}

// interview is the host with questions, in a directory and with a rule file of its own.
type interview struct {
	*seat
	dir, rules string
}

func beginInterview(t *testing.T) interview {
	t.Helper()
	dir := t.TempDir()
	i := interview{open(t, 40, 100), dir, filepath.Join(dir, "my.rules")}
	if err := os.WriteFile(i.rules, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	i.begin(nil, "--approval", "untrusted", "--rules", i.rules)
	i.expect("demo> ")
	i.send(":cd " + dir + "\r")
	i.expect("demo> ")
	return i
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

func TestOnce(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.send("mkdir one\r")
	i.expect(`demo: Run this command\?\n\n\S+sh -lc 'mkdir one'\n\nIt would run without a sandbox\.\n(?s:.*)\nReason: it is not known to be safe`)
	i.has("one", false)
	i.answer("y")
	i.expect(ended)
	i.has("one", true)
	i.send("mkdir one; true\r")
	i.answer("y") // the answer held only once
	i.expect(ended)
	i.quit()
	if text := i.written(); text != "" {
		t.Errorf("a rule was written: %s", text)
	}
	i.restored()
}

func TestForSession(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.send(":grants\r")
	i.expect(`Nothing is allowed for this session` + prompts)
	i.send("mkdir -p one\r")
	i.answer("a")
	i.expect(ended)
	i.send("mkdir -p one\r")
	i.expect(ended)
	i.send(":grants\r")
	i.expect(`g1  \S+sh -lc 'mkdir -p one'\n` + prompts)
	i.send(":revoke g1\r")
	i.expect(`g1 is forgotten` + prompts)
	i.send(":revoke g1\r")
	i.expect(`demo: revoke g1: there is no such grant` + prompts)
	i.send("mkdir -p one\r")
	i.expect(asks)
	i.send("\x03")
	i.expect(`demo: exec: approval request aborted`)
	i.expect(`demo> `)
	i.quit()
}

func TestAlways(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.send("mkdir -p one\r")
	i.answer("p")
	i.expect(ended)
	if text := i.written(); text != `prefix_rule(pattern=["mkdir", "-p", "one"], decision="allow")`+"\n" {
		t.Errorf("the file has %q", text)
	}
	i.send("mkdir -p one two\r")
	i.expect(ended)
	i.has("two", true)
	i.quit()
}

func TestNo(t *testing.T) {
	t.Parallel()
	i := beginInterview(t)
	i.send("mkdir one\r")
	i.answer("n")
	i.expect(`demo: exec: rejected by user`)
	i.has("one", false)
	i.expect("demo> ")
	i.send("\x1b[A")
	i.expect(`mkdir one`)
	i.send("\x03")
	i.quit()
}

// testing a host without a session: keys come from the test, and the terminal is a pipe.
type stand struct {
	*host
	keys  chan []byte
	asks  chan *asked
	shown *os.File
	text  string
}

func newStand(t *testing.T) *stand {
	t.Helper()
	shown, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shown.Close(); out.Close() })
	s := &stand{keys: make(chan []byte), asks: make(chan *asked), shown: shown}
	s.host = &host{terminal: &terminal{in: shown, out: out}, keys: s.keys, asks: s.asks, events: make(chan messages.Event), results: make(chan func()), signals: make(chan os.Signal), asked: "q1"}
	return s
}

// until reads what is shown until one of the texts was shown, and returns that.
func (s *stand) until(t *testing.T, texts ...string) string {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		for _, text := range texts {
			if _, after, found := strings.Cut(s.text, text); found {
				s.text = after
				return text
			}
		}
		n, err := s.shown.Read(buffer)
		if err != nil {
			t.Fatalf("%q was not shown, but %q", texts, s.text)
		}
		s.text += string(buffer[:n])
	}
}

// A question takes the keyboard from the line, which is there again afterwards with its cursor. Keys for the question do not go to
// the line, and keys for the line do not go to the question.
func TestAQuestionTakesTheKeyboard(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	lines := make(chan string)
	go func() {
		for {
			if line, typed := s.readLine(); typed {
				lines <- line
				return
			}
		}
	}()
	s.until(t, "demo> ")
	s.keys <- []byte("li\x1b[D") // moves the cursor between them
	s.until(t, "\x1b[D")
	wanted, withdraw := context.WithCancel(t.Context())
	defer withdraw()
	for _, answered := range []bool{true, false} {
		q := &asked{Question: messages.Question{ID: "q1", Display: "rm -rf /", Choices: []messages.Choice{{Kind: messages.DecisionApproved}}}, wanted: wanted,
			answer: make(chan messages.Decision, 1)}
		s.asks <- q
		s.until(t, "demo: Run this command?\r\n\r\nrm -rf /\r\n")
		s.until(t, "for all of it> ")
		if !answered {
			withdraw()
			s.until(t, "nobody waits for the answer")
		} else {
			for s.keys <- []byte("y"); s.until(t, "no answer: press one key, alone", "y\r\n") != "y\r\n"; s.keys <- []byte("y") {
				s.until(t, "for all of it> ") // it came too soon
			}
			if decision := <-q.answer; decision.Kind != messages.DecisionApproved {
				t.Errorf("answered %q", decision.Kind)
			}
		}
		s.until(t, "demo> li\x1b[D")
	}
	s.keys <- []byte("e-\r")
	if line := <-lines; line != "le-i" {
		t.Errorf("entered %q", line)
	}
}

// Before a program runs, Ctrl-C ends its start, and other keys wait for it.
func TestKeysBeforeTheProgramRuns(t *testing.T) {
	t.Parallel()
	cancelled := false
	h := &host{front: &job{cancel: func() { cancelled = true }}, pending: []byte("abc")}
	if h.press(); cancelled || string(h.pending) != "abc" {
		t.Errorf("%t, %q", cancelled, h.pending)
	}
	h.pending = append(h.pending, "\x03d"...)
	if h.press(); !cancelled || string(h.pending) != "d" || !h.front.cancelled {
		t.Errorf("%t, %q", cancelled, h.pending)
	}
}

// The answer to the call and the event of the end come in either order.
func TestACommandThatDoesNotStartLeavesTheFront(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{true, false} {
		for order := range 2 {
			s := newStand(t)
			j := &job{call: "a", cancel: func() {}, cancelled: cancelled}
			s.jobs, s.front = map[messages.CallID]*job{j.call: j}, j
			steps := []func(){
				func() { s.notStarted(j, errors.New("as the test wanted")) },
				func() {
					s.event(messages.ExecEnded{Origin: messages.Origin{Call: j.call}, EndRecord: messages.EndRecord{Cause: messages.CauseAborted}}, true)
				},
			}
			steps[order]()
			steps[1-order]()
			if s.front != nil || len(s.jobs) > 0 {
				t.Errorf("cancelled %t, order %d: it is in front %t, jobs: %d", cancelled, order, s.front != nil, len(s.jobs))
			}
		}
	}
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
			i := beginInterview(t)
			i.send("true; sleep 0; mkdir one\r")
			i.expect(asks)
			host := strconv.Itoa(i.host())
			c.end(i.seat)
			i.ends(c.code)
			i.restored()
			gone(t, host)
			i.has("one", false)
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
		"Ctrl-C":   {func(s *seat) { s.expect(asks); s.send("\x03"); s.expect("approval request aborted") }, 126},
		"a signal": {func(s *seat) { s.expect(asks); s.signal(s.demo(), syscall.SIGTERM) }, 143},
		"pasted":   {func(s *seat) { s.expect(asks); s.send("yes"); s.expect("no answer"); s.answer("x") }, 126},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, 24, 100)
			s.begin(nil, "--approval", "untrusted", "--", "sh", "-c", `echo ready; read -r line; echo "got <$line>"; exit 5`)
			c.answer(s)
			s.ends(c.code)
			s.restored()
		})
	}
}

// A command that its sandbox has stopped asks while it is in front, below what it has said. Full-screen programs draw anew.
func TestASecondAttempt(t *testing.T) {
	t.Parallel()
	if got := finish(t, demo(t, "--sandbox", "workspace-write", "--", "true")); got.code != 0 {
		t.Skipf("this machine cannot enforce a sandbox: %s", got.stderr)
	}
	dir := t.TempDir()
	for _, name := range []string{"work", "out"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, 40, 100)
	s.begin(nil, "--approval", "on-failure", "--sandbox", `{"type":"workspace-write","exclude_slash_tmp":true,"exclude_tmpdir_env_var":true}`)
	s.expect("demo> ")
	s.send(":cd " + dir + "/work\r")
	s.expect("demo> ")
	s.send("echo fi''rst; echo text > ../out/file\r")
	s.expect(`(?m)^first\n(?s:.*)demo: The sandbox stopped this command`)
	s.answer("y")
	s.expect(`(?m)^first\n(?s:.*)` + ended)
	if text, err := os.ReadFile(filepath.Join(dir, "out", "file")); err != nil || string(text) != "text\n" {
		t.Errorf("it has written %q; %v", text, err)
	}
	s.quit()
}

// Without a terminal nobody is asked.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	for name, c := range map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"a hint":            {[]string{"--approval", "untrusted", "--", "mkdir", file}, 126, "Allow the command with --rules"},
		"one command":       {[]string{"--approval", "untrusted", "--", "mkdir", file}, 126, "nobody is there to ask"},
		"never":             {[]string{"--approval", "never", "--", "rm", "-rf", file}, 126, "rejected"},
		"a sandbox outside": {[]string{"--sandbox", "external-sandbox", "--", "sh", "-c", "exit 3"}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := demo(t, c.arguments...)
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
		"a broken file":     {[]string{"--rules", broken, "--", "true"}, "home", 2, broken + ":"},
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

// A question about a patch shows the difference.
func TestAPatchIsShownBeforeItIsApplied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, change := filepath.Join(dir, "file"), filepath.Join(dir, "change")
	patch := "*** Begin Patch\n*** Update File: " + file + "\n@@\n-old\n+new\n*** End Patch\n"
	for name, text := range map[string]string{file: "old\n", change: patch} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, 40, 100)
	s.begin(nil, "--approval", "untrusted", "--", "apply_patch", patch)
	s.expect(`Apply this patch\?`)
	s.expect(`(?m)^-old\n\+new$`)
	s.answer("y")
	s.expect(`Success\. Updated the following files:`)
	s.ends(0)
	s.restored()
	if text, err := os.ReadFile(file); err != nil || string(text) != "new\n" {
		t.Errorf("%q, %v", text, err)
	}
	// From the prompt, and nobody has to be asked.
	if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = sit(t)
	s.send(":patch " + change + "\r")
	s.expect(`Success\. Updated the following files:`)
	s.expect("demo> ")
	s.send(":patch " + change + "\r") // it does not fit any more
	s.expect(`cannot be found`)
	s.quit()
}
