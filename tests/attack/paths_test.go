//go:build linux

package attack

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// atBoth runs a test with a host that isolates commands, where this machine can, and with one that confines them.
func atBoth(t *testing.T, test func(*testing.T, *execbus.Runtime, messages.Assurance)) {
	if level, _, why := best(t, host(t)); level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %s", why)
	} else if level == messages.AssuranceIsolated {
		t.Run("isolated", func(t *testing.T) { test(t, host(t), messages.AssuranceIsolated) })
	}
	t.Run("confined", func(t *testing.T) {
		spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: true})
		must(t, err)
		t.Cleanup(func() { must(t, spawner.Close()) })
		rt, err := execbus.Start(execbus.Options{Spawner: spawner})
		must(t, err)
		t.Cleanup(func() { must(t, rt.Shutdown(context.Background())) })
		test(t, rt, messages.AssuranceConfined)
	})
}

// open opens a session whose commands may write in the given directory.
func (s *scene) open(level messages.Assurance, dir string, more ...func(*execbus.SessionOptions)) (*execbus.Session, error) {
	s.Helper()
	policy := messages.Clone(s.policy)
	options := execbus.SessionOptions{Dir: dir, Sandbox: &policy, LeastAssurance: level, NoLoginShell: true}
	for _, set := range more {
		set(&options)
	}
	session, err := s.rt.OpenSession(options)
	if err == nil {
		s.Cleanup(func() { must(s, session.Close(context.Background())) })
	}
	return session, err
}

// shell runs a script in a session. Its output and its error are for messages.
func (s *scene) shell(session *execbus.Session, script string, set ...func(*messages.ExecCommand)) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	yield := patience
	command := messages.ExecCommand{Argv: []string{"/bin/sh", "-c", script}, Yield: &yield}
	for _, change := range set {
		change(&command)
	}
	result, err := session.Exec(ctx, command)
	if err != nil {
		return err.Error()
	}
	if result.Running {
		s.Fatalf("it still runs: %s", result.Output)
	}
	return string(result.Output) + result.Status.String()
}

// untouched fails unless everything outside of the root is as it was.
func (s *scene) untouched(why string) {
	s.Helper()
	var names []string
	err := filepath.WalkDir(s.Out, func(path string, _ os.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, s.Out))
		return err
	})
	text, failed := os.ReadFile(s.Out + "/file")
	if got := strings.Join(names, " "); err != nil || failed != nil || got != " /dir /file" || string(text) != "untouched" {
		s.Errorf("it was reached: %v, %q, %v, %v; %s", names, text, err, failed, why)
	}
}

// A command replaces what the next session will be told to write, as a user does who always starts with the same settings. The second
// session is refused, and says where the link is and where it leads.
func TestRootsThatTheLastSessionHasReplaced(t *testing.T) {
	root := func(path string) func(*execbus.SessionOptions) {
		return func(o *execbus.SessionOptions) { o.Sandbox.WritableRoots = []string{path} }
	}
	at := func(path string) func(*execbus.SessionOptions) {
		return func(o *execbus.SessionOptions) { o.Dir = path }
	}
	tests := []struct {
		name, prepare string                                          // in the root, which has the directory dir and the file file
		set           func(path string) func(*execbus.SessionOptions) // nil: TMPDIR
		path          string                                          // what the second session may write; WORK is the root
		link          string                                          // what the refusal names
		goes          string                                          // what the command of the second session writes to
	}{
		{name: "a root", prepare: "rmdir dir && ln -s OUT dir", set: root, path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "by a relative link", prepare: "rmdir dir && ln -s ../out dir", set: root, path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "the parent of a root", prepare: "rmdir dir && ln -s OUT/.. dir", set: root, path: "WORK/dir/out", link: "WORK/dir", goes: "WORK/dir/out/new"},
		{name: "by a chain of links", prepare: "rmdir dir && ln -s OUT c && ln -s c b && ln -s b dir", set: root, path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "by the root of everything", prepare: "rmdir dir && ln -s / dir", set: root, path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/OUT/new"},
		{name: "by a link that goes up", prepare: "rmdir dir && mkdir a && ln -s a/../../out dir", set: root, path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "by a link of the kernel's", prepare: "rmdir dir && ln -s /proc/self/cwd dir", set: root, path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "with a slash", prepare: "rmdir dir && ln -s OUT dir", set: root, path: "WORK/dir/", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "with dots", prepare: "rmdir dir && ln -s OUT dir", set: root, path: "WORK/./dir/.", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "with dots behind the link", prepare: "rmdir dir && ln -s OUT/dir dir", set: root, path: "WORK/dir/..", link: "WORK/dir", goes: "OUT/new"},
		{name: "a root inside the link", prepare: "rmdir dir && ln -s OUT dir", set: root, path: "WORK/dir/dir", link: "WORK/dir", goes: "WORK/dir/dir/new"},
		{name: "a file", prepare: "rm file && ln -s OUT/file file", set: root, path: "WORK/file", link: "WORK/file", goes: "WORK/file"},
		{name: "a root that was missing", prepare: "ln -s OUT soon", set: root, path: "WORK/soon", link: "WORK/soon", goes: "WORK/soon/new"},
		{name: "a root that is still missing", prepare: "ln -s OUT/new soon", set: root, path: "WORK/soon", link: "WORK/soon", goes: "WORK/soon"},
		{name: "the session's directory", prepare: "rmdir dir && ln -s OUT dir", set: at, path: "WORK/dir", link: "WORK/dir", goes: "new"},
		{name: "a parent of the session's directory", prepare: "rmdir dir && ln -s OUT dir", set: at, path: "WORK/dir/dir", link: "WORK/dir", goes: "new"},
		{name: "TMPDIR", prepare: "rmdir dir && ln -s OUT dir", path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/new"},
		{name: "a TMPDIR that was missing", prepare: "ln -s OUT soon", path: "WORK/soon", link: "WORK/soon", goes: "WORK/soon/new"},
		{name: "a TMPDIR that is still missing", prepare: "ln -s OUT/new soon", path: "WORK/soon", link: "WORK/soon", goes: "WORK/soon"},
		{name: "a TMPDIR whose parent was missing", prepare: "ln -s OUT soon", path: "WORK/soon/dir", link: "WORK/soon", goes: "WORK/soon/dir/new"},
		{name: "by a protected name", prepare: "rmdir dir && ln -s .git dir", set: root, path: "WORK/dir", link: "WORK/dir", goes: "WORK/dir/hooks/new"},
	}
	atBoth(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := stage(t, rt, attack{})
				must(t, os.Mkdir(s.Work+"/../other", 0o755))
				words := strings.NewReplacer("WORK", s.Work, "OUT", s.Out)
				first, err := s.open(level, s.Work)
				must(t, err)
				if said := s.shell(first, words.Replace(test.prepare)); said != "code(0)" {
					t.Fatalf("the attack was not prepared: %s", said)
				}
				must(t, first.Close(t.Context()))
				set := func(*execbus.SessionOptions) {}
				if path := words.Replace(test.path); test.set != nil {
					set = test.set(path)
				} else {
					t.Setenv("TMPDIR", path)
					s.policy.ExcludeTmpdirEnvVar = false
				}
				second, err := s.open(level, filepath.Dir(s.Work)+"/other", set) // a workspace that holds nothing
				why := ""
				if err != nil {
					why = err.Error()
				} else {
					why = s.shell(second, words.Replace(`echo owned >"`+test.goes+`"`))
				}
				s.untouched(why)
				if _, err := os.Stat(s.Work + "/.git/hooks/new"); err == nil {
					t.Errorf("a protected name was written: %s", why)
				}
				if test.link != "" && !strings.Contains(why, `symbolic link "`+words.Replace(test.link)+`"`) {
					t.Errorf("the refusal does not name the link: %s", why)
				}
			})
		}
	})
}

// answers is a person who answers each question, and remembers what was asked.
type answers struct {
	decide func(messages.Question) messages.DecisionKind
	asked  chan messages.Question
}

func (a answers) Approve(_ context.Context, q messages.Question) (messages.Decision, error) {
	a.asked <- q
	return messages.Decision{Kind: a.decide(q), Rejection: "no"}, nil
}

func person(decide func(messages.Question) messages.DecisionKind) answers {
	return answers{decide, make(chan messages.Question, 64)}
}

// all are the questions that were asked.
func (a answers) all() (list []messages.Question) {
	for {
		select {
		case q := <-a.asked:
			list = append(list, q)
		default:
			return list
		}
	}
}

func untrusting(a answers) func(*execbus.SessionOptions) {
	return func(o *execbus.SessionOptions) {
		o.Approval, o.Approver = messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}, a
	}
}

// A command that was approved in its sandbox says that the sandbox has stopped it, so that it runs again without one.
func TestForgedDenials(t *testing.T) {
	atBoth(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		for _, test := range []struct {
			name, forge string
			first       messages.DecisionKind
			asks        bool // about another attempt
			set         func(*messages.ExecCommand)
		}{
			{name: "by its output", forge: `echo "touch: cannot touch '/etc/x': Permission denied" >&2; exit 1`, first: messages.DecisionApproved, asks: true},
			{name: "approved for the session", forge: `echo "touch: cannot touch '/etc/x': Permission denied" >&2; exit 1`, first: messages.DecisionApprovedForSession, asks: true},
			{name: "on a terminal", forge: `echo "touch: cannot touch '/etc/x': Permission denied"; exit 1`, first: messages.DecisionApproved, asks: true,
				set: func(c *messages.ExecCommand) { c.TTY = true }},
			{name: "by its signal", forge: `kill -SYS $$`, first: messages.DecisionApproved, asks: true},
			{name: "by a real one", forge: `touch OUT/other; exit 1`, first: messages.DecisionApproved, asks: true},
			{name: "too late", forge: `sleep 0.3; echo "touch: cannot touch '/etc/x': Permission denied" >&2; exit 1`, first: messages.DecisionApproved, asks: true},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := stage(t, rt, attack{})
				a := person(func(q messages.Question) messages.DecisionKind {
					if q.Retry || q.Unsandboxed {
						return messages.DecisionDenied
					}
					return test.first
				})
				session, err := s.open(level, s.Work, untrusting(a))
				must(t, err)
				script := strings.ReplaceAll(`{ echo owned >OUT/new; } 2>/dev/null && exit 0; `+test.forge, "OUT", s.Out)
				for range 2 {
					var set []func(*messages.ExecCommand)
					if test.set != nil {
						set = append(set, test.set)
					}
					said := s.shell(session, script, set...)
					s.untouched(said)
					asked := a.all()
					if again := len(asked) > 0 && asked[len(asked)-1].Retry; again != test.asks {
						t.Errorf("asked about another attempt: %v; %s", again, said)
					}
					for _, q := range asked {
						if q.Retry && (!q.Unsandboxed || !strings.Contains(q.Text(), "can forge") || !strings.Contains(q.Text(), "the sandbox denied")) {
							t.Errorf("the question is %s", q.Text())
						}
					}
				}
			})
		}
	})
}

// A person makes a rule wherever one is offered. A command then puts something else where the rule's program or script was.
func TestRulesForWhatACommandReplaces(t *testing.T) {
	atBoth(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		for _, test := range []struct {
			name string
			argv []string
			env  string
		}{
			{name: "a program", argv: []string{"./tool"}},
			{name: "a program by its absolute path", argv: []string{"WORK/tool", "x"}},
			{name: "a name in PATH", argv: []string{"tool", "x"}, env: "WORK"},
			{name: "a script of a shell", argv: []string{"/bin/sh", "tool"}},
			{name: "through env", argv: []string{"/usr/bin/env", "./tool"}},
			{name: "in a script", argv: []string{"/bin/sh", "-c", "./tool x"}},
			{name: "a whole script", argv: []string{"/bin/sh", "-c", "for i in 1; do ./tool; done"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := stage(t, rt, attack{})
				must(t, os.WriteFile(s.Work+"/tool", []byte("#!/bin/sh\ntrue\n"), 0o755))
				words := strings.NewReplacer("WORK", s.Work, "OUT", s.Out)
				if test.env != "" {
					t.Setenv("PATH", os.Getenv("PATH")+":"+words.Replace(test.env))
				}
				a := person(func(q messages.Question) messages.DecisionKind {
					if q.Unsandboxed {
						return messages.DecisionDenied
					}
					if len(q.Amendment) > 0 {
						return messages.DecisionApprovedWithRule
					}
					return messages.DecisionApproved
				})
				session, err := s.open(level, s.Work, untrusting(a))
				must(t, err)
				use := func(c *messages.ExecCommand) {
					c.Argv = nil
					for _, word := range test.argv {
						c.Argv = append(c.Argv, words.Replace(word))
					}
				}
				first := s.shell(session, "", use)
				if asked := a.all(); len(asked) != 1 || len(asked[0].Amendment) > 0 {
					t.Errorf("asked %+v; %s", asked, first)
				}
				must(t, os.WriteFile(s.Work+"/tool", []byte(words.Replace("#!/bin/sh\necho owned >OUT/new\n")), 0o755))
				s.untouched(s.shell(session, "", use))
				if asked := a.all(); len(asked) == 0 {
					t.Error("it ran again without a question")
				}
			})
		}
	})
}

// A command asks for a path, or is approved with it for the session, and a command makes the path lead elsewhere: before the question,
// while it stands, or before the next call. The person sees where the path leads, and is asked again when that changes.
func TestPermissionsForPathsThatMove(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare string // before the first call
		path    string // what is asked for
		move    string // what the attacker does in between
		when    string // "asked": while the first question stands; "called": before a second call; empty: never
		goes    string // what the command writes to
		asks    int    // questions, of which the last is denied
		leads   string // what the last question says
	}{
		{name: "a link", prepare: "ln -s OUT link", path: "WORK/link", goes: "link/new", asks: 1, leads: "WORK/link leads to OUT"},
		{name: "a link by a relative path", prepare: "ln -s ../out link", path: "link", goes: "link/new", asks: 1, leads: "link leads to OUT"},
		{name: "a chain", prepare: "ln -s OUT a && ln -s a link", path: "WORK/link/dir", goes: "link/dir/new", asks: 1, leads: "WORK/link/dir leads to OUT/dir"},
		{name: "a file", prepare: "ln -s OUT/file link", path: "WORK/link", goes: "link", asks: 1, leads: "WORK/link leads to OUT/file"},
		{name: "dots behind a link", prepare: "ln -s OUT/dir link", path: "WORK/link/../dir", goes: "link/../new", asks: 1, leads: "leads to OUT/dir"},
		{name: "while the question stands", path: "WORK/dir", move: "rmdir dir && ln -s OUT dir", when: "asked", goes: "dir/new", asks: 2, leads: "WORK/dir leads to OUT"},
		{name: "its parent, while the question stands", prepare: "mkdir -p sub/dir", path: "WORK/sub/dir", move: "mv sub gone && ln -s OUT sub", when: "asked",
			goes: "sub/dir/new", asks: 2, leads: "WORK/sub/dir leads to OUT/dir"},
		{name: "a file, while the question stands", path: "WORK/file", move: "rm file && ln -s OUT/file file", when: "asked", goes: "file", asks: 2,
			leads: "WORK/file leads to OUT/file"},
		{name: "a link, while the question stands", prepare: "mkdir fine && ln -s fine link", path: "WORK/link", move: "rm link && ln -s OUT link", when: "asked",
			goes: "link/new", asks: 2, leads: "WORK/link leads to OUT"},
		{name: "another directory, while the question stands", path: "WORK/dir", move: "mkdir x && rmdir dir && mv x dir", when: "asked", goes: "dir/new && false", asks: 2},
		{name: "before the next call", path: "WORK/dir", move: "mv dir gone && ln -s OUT dir", when: "called", goes: "dir/new", asks: 2, leads: "WORK/dir leads to OUT"},
		{name: "its parent, before the next call", prepare: "mkdir -p sub/dir", path: "WORK/sub/dir", move: "mv sub gone && ln -s OUT sub", when: "called",
			goes: "sub/dir/new", asks: 2, leads: "WORK/sub/dir leads to OUT/dir"},
		{name: "a file, before the next call", path: "WORK/file", move: "rm file && ln -s OUT/file file", when: "called", goes: "file", asks: 2,
			leads: "WORK/file leads to OUT/file"},
		{name: "another directory, before the next call", path: "WORK/dir", move: "mkdir x && mv dir gone && mv x dir", when: "called", goes: "dir/new", asks: 2},
		{name: "nothing moves", path: "WORK/dir", move: "touch dir/x", when: "called", goes: "dir/new", asks: 1},
		{name: "a file that is written again", path: "WORK/file", move: "echo x >y && mv y file", when: "called", goes: "file", asks: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			atBoth(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
				s := stage(t, rt, attack{})
				words := strings.NewReplacer("WORK", s.Work, "OUT", s.Out)
				attacker, err := s.open(level, s.Work)
				must(t, err)
				act := func(script string) {
					if said := s.shell(attacker, words.Replace(script)); script != "" && said != "code(0)" {
						t.Errorf("the attack was not prepared: %s", said)
					}
				}
				act(test.prepare)
				asked := 0
				a := person(func(messages.Question) messages.DecisionKind {
					asked++
					if asked == 1 && test.when == "asked" {
						act(test.move)
					}
					if asked == test.asks && (test.asks > 1 || test.when == "") {
						return messages.DecisionDenied
					}
					return messages.DecisionApprovedForSession
				})
				session, err := s.open(level, s.Work, func(o *execbus.SessionOptions) { o.Approver = a })
				must(t, err)
				wider := func(c *messages.ExecCommand) {
					c.SandboxPermissions, c.Justification = messages.PermissionsWithAdditional, "please"
					c.AdditionalPermissions = &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{words.Replace(test.path)}}}
				}
				script := words.Replace("echo owned >" + test.goes)
				said := s.shell(session, script, wider)
				if test.when == "called" {
					act(test.move)
					said = s.shell(session, script, wider)
				}
				s.untouched(said)
				questions := a.all()
				if len(questions) != test.asks || test.asks > 1 && !strings.Contains(said, "no") {
					t.Fatalf("%d questions; %s", len(questions), said)
				}
				last := questions[len(questions)-1].Text()
				if !strings.Contains(last, words.Replace(test.leads)) || test.leads == "" && strings.Contains(last, "leads") {
					t.Errorf("the last question is %s", last)
				}
			})
		})
	}
}

// Where a path leads elsewhere each time that it is followed, the command is refused in the end.
func TestAPathThatNeverRests(t *testing.T) {
	atBoth(t, func(t *testing.T, rt *execbus.Runtime, level messages.Assurance) {
		s := stage(t, rt, attack{})
		places := [2]string{s.Out, s.Out + "/dir"}
		must(t, os.Symlink(places[0], s.Work+"/link"))
		asked := 0
		a := person(func(messages.Question) messages.DecisionKind {
			asked++
			must(t, os.Remove(s.Work+"/link"))
			must(t, os.Symlink(places[asked%2], s.Work+"/link"))
			return messages.DecisionApproved
		})
		session, err := s.open(level, s.Work, func(o *execbus.SessionOptions) { o.Approver = a })
		must(t, err)
		said := s.shell(session, "echo owned >link/new", func(c *messages.ExecCommand) {
			c.SandboxPermissions = messages.PermissionsWithAdditional
			c.AdditionalPermissions = &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{"link"}}}
		})
		s.untouched(said)
		if n := len(a.all()); n < 2 || n > 8 || !strings.Contains(said, "lead elsewhere each time") {
			t.Errorf("%d questions; %s", n, said)
		}
	})
}
