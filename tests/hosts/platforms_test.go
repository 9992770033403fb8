//go:build linux

package hosts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// stageVariable makes this test binary run on a platform that it stages for itself. PLATFORMS.md has a row for each.
const stageVariable = "EXECBUS_TEST_STAGE"

const (
	nobody    = 65534
	reporting = "report" // the platform is staged
)

// platform is one that can be staged.
type platform struct {
	user  bool // its host is an ordinary user, who can stage it
	stage func() error
	// What holds: the strongest level, and what became of a confined command in an ordinary workspace and in a git repository.
	level      messages.Assurance
	plain, git string
	change     string // is in what doctor says about namespaces
	ownUserns  bool   // it is staged in a user namespace of its own
}

const (
	confinedHere = "confined: 0"
	isolatedHere = "isolated: 0"
	refusedHere  = "refused: unsupported"
	ofContainers = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)

var platforms = map[string]platform{
	"docker": {stage: func() error { return errors.Join(masked(), bounded(), containerFilter()) },
		level: messages.AssuranceConfined, plain: confinedHere, git: refusedHere, change: ofContainers},
	"docker, as an ordinary user": {stage: func() error { return errors.Join(masked(), bounded(), containerFilter(), become(nobody)) },
		level: messages.AssuranceConfined, plain: confinedHere, git: refusedHere, change: ofContainers},
	"kubernetes": {stage: func() error { return errors.Join(masked(), bounded()) },
		level: messages.AssuranceIsolated, plain: isolatedHere, git: isolatedHere},
	"kubernetes, on a node with AppArmor": {stage: func() error { return errors.Join(masked(), bounded(), noMounts()) },
		level: messages.AssuranceConfined, plain: confinedHere, git: refusedHere, change: "procMount: Unmasked"},
	"ubuntu": {user: true, stage: func() error {
		return filter(true, refusal{unix.SYS_MOUNT, unix.EACCES}, refusal{unix.SYS_MOVE_MOUNT, unix.EACCES})
	},
		level: messages.AssuranceConfined, plain: confinedHere, git: refusedHere},
	"no user namespaces": {user: true, stage: noNamespaces,
		level: messages.AssuranceConfined, plain: confinedHere, git: refusedHere, ownUserns: true, change: "sysctl -w user.max_user_namespaces=10000"},
	"no Landlock": {user: true, stage: func() error {
		return errors.Join(filter(true, refusal{unix.SYS_LANDLOCK_CREATE_RULESET, unix.ENOSYS}), noMounts())
	}, level: messages.AssuranceNone, plain: refusedHere, git: refusedHere},
}

// report is what a host finds on a platform.
type report struct {
	Level      messages.Assurance
	Change     string // what doctor says about namespaces
	Plain, Git string
}

// beOnPlatform stages a platform and reports from there; it returns if no platform is asked for.
func beOnPlatform() {
	name := os.Getenv(stageVariable)
	switch {
	case name == "":
		return
	case name == reporting:
		if err := json.NewEncoder(os.Stdout).Encode(report{sandbox.Probe().Level, sandbox.Probe().Mechanisms[0].Change, ran("plain"), ran("git")}); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	runtime.LockOSThread() // namespaces, capabilities and filters are a thread's, and exec keeps those of the thread that calls it
	err := platforms[name].stage()
	if err == nil {
		_ = os.Setenv(stageVariable, reporting)
		err = syscall.Exec("/proc/self/exe", os.Args[:1], os.Environ())
	}
	fmt.Println("not staged:", err)
	os.Exit(0)
}

// ran runs a confined command in a workspace and says what became of it.
func ran(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err.Error()
	}
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = rt.Shutdown(context.Background()) }()
	policy := messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}
	options := execbus.SessionOptions{Dir: dir, Sandbox: &policy}
	enforced, err := rt.Enforcement(context.Background(), options)
	session, failed := rt.OpenSession(options)
	if failed != nil {
		return failed.Error()
	}
	result, refused := session.Exec(context.Background(), messages.ExecCommand{Yield: new(messages.MaxYield),
		Argv: []string{"sh", "-c", "touch inside && ! touch ../outside && ! touch .git/hook"}})
	if known, is := errors.AsType[*messages.Error](errors.Join(err, refused)); is {
		return "refused: " + string(known.Code)
	}
	code, _ := result.Status.Code()
	return fmt.Sprintf("%s: %d%s", enforced.Level, code, strings.Repeat(" "+string(result.Output), min(code, 1)))
}

func TestPlatforms(t *testing.T) {
	base := platform{user: true}
	if here, text := base.visit(t, reporting); here.Level != messages.AssuranceIsolated || here.Git != isolatedHere {
		t.Skipf("skipped: platforms are staged where ordinary users have namespaces, and here they have %+v %s", here, text)
	}
	for name, p := range platforms {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 && !p.user {
				t.Skip("skipped: root stages it")
			}
			got, text := p.visit(t, name)
			if text != "" {
				t.Skipf("skipped: %s", text)
			}
			want := report{p.level, got.Change, p.plain, p.git}
			if got != want || !strings.Contains(got.Change, p.change) || (got.Change == "") != (p.level == messages.AssuranceIsolated) {
				t.Errorf("%+v, want %+v with %q", got, want, p.change)
			}
		})
	}
}

// visit runs this test binary on a platform, in a directory that everybody may use. The text says why that cannot be.
func (p platform) visit(t *testing.T, name string) (got report, text string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "execbus-platform-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self := filepath.Join(dir, "self")
	for _, err := range []error{os.MkdirAll(filepath.Join(dir, "plain"), 0o700), os.MkdirAll(filepath.Join(dir, "git", ".git"), 0o700), copyOf(self)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"", "plain", "git", "git/.git", "self"} {
		if err := os.Chmod(filepath.Join(dir, path), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(self)
	c.Dir, c.Env = dir, append(os.Environ(), stageVariable+"="+name, "GORACE=atexit_sleep_ms=0", "HOME="+dir, "TMPDIR="+dir, "PWD="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 && p.user {
		uid, gid = nobody, nobody
		c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if p.ownUserns {
		c.SysProcAttr.Cloneflags, c.SysProcAttr.AmbientCaps = unix.CLONE_NEWUSER, []uintptr{unix.CAP_SYS_RESOURCE}
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	switch {
	case err != nil && len(out) == 0 && errs.Len() == 0:
		return got, "the kernel does not start it: " + err.Error()
	case strings.HasPrefix(string(out), "not staged: "):
		return got, string(out)
	case err != nil || json.Unmarshal(out, &got) != nil:
		t.Fatalf("%v: %s%s", err, out, errs.String())
	}
	return got, ""
}

func copyOf(file string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o700)
}
