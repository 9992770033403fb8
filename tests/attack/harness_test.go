//go:build linux

package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// attack is one way out of the sandbox.
type attack struct {
	name string
	// except says why confined does not stop the attack; where it is empty confined stops it. Isolated stops all of them.
	except string
	// since is the version of Landlock from which on confined stops it; zero for all.
	since int
	who   who
	// policy is workspace-write without the network, unless it says otherwise.
	policy func(*messages.SandboxPolicy)
	// unsafe attacks are not tried without a sandbox: they would harm this machine, or nothing shows that they have worked.
	unsafe bool
	tty    bool
	env    map[string]string
	// limits are those of the attempt in a sandbox. Without a group the kernel holds a limit for memory for each process alone.
	limits    messages.Limits
	needGroup bool // the attempt shares the work between processes
	// setup prepares the world outside.
	setup func(*scene)
	// act is the attempt, inside. If it returns nil, it believes that it has won.
	act func(places) error
	// won checks from outside whether the attempt has won; without it the test believes the attempt.
	won func(*scene) bool
}

// who says which user makes an attack.
type who int

const (
	anybody who = iota
	onlyRoot
	onlyUser
)

func attacks() []attack {
	return slices.Concat(writes(), attributes(), mounts(), protectedNames(), sockets(), otherProcesses(), kernelDoors(), rootDoors(), terminals(), launches(), bombs(), settings(), leading(), setIDs(), namedHosts())
}

// scene is the world outside one attempt.
type scene struct {
	*testing.T
	places
	rt     *execbus.Runtime
	policy messages.SandboxPolicy
	killed func() bool // waits a moment, and reports whether its victim is dead
}

const patience = time.Minute

// stage builds a scene: a writable root and a directory beside it, with files in both.
func stage(t *testing.T, rt *execbus.Runtime, a attack) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("", "execbus-attack-") // a directory named after the test could have characters that are special in mount options
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	s := &scene{T: t, rt: rt, places: places{Work: dir + "/work", Out: dir + "/out", Host: os.Getpid()}}
	s.policy = messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}
	if a.policy != nil {
		a.policy(&s.policy)
	}
	for _, name := range []string{"work/.git/hooks", "work/vendor/lib/.git", "work/dir", "out/dir"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, os.WriteFile(dir+"/work/file", []byte("inside"), 0o644))
	for _, name := range []string{"work/.git/config", "work/vendor/lib/.git/config", "out/file"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("untouched"), 0o644))
	}
	if a.setup != nil {
		a.setup(s)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// host starts a runtime for one test.
func host(t *testing.T) *execbus.Runtime {
	t.Helper()
	rt, err := execbus.Start(execbus.Options{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// try makes the attempt, in a session of its own. An empty level means no sandbox.
func (s *scene) try(a attack, level messages.Assurance) (won bool, why string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	options := execbus.SessionOptions{Dir: s.Work, LeastAssurance: level}
	if level != "" {
		options.Sandbox, options.Limits = &s.policy, a.limits
	}
	session, err := s.rt.OpenSession(options)
	must(s, err)
	defer func() { must(s, session.Close(context.Background())) }()
	where, err := json.Marshal(s.places)
	must(s, err)
	self, err := os.Executable()
	must(s, err)
	yield := patience
	command := messages.ExecCommand{Argv: []string{self, roleAct, a.name, string(where)}, TTY: a.tty, Yield: &yield}
	if a.env != nil {
		command.Environment = &messages.EnvironmentPolicy{Set: a.env}
	}
	result, err := session.Exec(ctx, command)
	if err != nil {
		return false, err.Error()
	}
	said := strings.TrimSpace(strings.ReplaceAll(string(result.Output), "\r", ""))
	if i := strings.LastIndexByte(said, '\n'); i >= 0 {
		said = said[i+1:]
	}
	if strings.HasPrefix(said, "BROKEN") || result.Running {
		s.Fatalf("the attempt was not made: %s, %v", said, result.Status)
	}
	won = strings.HasSuffix(said, "WON") // after the text that was typed into its terminal
	if a.won != nil {
		won = a.won(s)
	}
	return won, fmt.Sprintf("%s, %v", said, result.Status)
}

// best returns the strongest level that this machine has, its version of Landlock, and what is missing.
func best(t *testing.T, rt *execbus.Runtime) (level messages.Assurance, landlock int, text string) {
	t.Helper()
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: t.TempDir(), LeastAssurance: messages.AssuranceConfined,
		Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}})
	must(t, err)
	defer func() { must(t, session.Close(context.Background())) }()
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecStarted}})
	must(t, err)
	defer events.Close()
	if _, err := session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"true"}}); err != nil {
		return messages.AssuranceNone, 0, err.Error()
	}
	for event := range events.All(t.Context()) {
		if started, ok := event.(messages.ExecStarted); ok && started.Enforced != nil {
			return started.Enforced.Level, started.Enforced.LandlockABI, started.Enforced.String()
		}
	}
	return messages.AssuranceNone, 0, "no start was told"
}

// levelVariable names the variable with the level of the attacks in a cage.
const levelVariable = "EXECBUS_ATTACK_LEVEL"

func TestAttacks(t *testing.T) {
	rt := host(t)
	level, landlock, text := best(t, rt)
	t.Logf("the strongest level here: %s", text)
	if level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %s", text)
	}
	if want := os.Getenv(levelVariable); want != "" && want != string(level) {
		t.Fatalf("the level is %s, want %s", level, want)
	}
	caged := withoutNamespaces(t, level)
	r := round{rt: rt, level: level, landlock: landlock, exceptions: map[string]int{}}
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			if root := os.Geteuid() == 0; a.who == onlyRoot && !root || a.who == onlyUser && root {
				t.Skip("skipped: this attack is for another user")
			}
			r.try(t, a)
		})
	}
	t.Logf("of %d attacks %d had to fail at %s; without a sandbox %d of them worked, %d did not here, the others are not safe to try",
		len(attacks()), r.tried, level, r.shown, r.impossible)
	for why, number := range r.exceptions {
		t.Logf("%d are exceptions at %s: %s", number, level, why)
	}
	t.Run("without namespaces", caged)
}

// round runs all attacks at one level.
type round struct {
	rt                       *execbus.Runtime
	level                    messages.Assurance
	landlock                 int // its version
	tried, shown, impossible int
	exceptions               map[string]int
}

// try makes one attack, first without a sandbox.
func (r *round) try(t *testing.T, a attack) {
	except := a.except
	if r.level == messages.AssuranceIsolated {
		except = ""
	}
	if abi := r.landlock; r.level == messages.AssuranceConfined && abi < a.since {
		except = fmt.Sprintf("it needs version %d of Landlock, and the kernel has %d", a.since, abi)
	}
	if a.needGroup && !grouped() {
		except = "without a control group a limit for memory applies to each process alone"
	}
	works := false
	if !a.unsafe && (os.Getenv(levelVariable) == "" || except != "") {
		var why string
		if works, why = stage(t, r.rt, a).try(a, ""); works {
			r.shown++
		} else {
			r.impossible++
			t.Logf("does not work here even without a sandbox: %s", why)
		}
	}
	won, why := stage(t, r.rt, a).try(a, r.level)
	switch {
	case except == "":
		r.tried++
		if won {
			t.Errorf("it worked: %s", why)
		} else if testing.Verbose() {
			t.Logf("held: %s", why)
		}
	case won:
		r.exceptions[except]++
		t.Skipf("it works at %s: %s", r.level, except)
	case works && except == a.except && r.landlock >= signals: // the filter for older kernels denies more
		t.Errorf("%s stops it after all, so it is no exception: %s", r.level, why)
	}
}

// grouped reports whether the memory of several processes can be limited together.
func grouped() bool {
	for _, m := range sandbox.Probe().Mechanisms {
		if m.Enforces == "a limit for memory" {
			return m.Works
		}
	}
	return false
}

// withoutNamespaces starts the same attacks once more, in a process in which namespaces are forbidden. The test that it returns waits for
// their end.
func withoutNamespaces(t *testing.T, level messages.Assurance) func(*testing.T) {
	if level != messages.AssuranceIsolated {
		return func(t *testing.T) { t.Skip("skipped: there are no namespaces here, so the other attacks were these") }
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self, roleCage, self, "-test.run=^TestAttacks$", "-test.v="+fmt.Sprint(testing.Verbose()))
	cmd.Env = append(os.Environ(), levelVariable+"="+string(messages.AssuranceConfined))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func(t *testing.T) {
		err := <-ended
		t.Logf("%s", &said)
		must(t, err)
	}
}

func TestThereAreEnoughAttacks(t *testing.T) {
	names := map[string]bool{}
	for _, a := range attacks() {
		if names[a.name] {
			t.Errorf("two attacks are called %q", a.name)
		}
		names[a.name] = true
	}
	if len(names) < 150 {
		t.Errorf("there are %d", len(names))
	}
}
