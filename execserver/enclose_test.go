package execserver

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// confinable skips a test if the machine cannot confine commands.
func confinable(t *testing.T) (dir string) {
	if probed := sandbox.Probe(); probed.Level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %+v", probed.Mechanisms)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// elsewhere makes a directory that no sandbox allows commands to write in.
func elsewhere(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "execserver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestASandboxIsEnforced(t *testing.T) {
	dir := confinable(t)
	c := opened(t, Options{}, wire.ExtensionEnds)
	inside, outside := filepath.Join(dir, "in"), filepath.Join(elsewhere(t), "out")
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
	own.Policy.Type = "nope"
	if _, err := NewServer(newSpawner(t), Options{Confinement: &own}); err == nil {
		t.Error("a server with a policy that does not exist was made")
	}
}

// A server that confines every command itself enforces a client's sandbox if that certainly allows no more, and refuses it otherwise.
func TestASandboxWithinTheServersOwn(t *testing.T) {
	dir := confinable(t)
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	policy := func(kind messages.SandboxType, change func(p *messages.SandboxPolicy)) messages.SandboxPolicy {
		p := messages.SandboxPolicy{Type: kind, ExcludeSlashTmp: true}
		if change != nil {
			change(&p)
		}
		return p
	}
	network := func(p *messages.SandboxPolicy) { p.NetworkAccess = true }
	workspace, read := messages.SandboxWorkspaceWrite, messages.SandboxReadOnly
	const writes, reads, no = "writes", "reads", ""
	for name, test := range map[string]struct {
		own, wanted messages.SandboxPolicy
		least, dir  string
		more        *messages.AdditionalPermissions
		want        string
	}{
		"the same":                    {own: policy(workspace, nil), wanted: policy(workspace, nil), want: writes},
		"the same, written otherwise": {own: policy(workspace, nil), wanted: policy(workspace, nil), dir: dir + "/./", more: &messages.AdditionalPermissions{}, want: writes},
		"another directory":           {own: policy(workspace, nil), wanted: policy(workspace, nil), dir: below},
		"a directory above":           {own: policy(workspace, nil), wanted: policy(workspace, nil), dir: filepath.Dir(dir)},
		"one more root":               {own: policy(workspace, nil), wanted: policy(workspace, func(p *messages.SandboxPolicy) { p.WritableRoots = []string{"/var/tmp"} })},
		"temporary directories":       {own: policy(workspace, nil), wanted: policy(workspace, func(p *messages.SandboxPolicy) { p.ExcludeSlashTmp = false })},
		"the network":                 {own: policy(workspace, nil), wanted: policy(workspace, network)},
		"more permissions": {own: policy(workspace, nil), wanted: policy(workspace, nil),
			more: &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{"/var/tmp"}}}},
		"full access":               {own: policy(workspace, nil), wanted: policy(messages.SandboxDangerFullAccess, nil)},
		"an external sandbox":       {own: policy(workspace, nil), wanted: policy(messages.SandboxExternal, nil)},
		"only reading":              {own: policy(workspace, nil), wanted: policy(read, nil), want: reads},
		"only reading, elsewhere":   {own: policy(workspace, nil), wanted: policy("", nil), dir: "/", want: reads},
		"reading with the network":  {own: policy(workspace, nil), wanted: policy(read, network)},
		"reading with less network": {own: policy(workspace, network), wanted: policy(read, nil), want: reads},
		"both with the network":     {own: policy(workspace, network), wanted: policy(read, network), want: reads},
		"reading with sockets":      {own: policy(workspace, nil), wanted: policy(read, func(p *messages.SandboxPolicy) { p.Sockets = []string{"/run/docker.sock"} })},
		"reading what is denied":    {own: policy(workspace, func(p *messages.SandboxPolicy) { p.DeniedReads = []string{below} }), wanted: policy(read, nil)},
		"reading with permissions": {own: policy(workspace, nil), wanted: policy(read, nil),
			more: &messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true}}},
		"writing where one may read": {own: policy(read, nil), wanted: policy(workspace, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			least := messages.AssuranceConfined
			if len(test.own.DeniedReads) > 0 {
				least = messages.AssuranceNone
			}
			c := opened(t, Options{Confinement: &ptyio.Confinement{Policy: test.own, Dir: dir, Least: least}}, wire.ExtensionEnds)
			file := filepath.Join(dir, "file")
			defer os.Remove(file)
			params := shell("p", "echo x >"+file)
			params.Sandbox = &wire.Sandbox{Policy: test.wanted, Dir: cmp.Or(test.dir, dir), Least: messages.AssuranceConfined, Additional: test.more, AdditionalDir: "/"}
			if test.want == no {
				refused(t, c, wire.ProcessStart, params, wire.InvalidParams, "may allow more than this server")
				refused(t, c, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: *params.Sandbox}, wire.InvalidParams, "may allow more than this server")
				return
			}
			if result := c.start(params); result.Enforced == nil || !result.Enforced.Level.AtLeast(messages.AssuranceConfined) {
				t.Errorf("got %+v", result)
			}
			c.happened("p", is(wire.ProcessEnded))
			if _, err := os.Stat(file); (err == nil) != (test.want == writes) {
				t.Errorf("%v, although it %s", err, test.want)
			}
		})
	}
}

// The server's own sandbox serves for the same one only if its level is enough for the client.
func TestTheSameSandboxMustBeStrongEnough(t *testing.T) {
	dir := confinable(t)
	spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	defer spawner.Close()
	policy := messages.SandboxPolicy{Type: messages.SandboxReadOnly}
	server, err := NewServer(spawner, Options{Confinement: &ptyio.Confinement{Policy: policy, Dir: dir, Least: messages.AssuranceConfined}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := &session{server: server, enclosures: map[string]ptyio.Enclosure{}}
	for least, enough := range map[messages.Assurance]bool{messages.AssuranceNone: true, messages.AssuranceConfined: true, messages.AssuranceIsolated: false, "": false} {
		if _, err := s.enclosure(t.Context(), &wire.Sandbox{Policy: policy, Dir: dir, Least: least}); (err == nil) != enough {
			t.Errorf("%q: %v", least, err)
		}
	}
}

// Full access is a sandbox that a client can ask for, and means that nothing confines the command.
func TestFullAccessCanBeAskedFor(t *testing.T) {
	c := opened(t, Options{}, wire.ExtensionEnds)
	outside := filepath.Join(elsewhere(t), "out")
	params := shell("p", "echo x >"+outside)
	params.Sandbox = &wire.Sandbox{Policy: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}, Dir: "/"}
	if result := c.start(params); result.SandboxType != wire.SandboxNone {
		t.Errorf("got %+v", result)
	}
	c.happened("p", is(wire.ProcessEnded))
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
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

// unwalled is a spawner that breaks the contract: it returns neither an enclosure nor an error.
type unwalled struct{ stage }

func (unwalled) Enclose(context.Context, ptyio.Confinement) (ptyio.Enclosure, error) { return nil, nil }

func TestNothingStartsWithoutTheEnclosureItNeeds(t *testing.T) {
	if _, err := NewServer(unwalled{}, Options{Confinement: &ptyio.Confinement{Dir: "/"}}); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("a server that confines everything: %v", err)
	}
	server, err := NewServer(unwalled{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s := &session{server: server, enclosures: map[string]ptyio.Enclosure{}}
	if e, err := s.enclose(t.Context(), &wire.Sandbox{Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}, Dir: "/"}); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("a start that asks for a sandbox: %v, %v", e, err)
	}
}
