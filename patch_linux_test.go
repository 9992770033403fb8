package execbus_test

import (
	"context"
	"errors"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// patched is a session with a workspace, at one level of confinement.
type patched struct {
	*execbus.Session
	t         *testing.T
	dir       string // the workspace
	elsewhere string // a directory that commands cannot write
}

// onEachMachine runs a test here, and on the machine of a server, at both levels.
func onEachMachine(t *testing.T, change func(*execbus.SessionOptions), test func(t *testing.T, w *patched)) {
	t.Run("here", func(t *testing.T) { atEachLevel(t, change, test) })
	t.Run("remote", func(t *testing.T) { atLevels(t, serve, change, test) })
}

// atEachLevel runs a test at both levels that the machine has. change may be nil.
func atEachLevel(t *testing.T, change func(*execbus.SessionOptions), test func(t *testing.T, w *patched)) {
	atLevels(t, func(_ *testing.T, s execbus.Spawner) execbus.Spawner { return s }, change, test)
}

// serve gives a spawner to a server, and returns that of its client.
func serve(t *testing.T, inner execbus.Spawner) execbus.Spawner {
	t.Helper()
	t.Cleanup(func() { _ = inner.Close() })
	server, err := execserver.NewServer(inner, execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	near, far := net.Pipe()
	go func() { _ = server.ServeStream(context.Background(), far, far) }()
	remote, err := client.Connect(patient(t), near, near, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return remote
}

func atLevels(t *testing.T, machine func(*testing.T, execbus.Spawner) execbus.Spawner, change func(*execbus.SessionOptions), test func(t *testing.T, w *patched)) {
	for name, without := range map[string]bool{"isolated": false, "confined": true} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: without})
			if err != nil {
				t.Fatal(err)
			}
			rt := newRuntime(t, execbus.Options{Spawner: machine(t, spawner), StateDir: state})
			w := &patched{t: t, dir: realDir(t), elsewhere: realDir(t)}
			options := execbus.SessionOptions{Dir: w.dir, LeastAssurance: messages.Assurance(name),
				Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}}
			if change != nil {
				change(&options)
			}
			if _, err := rt.Enforcement(patient(t), options); err != nil {
				t.Skipf("this machine cannot enforce it: %v", err)
			}
			w.Session = openSession(t, rt, options)
			test(t, w)
			if left := journalled(state); len(left) > 0 {
				t.Errorf("the journal still has %v", left)
			}
		})
	}
}

// realDir is a directory without links in its path that any user can reach.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func journalled(state string) []string {
	left, _ := filepath.Glob(filepath.Join(state, "patches", "*.json"))
	remote, _ := filepath.Glob(filepath.Join(state, "patches", "*", "*.json"))
	return append(left, remote...)
}

func (w *patched) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *patched) want(path, text string) {
	w.t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		w.t.Errorf("%s: %q, %v, want %q", path, got, err, text)
	}
}

func (w *patched) apply(text string) (*messages.PatchResult, error) {
	return w.ApplyPatch(patient(w.t), messages.ApplyPatch{Text: "*** Begin Patch\n" + text + "*** End Patch\n", Call: "c1"})
}

func TestAPatchIsAppliedInTheSandbox(t *testing.T) {
	onEachMachine(t, nil, func(t *testing.T, w *patched) {
		w.write(w.dir+"/a", "one\ntwo\n")
		w.write(w.dir+"/b", "three\n")
		w.write(w.dir+"/c", "gone\n")
		events := watch(t, w.Session, execbus.Watch{Calls: []messages.CallID{"c1"}})
		result, err := w.apply("*** Update File: a\n@@\n-two\n+2\n*** Update File: b\n*** Move to: d/b\n@@\n three\n+four\n*** Delete File: c\n*** Add File: e\n+new\n")
		if err != nil {
			t.Fatal(err)
		}
		w.want(w.dir+"/a", "one\n2\n")
		w.want(w.dir+"/d/b", "three\nfour\n")
		w.want(w.dir+"/e", "new\n")
		for _, name := range []string{"b", "c"} {
			if _, err := os.Lstat(w.dir + "/" + name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
		kinds := map[string]messages.ChangeKind{}
		for _, f := range result.Files {
			kinds[strings.TrimPrefix(f.Path, w.dir+"/")] = f.Kind
			if f.State != messages.StateChanged || len(f.Before) != map[bool]int{true: 0, false: 64}[f.Kind == messages.ChangeAdd] ||
				len(f.After) != map[bool]int{true: 0, false: 64}[f.Kind == messages.ChangeDelete] {
				t.Errorf("%+v", f)
			}
		}
		if len(kinds) != 4 || kinds["a"] != "update" || kinds["d/b"] != "move" || kinds["c"] != "delete" || kinds["e"] != "add" {
			t.Error(kinds)
		}
		if want := "Success. Updated the following files:\nA e\nM a\nM d/b\nD c\n"; result.Summary != want {
			t.Errorf("%q", result.Summary)
		}
		if started := await(t, events, func(e messages.PatchStarted) bool { return true }); len(started.Files) != 4 || started.Dir != w.dir {
			t.Errorf("%+v", started)
		}
		if applied := await(t, events, func(e messages.PatchApplied) bool { return true }); !slices.Equal(applied.Files, result.Files) {
			t.Errorf("%+v", applied)
		}
	})
}

// asked lets somebody answer the session's questions, and keeps them.
type asked struct {
	answer    messages.DecisionKind
	before    func()
	questions chan messages.Question
}

func (a *asked) Approve(_ context.Context, q messages.Question) (messages.Decision, error) {
	a.questions <- q
	if a.before != nil {
		a.before()
	}
	return messages.Decision{Kind: a.answer}, nil
}

func newAsked(kind messages.DecisionKind) *asked {
	return &asked{answer: kind, questions: make(chan messages.Question, 16)}
}

func TestAPatchOutsideOfTheWorkspaceIsAskedAbout(t *testing.T) {
	a := newAsked(messages.DecisionApprovedForSession)
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approver = a }, func(t *testing.T, w *patched) {
		w.write(w.elsewhere+"/a", "one\n")
		w.write(w.elsewhere+"/b", "kept\n")
		patch := "*** Update File: " + w.elsewhere + "/a\n@@\n-one\n+two\n*** Add File: in\n+x\n*** Add File: " + w.elsewhere + "/b\n+y\n"
		if _, err := w.apply(patch); err != nil {
			t.Fatal(err)
		}
		q := <-a.questions
		text := q.Text()
		for _, fact := range []string{"Apply this patch?", "update " + w.elsewhere + "/a (+1 -1)", "-one\n+two\n", "its sandbox would be wider: write " + w.elsewhere, "another file is overwritten"} {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(fact)) {
				t.Errorf("%q is not in\n%s", fact, text)
			}
		}
		w.want(w.elsewhere+"/a", "two\n")
		w.want(w.elsewhere+"/b", "y\n")
		// The same files again, with other changes: nobody is asked.
		again := "*** Update File: " + w.elsewhere + "/a\n@@\n-two\n+three\n*** Add File: in\n+x\n*** Add File: " + w.elsewhere + "/b\n+z\n"
		if _, err := w.apply(again); err != nil || len(a.questions) > 0 {
			t.Errorf("%v, %d questions", err, len(a.questions))
		}
		w.want(w.elsewhere+"/a", "three\n")
		// Another file: somebody is asked.
		if _, err := w.apply("*** Delete File: " + w.elsewhere + "/b\n"); err != nil || len(a.questions) != 1 {
			t.Errorf("%v, %d questions", err, len(a.questions))
		}
		<-a.questions
		if grants, err := w.Grants(patient(t)); err != nil || len(grants) != 2 || !strings.Contains(grants[0].Remembers, w.elsewhere+"/a") {
			t.Errorf("%+v, %v", grants, err)
		}
	})
}

func TestWhatAPatchMayNotDoIsRefusedAndNothingChanges(t *testing.T) {
	never := messages.ApprovalPolicy{Mode: messages.ApproveNever}
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approval = never }, func(t *testing.T, w *patched) {
		w.write(w.dir+"/.git/hooks/x", "hook\n")
		w.write(w.dir+"/a", "one\n")
		if err := os.Symlink(w.elsewhere, w.dir+"/link"); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct{ patch, says string }{
			"outside":       {"*** Add File: a2\n+x\n*** Add File: " + w.elsewhere + "/f\n+x\n", "outside of the project"},
			"up":            {"*** Add File: ../f\n+x\n", "outside of the project"},
			"a link":        {"*** Add File: link/f\n+x\n", "outside of the project"},
			"a hook":        {"*** Update File: .git/hooks/x\n@@\n-hook\n+evil\n", "outside of the project"},
			"a new hook":    {"*** Add File: .git/hooks/y\n+evil\n", "outside of the project"},
			"an agent":      {"*** Add File: .codex/config\n+evil\n", ".codex"},
			"no match":      {"*** Add File: a2\n+x\n*** Update File: a\n@@\n-two\n+x\n", "two"},
			"malformed":     {"*** Frobnicate File: a\n", "line 2"},
			"moved outside": {"*** Update File: a\n*** Move to: " + w.elsewhere + "/a\n@@\n-one\n+x\n", "outside of the project"},
		} {
			_, err := w.apply(c.patch)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.want(w.dir+"/a", "one\n")
		w.want(w.dir+"/.git/hooks/x", "hook\n")
		for _, path := range []string{w.dir + "/a2", w.dir + "/.git/hooks/y", w.elsewhere + "/f"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s was made", path)
			}
		}
	})
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approval, o.Sandbox = never, &messages.SandboxPolicy{} }, func(t *testing.T, w *patched) {
		if _, err := w.apply("*** Add File: a\n+x\n"); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Error(err)
		}
	})
}

func TestAPatchOfADeniedFileShowsNothingOfIt(t *testing.T) {
	a := newAsked(messages.DecisionApproved)
	secret := realDir(t) + "/secret"
	if err := os.WriteFile(secret, []byte("swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	atEachLevel(t, func(o *execbus.SessionOptions) { o.Approver, o.Sandbox.DeniedReads = a, []string{secret} }, func(t *testing.T, w *patched) {
		for _, patch := range []string{"*** Update File: " + secret + "\n@@\n-x\n+y\n", "*** Delete File: " + secret + "\n", "*** Add File: " + secret + "\n+x\n"} {
			if _, err := w.apply(patch); err == nil || strings.Contains(err.Error(), "swordfish") || len(a.questions) > 0 {
				t.Errorf("%v, %d questions", err, len(a.questions))
			}
		}
		if text, err := os.ReadFile(secret); err != nil || string(text) != "swordfish\n" {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// Between question and write somebody swaps the directory for a link, or the file for another.
func TestWhatWasApprovedIsWhatIsWritten(t *testing.T) {
	for name, swap := range map[string]func(w *patched) error{
		"a directory": func(w *patched) error {
			return errors.Join(os.Rename(w.elsewhere+"/d", w.elsewhere+"/old"), os.Symlink(w.elsewhere+"/victim", w.elsewhere+"/d"))
		},
		"another directory with the same file": func(w *patched) error {
			return errors.Join(os.Rename(w.elsewhere+"/d", w.elsewhere+"/old"), os.Mkdir(w.elsewhere+"/d", 0o755), os.Link(w.elsewhere+"/old/a", w.elsewhere+"/d/a"))
		},
		"a file":    func(w *patched) error { return os.WriteFile(w.elsewhere+"/d/a", []byte("changed\n"), 0o644) },
		"a missing": func(w *patched) error { return os.Remove(w.elsewhere + "/d/a") },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsked(messages.DecisionApproved)
			onEachMachine(t, func(o *execbus.SessionOptions) { o.Approver = a }, func(t *testing.T, w *patched) {
				w.write(w.elsewhere+"/d/a", "one\n")
				w.write(w.elsewhere+"/victim/a", "one\n")
				a.before = func() {
					if err := swap(w); err != nil {
						t.Error(err)
					}
				}
				if _, err := w.apply("*** Update File: " + w.elsewhere + "/d/a\n@@\n-one\n+two\n"); err == nil {
					t.Error("it was applied")
				}
				<-a.questions
				w.want(w.elsewhere+"/victim/a", "one\n")
			})
		})
	}
}

// What is remembered is the directory, and not its path.
func TestAnApprovedDirectoryThatIsAnotherOneIsAskedAboutAgain(t *testing.T) {
	a := newAsked(messages.DecisionApprovedForSession)
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approver = a }, func(t *testing.T, w *patched) {
		dir := w.elsewhere + "/d"
		for _, asks := range []bool{true, false, true} {
			if asks {
				w.write(dir+"/was", "")
				if err := os.Rename(dir, realDir(t)+"/old"); err != nil {
					t.Fatal(err)
				}
				w.write(dir+"/is", "")
			}
			if _, err := w.apply("*** Add File: " + dir + "/a\n+x\n"); err != nil {
				t.Fatal(err)
			}
			if (len(a.questions) > 0) != asks {
				t.Errorf("%d questions, want one: %t", len(a.questions), asks)
			}
			for len(a.questions) > 0 {
				<-a.questions
			}
		}
	})
}

func TestAnApprovedPatchOfARepositoryIsWritten(t *testing.T) {
	a := newAsked(messages.DecisionApproved)
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approver = a }, func(t *testing.T, w *patched) {
		w.write(w.dir+"/.git/hooks/x", "hook\n")
		if _, err := w.apply("*** Update File: .git/hooks/x\n@@\n-hook\n+good\n"); err != nil {
			t.Error(err)
		}
		if q := <-a.questions; !strings.Contains(q.Reason, ".git/hooks/x") {
			t.Error(q.Reason)
		}
		w.want(w.dir+"/.git/hooks/x", "good\n")
	})
}

// The repository that a file names is protected as a directory is, and what is denied by one name is denied by all.
func TestAPatchOfWhatTheSandboxKeeps(t *testing.T) {
	never := messages.ApprovalPolicy{Mode: messages.ApproveNever}
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approval = never }, func(t *testing.T, w *patched) {
		w.write(w.dir+"/.git", "gitdir: real\n")
		w.write(w.dir+"/real/config", "old\n")
		w.write(w.dir+"/hidden/secret", "swordfish\n")
		if err := os.Symlink("hidden", w.dir+"/alias"); err != nil {
			t.Fatal(err)
		}
		if err := w.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite,
			ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true, DeniedReads: []string{w.dir + "/alias"}}}); err != nil {
			t.Fatal(err)
		}
		_, err := w.apply("*** Update File: real/config\n@@\n-old\n+evil\n")
		wantError(t, err, messages.ErrRejected, "outside of the project: "+w.dir+"/real/config")
		events := watch(t, w.Session, execbus.Watch{Calls: []messages.CallID{"c1"}})
		for _, text := range []string{"@@\n-swordfish\n+x\n", "@@\n-perch\n+x\n"} {
			_, err = w.apply("*** Update File: hidden/secret\n" + text)
			wantError(t, err, messages.ErrInvalidRequest, "hidden/secret")
			if failed := await(t, events, func(messages.PatchFailed) bool { return true }); len(failed.Files) > 0 {
				t.Errorf("%+v", failed)
			}
		}
		w.want(w.dir+"/real/config", "old\n")
		w.want(w.dir+"/hidden/secret", "swordfish\n")
	})
}

// What is protected need not exist. While something runs isolated, a placeholder keeps its name free, and none of it may be seen.
func TestAPatchOfAProtectedNameThatIsMissing(t *testing.T) {
	files := []string{".codex/x", ".codex/deep/er/y", ".agents", ".git/hooks/x", "sub/.git/config"}
	add := func(name string) string { return "*** Add File: " + name + "\n+x\n" }
	a := newAsked(messages.DecisionApproved)
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approver = a }, func(t *testing.T, w *patched) {
		for _, name := range files {
			if _, err := w.apply(add(name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			select {
			case q := <-a.questions:
				if !strings.Contains(q.Reason, w.dir+"/"+name) {
					t.Errorf("%s: %s", name, q.Reason)
				}
			default:
				t.Errorf("%s: nobody was asked", name)
			}
			w.want(w.dir+"/"+name, "x\n")
		}
	})
	onEachMachine(t, func(o *execbus.SessionOptions) { o.Approval = messages.ApprovalPolicy{Mode: messages.ApproveNever} }, func(t *testing.T, w *patched) {
		for _, name := range append(files, ".git") {
			_, err := w.apply(add(name))
			wantError(t, err, messages.ErrRejected, "outside of the project: "+w.dir+"/"+name)
		}
		for _, name := range []string{".codex/x", ".git/x", ".agents"} {
			_, err := w.apply("*** Delete File: " + name + "\n")
			wantError(t, err, messages.ErrInvalidRequest, "no such file")
		}
		for _, name := range files {
			if text, err := os.ReadFile(w.dir + "/" + name); err == nil {
				t.Errorf("%s has %q", name, text)
			}
		}
	})
}

// A command that runs isolated holds the placeholder, here one of another session. The error says so, and not that it is no directory.
func TestAPatchOfANameThatACommandKeepsFree(t *testing.T) {
	a := newAsked(messages.DecisionApproved)
	atEachLevel(t, func(o *execbus.SessionOptions) { o.Approver = a }, func(t *testing.T, w *patched) {
		holder := openSession(t, newRuntime(t, execbus.Options{StateDir: t.TempDir()}), execbus.SessionOptions{Dir: w.dir, LeastAssurance: messages.AssuranceIsolated,
			Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}})
		if _, err := holder.Start(patient(t), messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true}); err != nil {
			t.Skipf("this machine cannot isolate: %v", err)
		}
		for _, name := range []string{".codex/x", ".git/x", ".agents"} {
			if _, err := w.apply("*** Add File: " + name + "\n+x\n"); err == nil || !strings.Contains(err.Error(), "command") {
				t.Errorf("%s: %v", name, err)
			}
			if q := <-a.questions; !strings.Contains(q.Reason, w.dir+"/"+name) {
				t.Error(q.Reason)
			}
		}
		if err := holder.TerminateAll(patient(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.apply("*** Add File: .codex/x\n+x\n"); err != nil {
			t.Error(err)
		}
		<-a.questions
		w.want(w.dir+"/.codex/x", "x\n")
	})
}

func TestAPatchFollowsTheSessionsPolicy(t *testing.T) {
	atEachLevel(t, nil, func(t *testing.T, w *patched) {
		if err := w.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{}, Approval: &messages.ApprovalPolicy{Mode: messages.ApproveNever}}); err != nil {
			t.Fatal(err)
		}
		_, err := w.apply("*** Add File: a\n+x\n")
		wantError(t, err, messages.ErrRejected, "read-only")
		if err := w.UpdateEnvironment(patient(t), messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.apply("*** Add File: " + w.elsewhere + "/a\n+x\n"); err != nil {
			t.Error(err)
		}
		w.want(w.elsewhere+"/a", "x\n")
	})
}

// strange is a spawner of a host's own, for a machine of which nothing is known.
type strange struct {
	execbus.Spawner
	resolver ptyio.Resolver
}

func (s strange) Resolver() ptyio.Resolver { return s.resolver }

type unknownMachine struct{ ptyio.Resolver }

func TestAPatchOnAMachineWithoutTheProgramIsRefused(t *testing.T) {
	spawner, err := execbus.NewSpawner()
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, execbus.Options{Spawner: strange{spawner, unknownMachine{spawner.Resolver()}}, StateDir: t.TempDir()})
	session := openSession(t, rt, execbus.SessionOptions{Dir: t.TempDir()})
	_, err = session.ApplyPatch(patient(t), messages.ApplyPatch{Text: "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"})
	wantError(t, err, messages.ErrUnsupported, "no program of ours")
}

// A command that is a patch, whatever shell would run it. Where it is no shell that we know, it runs.
func TestAPatchThroughEachShell(t *testing.T) {
	w := openSession(t, newRuntime(t, execbus.Options{StateDir: t.TempDir()}), execbus.SessionOptions{Dir: realDir(t), Sandbox: &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}})
	script := "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF\n"
	for shell, is := range map[string]bool{"sh": true, "dash": true, "zsh": true, "bash": true, "fish": false, "python3": false} {
		if _, err := osexec.LookPath(shell); err != nil {
			t.Logf("there is no %s", shell)
			continue
		}
		result, err := w.Exec(patient(t), messages.ExecCommand{Script: script, Shell: shell})
		if (err == nil && result.Patch != nil) != is {
			t.Errorf("%s: %+v, %v", shell, result, err)
		}
	}
}

func TestOptionsOfAPatch(t *testing.T) {
	atEachLevel(t, nil, func(t *testing.T, w *patched) {
		w.write(w.dir+"/sub/a", "one\n")
		begin, end := "*** Begin Patch\n", "*** End Patch\n"
		over := begin + "*** Add File: a\n+x\n" + end
		_, err := w.ApplyPatch(patient(t), messages.ApplyPatch{Text: over, Dir: "sub", KeepExisting: true})
		wantError(t, err, messages.ErrInvalidRequest, "Overwritten: a")
		checked, err := w.ApplyPatch(patient(t), messages.ApplyPatch{Text: over, Dir: "sub", CheckOnly: true})
		if err != nil || len(checked.Files) != 1 || !checked.Files[0].Overwrites || checked.Files[0].State != messages.StatePlanned || len(checked.Overwritten) != 1 {
			t.Errorf("%+v, %v", checked, err)
		}
		w.want(w.dir+"/sub/a", "one\n")
		twice := begin + "*** Add File: b\n+x\n*** Update File: b\n@@\n-x\n+y\n" + end
		_, err = w.ApplyPatch(patient(t), messages.ApplyPatch{Text: twice, EachOnce: true})
		wantError(t, err, messages.ErrInvalidRequest, "more than one operation")
		if _, err := w.ApplyPatch(patient(t), messages.ApplyPatch{Text: twice}); err != nil {
			t.Error(err)
		}
		w.want(w.dir+"/b", "y\n")
	})
}

// A host is killed, or the program is, at any time: here the program of a patch is killed right when it has been started to write.
func TestAPatchWhoseProgramIsKilledIsSettled(t *testing.T) {
	for name, direct := range map[string]bool{"warden": false, "direct": true} {
		t.Run(name, func(t *testing.T) {
			inner, err := sandbox.New(sandbox.Options{Direct: direct})
			if err != nil {
				t.Fatal(err)
			}
			children := make(chan ptyio.Child, 64)
			rt := newRuntime(t, execbus.Options{Spawner: observed{inner, children}, StateDir: t.TempDir()})
			dir := realDir(t)
			session := openSession(t, rt, execbus.SessionOptions{Dir: dir})
			var want string
			for i := range 10 {
				next := strings.Repeat(string(rune('a'+i)), 100_000) + "\n"
				done := make(chan error, 1)
				go func() {
					_, err := session.ApplyPatch(patient(t), messages.ApplyPatch{Text: "*** Begin Patch\n*** Add File: f\n+" + next + "*** Add File: g\n+" + next + "*** End Patch"})
					done <- err
				}()
				child := <-children
				for range i * 4 { // later and later
					time.Sleep(200 * time.Microsecond)
				}
				_ = child.Signal(syscall.SIGKILL, ptyio.Tree)
				if err := <-done; err == nil {
					want = next
				}
				for len(children) > 0 {
					<-children
				}
				for _, name := range []string{"f", "g"} {
					if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want && !(want == "" && err != nil) {
						t.Fatalf("%s has %d bytes, %v, want %d", name, len(got), err, len(want))
					}
				}
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) > 2 {
				t.Errorf("%v, %v", names, err)
			}
		})
	}
}

// observed is a spawner that shows its children.
type observed struct {
	execbus.Spawner
	children chan ptyio.Child
}

func (o observed) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	child, err := o.Spawner.Spawn(ctx, launch)
	if err == nil {
		o.children <- child
	}
	return child, err
}

func TestACommandThatIsAPatchIsAppliedAsOne(t *testing.T) {
	never := messages.ApprovalPolicy{Mode: messages.ApproveNever}
	atEachLevel(t, func(o *execbus.SessionOptions) { o.Approval = never }, func(t *testing.T, w *patched) {
		w.write(w.dir+"/sub/a", "one\n")
		text := "*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** End Patch"
		events := watch(t, w.Session, execbus.Watch{Calls: []messages.CallID{"c7"}})
		result, err := w.Exec(patient(t), messages.ExecCommand{Call: "c7", Script: "cd sub && apply_patch <<'EOF'\n" + text + "\nEOF\n"})
		if err != nil || result.Patch == nil || result.Process != 0 || result.Running || result.Status != messages.StatusExited(0) || string(result.Output) != "Success. Updated the following files:\nM a\n" {
			t.Fatalf("%+v, %v", result, err)
		}
		await(t, events, func(messages.PatchApplied) bool { return true })
		w.want(w.dir+"/sub/a", "two\n")
		if result, err = w.Exec(patient(t), messages.ExecCommand{Argv: []string{"apply_patch", strings.Replace(text, "one\n+two", "two\n+three", 1)}, Dir: "sub"}); err != nil || result.Patch == nil {
			t.Fatalf("%+v, %v", result, err)
		}
		w.want(w.dir+"/sub/a", "three\n")
		_, err = w.Exec(patient(t), messages.ExecCommand{Script: text})
		wantError(t, err, messages.ErrInvalidRequest, "is a patch")
		_, err = w.Exec(patient(t), messages.ExecCommand{Script: "cd missing && apply_patch <<'EOF'\n" + text + "\nEOF\n"})
		wantError(t, err, messages.ErrInvalidRequest, "missing")
		// Whatever else it does makes it a command, which the machine has not.
		if result := exec(t, w.Session, bash("apply_patch <<'EOF' && echo done\n"+text+"\nEOF\n")); result.Patch != nil || result.Status != messages.StatusExited(127) {
			t.Errorf("%+v", result)
		}
		// A rule or a policy that holds for patches holds for these, too.
		_, err = w.Exec(patient(t), messages.ExecCommand{Script: "cd .. && apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: out\n+x\n*** End Patch\nEOF\n"})
		wantError(t, err, messages.ErrRejected, "outside of the project")
	})
}
