//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/proc"
)

// workspace lets commands write below a directory, and nowhere else.
func workspace(dir string) ptyio.Confinement {
	return ptyio.Confinement{Dir: dir, Least: messages.AssuranceConfined,
		Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}}
}

// enclose makes an enclosure that must be possible. The test is skipped if nothing can be confined here.
func enclose(t testing.TB, spawner ptyio.Spawner, c ptyio.Confinement) ptyio.Enclosure {
	t.Helper()
	e, err := spawner.Enclose(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Release)
	if _, err := spawner.Can(ptyio.Launch{Sandbox: e}); err != nil {
		t.Skipf("skipped: %v", err)
	}
	return e
}

// said runs a script under an enclosure to its end.
func said(t testing.TB, spawner ptyio.Spawner, e ptyio.Enclosure, tty bool, script string, arguments ...string) string {
	t.Helper()
	l := bash(tty, script, arguments...)
	l.Sandbox, l.Merged = e, !tty
	_, r := run(t, spawner, l)
	r.awaitEnd(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.TrimSpace(strings.ReplaceAll(r.output.String(), "\r", ""))
}

func TestAConfinedCommandWritesItsRootsOnly(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		dir, outside := t.TempDir(), t.TempDir()
		e := enclose(t, spawner, workspace(dir))
		got := said(t, spawner, e, tty, `exec 2>&1; cd "$1"; echo in >file && mkdir dir && mv file dir/ && ln -s x dir/link; cat dir/file
			echo out >"$2/file"; mkdir "$2/dir"; cat /etc/passwd >/dev/null && echo read; echo gone >/dev/null && echo null`, dir, outside)
		if !strings.HasPrefix(got, "in\n") || strings.Count(got, "Permission denied") != 2 || !strings.HasSuffix(got, "read\nnull") {
			t.Error(got)
		}
		if left, _ := os.ReadDir(outside); len(left) > 0 {
			t.Errorf("outside there is %v", left)
		}
	})
}

func TestNothingIsWrittenUnderReadOnly(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		dir := t.TempDir()
		e := enclose(t, spawner, ptyio.Confinement{Dir: dir, Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}})
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		got := said(t, spawner, e, tty, `echo x >"$1"; chmod 777 "$1"; touch "$1"; rm "$1"; exit 0`, file)
		if info, err := os.Stat(file); err != nil || info.Size() > 0 || info.Mode() != 0o644 {
			t.Errorf("%v, %v: %s", info, err, got)
		}
	})
}

func TestAConfinedCommandHasNoRights(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		e := enclose(t, spawner, workspace(t.TempDir()))
		got := said(t, spawner, e, tty, `grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'`)
		none := strings.Repeat("0", 16)
		want := "CapInh:" + none + "\nCapPrm:" + none + "\nCapEff:" + none + "\nCapBnd:" + none + "\nCapAmb:" + none + "\nNoNewPrivs:1\nSeccomp:2"
		if os.Geteuid() != 0 { // emptying the bounding set needs a right; without new privileges the set is of no use anyway
			line := regexp.MustCompile("CapBnd:.*")
			got, want = line.ReplaceAllString(got, "CapBnd:"), line.ReplaceAllString(want, "CapBnd:")
		}
		if got != want {
			t.Error(got)
		}
		if got := said(t, spawner, nil, tty, `grep -E '^(NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'`); got != ours(t) {
			t.Errorf("and one that is not confined has %s", got)
		}
	})
}

// ours returns the state of this process.
func ours(t *testing.T) string {
	out, err := exec.Command("sh", "-c", `grep -E '^(NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestNetworkIsOffUnlessThePolicySaysOtherwise(t *testing.T) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skipf("skipped: %v", err)
	}
	const script = `import socket, os
def tried(name, what):
    try: what(); print(name, "yes")
    except OSError: print(name, "no")
tried("tcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
tried("udp", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
def passed(kind):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.send(b"x"), b.recv(1)
tried("unix datagrams", lambda: passed(socket.SOCK_DGRAM))
tried("stream pair", lambda: passed(socket.SOCK_STREAM))
tried("packet pair", lambda: passed(socket.SOCK_SEQPACKET))
tried("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
print(os.environ.get("EXECBUS_SANDBOX_NETWORK_DISABLED"))`
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for network, want := range map[bool]string{
			false: "tcp no\nudp no\nunix datagrams no\nstream pair yes\npacket pair yes\nvsock no\n1",
			true:  "tcp yes\nudp yes\nunix datagrams no\nstream pair yes\npacket pair yes\nvsock no\nNone",
		} {
			c := workspace(t.TempDir())
			c.Policy.NetworkAccess = network
			e := enclose(t, spawner, c)
			if got := said(t, spawner, e, tty, `exec "$1" -c "$2"`, python, script); got != want {
				t.Errorf("network %v: %s", network, got)
			}
			l := launch(tty, "sh", "-c", "echo $EXECBUS_SANDBOX_NETWORK_DISABLED")
			l.Env, l.Sandbox = append(l.Env, "EXECBUS_SANDBOX_NETWORK_DISABLED=0"), e
			_, r := run(t, spawner, l)
			r.awaitEnd(t)
			if got := strings.TrimSpace(r.output.String()); got != map[bool]string{false: "1", true: "0"}[network] {
				t.Errorf("network %v: a command that set the variable has %q", network, got)
			}
		}
	})
}

func TestWhatIsEnforcedIsForetoldAndTold(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		e := enclose(t, spawner, workspace(t.TempDir()))
		l := launch(tty, "true")
		l.Sandbox = e
		predicted, err := spawner.Can(l)
		if err != nil || !predicted.Level.AtLeast(messages.AssuranceConfined) || !slices.Contains(predicted.Mechanisms, "landlock") || predicted.LandlockABI == 0 {
			t.Errorf("%+v, %v", predicted, err)
		}
		_, r := run(t, spawner, l)
		if told := awaitEvent[ptyio.Spawned](t, r).Enforced; told == nil || told.String() != predicted.String() {
			t.Errorf("%v was predicted, and then %v", predicted, told)
		}
		r.awaitEnd(t)
		_, r = run(t, spawner, launch(tty, "true"))
		if told := awaitEvent[ptyio.Spawned](t, r).Enforced; told != nil {
			t.Errorf("without a sandbox: %v", told)
		}
		r.awaitEnd(t)
		limited := launch(tty, "true")
		limited.Limits.OpenFiles = 50
		_, r = run(t, spawner, limited)
		if told := awaitEvent[ptyio.Spawned](t, r).Enforced; told == nil || !slices.Contains(told.Mechanisms, "limits of each process") {
			t.Errorf("with a limit only: %v", told)
		}
		r.awaitEnd(t)
	})
}

func TestWhatDemandsMoreThanThereIsIsRefused(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{WithoutNamespaces: true})
	dir := t.TempDir()
	enclose(t, spawner, workspace(dir))
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*ptyio.Confinement)
		want   string
	}{
		"a protected name":  {func(c *ptyio.Confinement) { c.Least = "" }, "/.git lies where commands can write"},
		"a denial to read":  {func(c *ptyio.Confinement) { c.Least, c.Policy.Type, c.Policy.DeniedReads = "", "", []string{dir} }, "must not be read"},
		"as it was said":    {func(c *ptyio.Confinement) { c.Least, c.Dir = messages.AssuranceIsolated, t.TempDir() }, `has to be enforced as "isolated"`},
		"a name of its own": {func(c *ptyio.Confinement) { c.Least, c.Dir = "", filepath.Dir(dir) }, "/.git lies where commands can write"},
	} {
		c := workspace(dir)
		test.change(&c)
		e, err := spawner.Enclose(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		l := launch(false, "true")
		l.Sandbox, l.Events = e, func(ptyio.Event) {}
		if enforced, err := spawner.Can(l); err == nil {
			t.Logf("%s: it can be had here: %v", name, enforced)
		} else if _, spawned := spawner.Spawn(t.Context(), l); !errors.Is(err, messages.ErrUnsupported) || spawned == nil || spawned.Error() != err.Error() ||
			!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `accept it with the least assurance "confined"`) {
			t.Errorf("%s: %v, and then %v", name, err, spawned)
		}
		e.Release()
	}
}

func TestARootThatLeadsElsewhereFailsTheStart(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		root, other := filepath.Join(t.TempDir(), "root"), t.TempDir()
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		e := enclose(t, spawner, workspace(root))
		if got := said(t, spawner, e, tty, `touch "$1/file" && echo written`, root); got != "written" {
			t.Error(got)
		}
		if err := errors.Join(os.Rename(root, root+".old"), os.Symlink(other, root)); err != nil {
			t.Fatal(err)
		}
		l := launch(tty, "true")
		l.Sandbox, l.Events = e, func(ptyio.Event) {}
		if _, err := spawner.Spawn(t.Context(), l); err == nil || !strings.Contains(err.Error(), "it leads elsewhere than when the sandbox policy was set") {
			t.Error(err)
		}
	})
}

func TestAReleasedEnclosureStartsNothingAndHoldsNothing(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		before := 0
		for i := range 30 {
			e := enclose(t, spawner, workspace(t.TempDir()))
			if got := said(t, spawner, e, tty, "echo hello"); got != "hello" {
				t.Fatal(got)
			}
			wide, err := e.Widen(t.Context(), messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{t.TempDir()}}}, "/")
			if err != nil {
				t.Fatal(err)
			}
			e.Release()
			e.Release()
			l := launch(tty, "true")
			l.Sandbox, l.Events = e, func(ptyio.Event) {}
			if _, err := spawner.Spawn(t.Context(), l); !errors.Is(err, messages.ErrClosed) {
				t.Errorf("error %v", err)
			}
			if got := said(t, spawner, wide, tty, "echo wide"); got != "wide" {
				t.Fatal(got)
			}
			wide.Release()
			if i == 5 {
				before = openEverywhere(t)
			}
		}
		eventually(t, "no more descriptors are open than after some, here and in the warden", func() bool { return openEverywhere(t) <= before+3 })
	})
}

// openEverywhere counts the descriptors of this process and its wardens.
func openEverywhere(t *testing.T) (count int) {
	t.Helper()
	processes, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if seen, _ := look(pid); pid == os.Getpid() || seen.parent == os.Getpid() && seen.isWarden() {
			count += len(proc.Descriptors(pid))
		}
	}
	return count
}

func TestAdditionalPermissionsAreForOneCommand(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		dir, more := t.TempDir(), t.TempDir()
		e := enclose(t, spawner, workspace(dir))
		wide, err := e.Widen(t.Context(), messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true},
			FileSystem: &messages.FileSystemPermissions{Write: []string{filepath.Base(more)}}}, filepath.Dir(more))
		if err != nil {
			t.Fatal(err)
		}
		defer wide.Release()
		const script = `touch "$1/file" && touch "$2/file" && echo ${EXECBUS_SANDBOX_NETWORK_DISABLED-network}; rm -f "$1/file" "$2/file"`
		if got := said(t, spawner, wide, tty, script, dir, more); got != "network" {
			t.Error(got)
		}
		if got := said(t, spawner, e, tty, script, dir, more); !strings.Contains(got, "Permission denied") {
			t.Error(got)
		}
		if _, err := e.Widen(t.Context(), messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{"missing"}}}, more); err == nil {
			t.Error("what does not exist can be written")
		}
	})
}

func TestAnEnclosureOfSomebodyElseIsRefused(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{WithoutNamespaces: true})
	l := launch(false, "true")
	l.Sandbox = ptyio.Enclosed(workspace("/"))
	if _, err := spawner.Can(l); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Error(err)
	}
}

func TestAConfinedTerminalIsTheOnlyOne(t *testing.T) {
	spawner := newSpawner(t, sandbox.Options{WithoutNamespaces: true})
	e := enclose(t, spawner, workspace(t.TempDir()))
	other, r := run(t, spawner, launch(true, "sh", "-c", "tty; exec sleep 1000"))
	r.awaitOutput(t, "/dev/pts/")
	r.mu.Lock()
	theirs := strings.TrimSpace(r.output.String())
	r.mu.Unlock()
	got := said(t, spawner, e, true, `echo mine >"$(tty)"; echo theirs >"$1"; cat <"$1"; echo again >/dev/tty`, theirs)
	if !strings.HasPrefix(got, "mine\n") || strings.Count(got, "Permission denied") != 2 || !strings.HasSuffix(got, "again") {
		t.Error(got)
	}
	other.EndTree(0)
	r.awaitEnd(t)
}

// Commands on terminals that come one after another share a rule set. It must never allow a terminal that somebody still uses.
func TestATerminalIsOutOfReachForLaterCommandsToo(t *testing.T) {
	for _, options := range []sandbox.Options{{WithoutNamespaces: true}, {Direct: true}} {
		t.Run(spawnerName(options.Direct), func(t *testing.T) {
			spawner := newSpawner(t, options)
			e := enclose(t, spawner, workspace(t.TempDir()))
			for i := range 20 { // more than share one
				other, r := run(t, spawner, confinedOn(e, "tty; exec sleep 1000"))
				r.awaitOutput(t, "/dev/pts/")
				r.mu.Lock()
				theirs := strings.TrimSpace(r.output.String())
				r.mu.Unlock()
				got := said(t, spawner, e, true, `echo mine >"$(tty)" && echo theirs >"$1"`, theirs)
				if !strings.HasPrefix(got, "mine") || strings.Count(got, "Permission denied") != 1 {
					t.Fatalf("%d: %s", i, got)
				}
				other.EndTree(0)
				r.awaitEnd(t)
			}
		})
	}
}

// confinedOn is a script on a terminal.
func confinedOn(e ptyio.Enclosure, script string) ptyio.Launch {
	l := launch(true, "sh", "-c", script)
	l.Sandbox = e
	return l
}

func TestAnEnclosureThatCannotBeMadeHoldsNothing(t *testing.T) {
	if !sandbox.Probe().Mechanisms[1].Works {
		t.Skip("skipped: this kernel has no Landlock")
	}
	spawner := newSpawner(t, sandbox.Options{WithoutNamespaces: true})
	confinement := workspace(t.TempDir())
	confinement.Least = messages.AssuranceConfined
	enclosed := enclose(t, spawner, confinement) // what all share is open from now on
	defer enclosed.Release()
	defer sandbox.WithLandlock(unknownLandlock)()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would close what is forgotten
	before := openEverywhere(t)
	for range 3 {
		if _, err := spawner.Enclose(t.Context(), confinement); !errors.Is(err, messages.ErrUnsupported) || !strings.Contains(err.Error(), "rule set") {
			t.Errorf("error %v", err)
		}
	}
	if now := openEverywhere(t); now > before {
		t.Errorf("%d descriptors more are open", now-before)
	}
}

// unknownLandlock is a version that no kernel has; a rule set for it has what no kernel knows.
const unknownLandlock = 1000
