package execserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// confinable skips a test if the machine cannot confine commands.
func confinable(t *testing.T) (dir string) {
	spawner := newSpawner(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	enclosure, err := spawner.Enclose(t.Context(), ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer enclosure.Release()
	if _, err := spawner.Can(ptyio.Launch{Sandbox: enclosure}); err != nil {
		t.Skipf("skipped, nothing can be confined here: %v", err)
	}
	return dir
}

func TestASandboxIsEnforced(t *testing.T) {
	dir := confinable(t)
	c := opened(t, Options{}, wire.ExtensionEnds)
	inside, outside := filepath.Join(dir, "in"), "/var/tmp/execserver-test-outside"
	defer os.Remove(outside)
	params := shell("p", "echo x >"+inside+"; echo x >"+outside)
	params.Sandbox = &wire.Sandbox{Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, Dir: dir, Least: messages.AssuranceConfined}
	if result := c.start(params); result.SandboxType == wire.SandboxNone || result.Enforced == nil {
		t.Errorf("got %+v", result)
	}
	c.happened("p", is(wire.ProcessEnded))
	if _, err := os.Stat(inside); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("it wrote outside its sandbox")
	}
}

func TestASandboxThatIsNotUnderstoodIsRefused(t *testing.T) {
	c := opened(t, Options{})
	for sandbox, word := range map[string]string{
		`{"kind":"none"}`: "params.sandbox", `"read-only"`: "params.sandbox", `true`: "params.sandbox",
		`{"policy":{"type":"read-only"},"dir":"/","extra":1}`:                    "extra",
		`{"policy":{"type":"read-only","deny_all":true},"dir":"/"}`:              "deny_all",
		`{"policy":{"type":"total"},"dir":"/"}`:                                  "total",
		`{"policy":{"type":"workspace-write","writable_roots":["x"]},"dir":"/"}`: "x",
	} {
		raw := `{"processId":"p","argv":["true"],"cwd":"/","env":{},"tty":false,"sandbox":` + sandbox + `}`
		refused(t, c, wire.ProcessStart, rawParams(raw), wire.InvalidParams, word)
	}
}

func TestASandboxIsLookedUpBeforeTheStart(t *testing.T) {
	dir := confinable(t)
	c := opened(t, Options{})
	wanted := wire.Sandbox{Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}, Dir: dir, Least: messages.AssuranceConfined}
	result := ask[wire.EncloseResult](t, c, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: wanted})
	if result.Error != nil || !result.Enforced.Level.AtLeast(messages.AssuranceConfined) {
		t.Errorf("got %+v", result)
	}
	for i := range maxEnclosures - 1 {
		wanted.Policy.ProtectedNames = []string{strings.Repeat("x", i+1)}
		ask[wire.EncloseResult](t, c, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: wanted})
		ask[wire.EncloseResult](t, c, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: wanted})
	}
	wanted.Policy.ProtectedNames = []string{"one more"}
	refused(t, c, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: wanted}, wire.Internal, "limit of 32 different sandboxes")
}

func TestAServerCanConfineEverything(t *testing.T) {
	dir := confinable(t)
	own := ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}, Dir: dir, Least: messages.AssuranceConfined}
	c := opened(t, Options{Confinement: &own})
	file := filepath.Join(dir, "file")
	if _, code := c.result(shell("p", "echo x >"+file)); code == 0 {
		t.Error("it wrote")
	}
	params := startParams("q", "true")
	params.Sandbox = &wire.Sandbox{Policy: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}, Dir: dir}
	refused(t, c, wire.ProcessStart, params, wire.InvalidParams, "confines every command itself")
	refused(t, c, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: *params.Sandbox}, wire.InvalidParams, "confines every command itself")
	own.Policy.Type = "nope"
	if _, err := NewServer(newSpawner(t), Options{Confinement: &own}); err == nil {
		t.Error("a server with a policy that does not exist was made")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, options := range map[string]Options{"MaxMessage": {MaxMessage: -1}, "MaxRequests": {MaxRequests: -1}, "MaxProcesses": {MaxProcesses: -1},
		"MaxSessions": {MaxSessions: -1}, "Detached": {Detached: -1}} {
		if _, err := NewServer(newSpawner(t), options); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheMachineIsDescribed(t *testing.T) {
	c := opened(t, Options{})
	info := ask[wire.InfoResult](t, c, wire.EnvironmentInfo, nil)
	if !filepath.IsAbs(info.Shell.Path) || info.Shell.Name != filepath.Base(info.Shell.Path) || !strings.HasPrefix(info.Cwd, "file:///") {
		t.Errorf("got %+v", info)
	}
	machine := ask[wire.MachineResult](t, c, wire.EnvironmentMachine, nil)
	if len(machine.Environment) == 0 || len(machine.TrustedDirs) == 0 {
		t.Errorf("got %+v", machine)
	}
	found := ask[wire.ProgramResult](t, c, wire.EnvironmentProgram, wire.ProgramParams{Name: "sh", Dir: "/", Path: "/bin"})
	if found.Path != "/bin/sh" {
		t.Errorf("got %+v", found)
	}
	if none := ask[wire.ProgramResult](t, c, wire.EnvironmentProgram, wire.ProgramParams{Name: "no-such-program", Dir: "/", Path: "/bin"}); none.Error == nil || none.Error.Code != messages.ErrNoSuchProgram {
		t.Errorf("got %+v", none)
	}
	for path, want := range map[string]wire.PathResult{"/bin/sh": {IsFile: true}, "/": {IsDirectory: true}, "/none": {}} {
		if got := ask[wire.PathResult](t, c, wire.EnvironmentPath, wire.PathParams{Path: path}); got != want {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}
