package execserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// asking is the sandbox that a client sends for a policy.
func asking(policy messages.SandboxPolicy, dir string, least messages.Assurance) *wire.Sandbox {
	asked := wire.SandboxOf(policy, dir, "")
	asked.Least = least
	return &asked
}

func TestASandboxIsEnforced(t *testing.T) {
	dir := confinable(t)
	c := opened(t, Options{}, wire.ExtensionEnds)
	inside, outside := filepath.Join(dir, "in"), filepath.Join(elsewhere(t), "out")
	params := shell("p", "echo x >"+inside+"; echo x >"+outside)
	params.Sandbox = asking(messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, dir, messages.AssuranceConfined)
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
	files := func(entries string) string {
		return `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + entries + `]},"network":"restricted"},"cwd":"/w","workspaceRoots":["/w"]}`
	}
	const root, project = `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`, `{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}`
	for sandbox, word := range map[string]string{
		`{"kind":"none"}`: "params.sandbox.permissions is missing", `"read-only"`: "params.sandbox", `true`: "params.sandbox",
		`{"permissions":{"type":"managed"}}`:                                                                 "params.sandbox.permissions.file_system is missing",
		`{"permissions":{"type":"none"}}`:                                                                    `params.sandbox.permissions.type is "none"`,
		`{"permissions":{"type":"disabled","more":1}}`:                                                       "params.sandbox.permissions.more",
		`{"permissions":{"type":"disabled","network":"some"}}`:                                               `params.sandbox.permissions.network is "some"`,
		`{"permissions":{"type":"disabled"},"cwd":"w"}`:                                                      "params.sandbox.cwd",
		`{"permissions":{"type":"disabled"},"workspaceRoots":["/","w"]}`:                                     "params.sandbox.workspaceRoots[1]",
		`{"permissions":{"type":"disabled"},"temporaryDirectories":["w"]}`:                                   "params.sandbox.temporaryDirectories[0]",
		`{"permissions":{"type":"disabled"},"least":"some"}`:                                                 "some",
		`{"permissions":{"type":"disabled"},"additional":{"all":true}}`:                                      "params.sandbox.additional.all",
		`{"permissions":{"type":"external"},"sockets":["s"]}`:                                                "sockets",
		`{"permissions":{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}}`:    "restrict only the network",
		`{"permissions":{"type":"managed","file_system":{"type":"external_sandbox"}}}`:                       "external_sandbox",
		`{"permissions":{"type":"managed","file_system":{"type":"restricted","globs":[]}}}`:                  "file_system.globs",
		`{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + project + `]}}}`: "neither workspaceRoots nor a cwd",
		files(``): `"root"`, files(project): `"root"`,
		files(root + `,{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}`):                                                         `entries[1]: this server cannot enforce "read" for the special path "minimal"`,
		files(root + `,{"path":{"type":"special","value":{"kind":"root"}},"access":"write"}`):                                                           `entries[1]: this server cannot enforce "write" for the special path "root"`,
		files(root + `,{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"deny"}`):                                                       `entries[1]: this server cannot enforce "deny"`,
		files(root + `,{"path":{"type":"special","value":{"kind":"project_roots","subpath":"../x"}},"access":"write"}`):                                 "entries[1]: the subpath",
		files(root + `,{"path":{"type":"special","value":{"kind":"tmpdir","subpath":"x"}},"access":"write"}`):                                           "entries[1]: the subpath",
		files(root + `,{"path":{"type":"special","value":{"kind":"root","depth":1}},"access":"read"}`):                                                  "entries[1].path.value.depth",
		files(root + `,{"path":{"type":"path","path":"/w/a"},"access":"execute"}`):                                                                      `entries[1]: the access is "execute"`,
		files(root + `,{"path":{"type":"path","path":"/w/a"},"access":"read","missing_path_behavior":"create"}`):                                        "entries[1]: missing_path_behavior",
		files(root + `,{"path":{"type":"path","path":"/w/a"},"access":"write","missing_path_behavior":"skip"}`):                                         "entries[1]: missing_path_behavior",
		files(root + `,{"path":{"type":"path","path":"a"},"access":"write"}`):                                                                           "entries[1].path.path",
		files(root + `,{"path":{"type":"path","path":"/w/a/../b"},"access":"deny"}`):                                                                    "entries[1]: the path",
		files(root + `,{"path":{"type":"path","path":"` + strings.Repeat("/a", 2049) + `"},"access":"read"}`):                                           "entries[1].path.path has more than 4096 bytes",
		files(root + strings.Repeat(`,{"path":{"type":"path","path":"/w/a"},"access":"read"}`, 1025)):                                                   "more than 1024 paths",
		files(root + `,{"path":{"type":"special","value":{"kind":"project_roots","subpath":"a/../b"}},"access":"read"}`):                                "entries[1]: the subpath",
		`{"permissions":{"type":"disabled"},"workspaceRoots":["/"` + strings.Repeat(`,"/"`, 1024) + `]}`:                                                "workspaceRoots has more than 1024 paths",
		files(root + `,{"path":{"type":"path"},"access":"read"}`):                                                                                       "entries[1]",
		files(root + `,{"path":{"type":"glob_pattern","pattern":"**/*.env"},"access":"deny"}`):                                                          `entries[1]: the path is of type "glob_pattern"`,
		files(root + `,` + project + `,{"path":{"type":"special","value":{"kind":"project_roots","subpath":"a/b"}},"access":"read"}`):                   "entries[2]: /w/a/b may only be read",
		files(root + `,` + project + `,{"path":{"type":"path","path":"/w/a"},"access":"read"},{"path":{"type":"path","path":"/x/a"},"access":"write"}`): "entries[2]: /w/a may only be read, and another",
		files(root + `,{"path":{"type":"path","path":"/"},"access":"none"}`):                                                                            "entries[1]: everything",
		files(root + `,{"path":{"type":"path","path":"/a"},"access":"deny"},{"path":{"type":"path","path":"/a/b"},"access":"read"}`):                    "entries[2]: it allows /a/b",
		files(root + `,{"path":{"type":"path","path":"/a"},"access":"deny"},{"path":{"type":"path","path":"/a/b"},"access":"write"}`):                   "entries[2]: it allows /a/b",
	} {
		raw := `{"processId":"p","argv":["true"],"cwd":"/","env":{},"tty":false,"sandbox":` + sandbox + `}`
		refused(t, c, wire.ProcessStart, rawParams(raw), wire.InvalidParams, word)
	}
}

// The messages were recorded between codex 0.169 and its own server.
func TestTheSandboxesOfCodexAreEnforced(t *testing.T) {
	confinable(t)
	if level := sandbox.Probe().Level; level != messages.AssuranceIsolated {
		t.Skipf("skipped: names in a workspace can only be protected with namespaces, and this machine allows %q", level)
	}
	for mode, want := range map[string]struct{ output, file string }{
		"workspace-write":     {"in-ok\n", "in"},
		"workspace-write-tty": {"\r\nx\r\n", "."},
		"read-only":           {"rc 1\n", ""},
	} {
		t.Run(mode, func(t *testing.T) {
			project := elsewhere(t)
			text, err := os.ReadFile(filepath.Join("testdata", "codex", mode+".json"))
			if err != nil {
				t.Fatal(err)
			}
			recorded, err := wire.Parse([]byte(strings.ReplaceAll(strings.TrimSpace(string(text)), "<project>", project)))
			if err != nil {
				t.Fatal(err)
			}
			var params wire.StartParams
			if err := json.Unmarshal(recorded.Params, &params); err != nil {
				t.Fatal(err)
			}
			c := opened(t, Options{})
			result := ask[wire.StartResult](t, c, wire.ProcessStart, rawParams(string(recorded.Params)))
			if result.SandboxType == wire.SandboxNone {
				t.Errorf("got %+v", result)
			}
			c.says(params.ProcessID, want.output)
			c.happened(params.ProcessID, is(wire.ProcessClosed))
			if _, err := os.Stat(filepath.Join(project, "in")); (err == nil) != (want.file == "in") {
				t.Errorf("the file in the project: %v", err)
			}
			params.ProcessID, params.TTY, params.Argv = "more", false, []string{"/bin/sh", "-c", "mkdir .git; mkdir .aws; mkdir ../../../var/tmp/$$; :"}
			if output, _ := c.result(params); strings.Count(output, "mkdir: ") != 3 {
				t.Errorf("protected names, and other directories: %q", output)
			}
		})
	}
}

func TestASandboxIsLookedUpBeforeTheStart(t *testing.T) {
	dir := confinable(t)
	c := opened(t, Options{})
	wanted := func(name string) wire.EncloseParams {
		policy := messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ProtectedNames: []string{name}}
		return wire.EncloseParams{Sandbox: *asking(policy, dir, messages.AssuranceConfined)}
	}
	for i := range maxEnclosures {
		for range 2 {
			result := ask[wire.EncloseResult](t, c, wire.EnvironmentEnclose, wanted(strings.Repeat("x", i+1)))
			if result.Error != nil || !result.Enforced.Level.AtLeast(messages.AssuranceConfined) {
				t.Errorf("got %+v", result)
			}
		}
	}
	refused(t, c, wire.EnvironmentEnclose, wanted("one more"), wire.Internal, "limit of 32 different sandboxes")
}

// What a single command is allowed besides takes no room for good, and is looked up anew if its paths lead elsewhere by then.
func TestAWiderSandboxIsForOneCommand(t *testing.T) {
	dir, other, started := confinable(t), t.TempDir(), 0
	c := opened(t, Options{})
	wider := func(path string) {
		t.Helper()
		wanted := asking(messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, dir, messages.AssuranceConfined)
		wanted.Additional = &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{path}}}
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if result := ask[wire.EncloseResult](t, c, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: *wanted}); result.Error != nil {
			t.Error(result.Error)
		}
		started++
		params := startParams(strconv.Itoa(started), "/bin/sh", "-c", "echo x >"+path+"/file && cat "+path+"/file")
		params.Sandbox = wanted
		if output, _ := c.result(params); output != "x\n" {
			t.Errorf("%q", output)
		}
	}
	for i := range maxEnclosures + 1 {
		wider(filepath.Join(other, strconv.Itoa(i)))
	}
	wider(filepath.Join(other, "again"))
	if err := os.Rename(filepath.Join(other, "again"), filepath.Join(other, "moved")); err != nil {
		t.Fatal(err)
	}
	wider(filepath.Join(other, "again"))
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
			params.Sandbox = asking(test.wanted, cmp.Or(test.dir, dir), messages.AssuranceConfined)
			params.Sandbox.Additional = test.more
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
		if _, err := s.enclosure(t.Context(), asking(policy, dir, least)); (err == nil) != enough {
			t.Errorf("%q: %v", least, err)
		}
	}
}

// Full access is a sandbox that a client can ask for, and means that nothing confines the command.
func TestFullAccessCanBeAskedFor(t *testing.T) {
	c := opened(t, Options{}, wire.ExtensionEnds)
	outside := filepath.Join(elsewhere(t), "out")
	params := shell("p", "echo x >"+outside)
	params.Sandbox = asking(messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}, "/", "")
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
	if info.PlatformOS == "" || !strings.HasPrefix(info.TempDir, "file:///") {
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

// bare is a machine whose environment names no shell.
type bare struct{ stage }

func (bare) Resolver() ptyio.Resolver { return bareResolver{ptyio.Local()} }

type bareResolver struct{ ptyio.Resolver }

func (bareResolver) Environment(context.Context) ([]string, error) { return []string{"A=1"}, nil }
func (bareResolver) UserShell(context.Context) (string, error)     { return "/bin/zsh", nil }

func TestCommandsAreToldTheShell(t *testing.T) {
	s := newServerOf(t, bare{}, Options{})
	c := inProcess(t, s)
	c.open("")
	if machine := ask[wire.MachineResult](t, c, wire.EnvironmentMachine, nil); strings.Join(machine.Environment, " ") != "A=1 SHELL=/bin/zsh" {
		t.Errorf("got %q", machine.Environment)
	}
	p := &process{session: &session{server: s}}
	for _, test := range []struct {
		policy *wire.EnvPolicy
		env    map[string]string
		want   string
	}{
		{&wire.EnvPolicy{}, nil, "A=1 SHELL=/bin/zsh"}, {&wire.EnvPolicy{}, map[string]string{"SHELL": "/bin/sh"}, "A=1 SHELL=/bin/sh"}, {nil, nil, ""},
	} {
		env, err := p.environment(t.Context(), wire.StartParams{EnvPolicy: test.policy, Env: test.env})
		if slices.Sort(env); err != nil || strings.Join(env, " ") != test.want {
			t.Errorf("%+v: got %q, %v", test, env, err)
		}
	}
}

func TestWherePathsLeadIsTold(t *testing.T) {
	dir := realDir(t)
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	c := opened(t, Options{})
	for path, want := range map[string]string{dir + "/link/none": "/etc/none", dir: dir, "/dev/null": ""} {
		if got := ask[wire.LeadsResult](t, c, wire.EnvironmentLeads, wire.PathParams{Path: path}); got.Path != want {
			t.Errorf("%s leads to %q", path, got.Path)
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
	if e, err := s.enclose(t.Context(), ptyio.Confinement{Dir: "/"}); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("a start that asks for a sandbox: %v, %v", e, err)
	}
}

// A policy means the same on the server as where it was written.
func TestPoliciesSurviveTheProtocol(t *testing.T) {
	s := newServer(t, Options{})
	workspace := messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}
	more := workspace
	more.WritableRoots, more.ProtectedNames, more.DeniedReads = []string{"/x", "/d/.git"}, []string{"vendor", ".aws"}, []string{"/secret", "/d/key"}
	more.Sockets, more.NetworkAccess, more.ExcludeSlashTmp = []string{"/run/s"}, true, true
	noTemp := workspace
	noTemp.ExcludeTmpdirEnvVar = true
	for name, c := range map[string]ptyio.Confinement{
		"zero":        {},
		"read-only":   {Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly, NetworkAccess: true, DeniedReads: []string{"/k"}}, Dir: "/d", TempDir: "/t"},
		"workspace":   {Policy: workspace, Dir: "/d"},
		"temporary":   {Policy: workspace, Dir: "/d", TempDir: "/t"},
		"excluded":    {Policy: noTemp, Dir: "/d", TempDir: "/t"},
		"everything":  {Policy: more, Dir: "/d", TempDir: "/t"},
		"full access": {Policy: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}},
		"external":    {Policy: messages.SandboxPolicy{Type: messages.SandboxExternal, NetworkAccess: true}},
	} {
		asked := wire.SandboxOf(c.Policy, c.Dir, c.TempDir)
		got, err := s.confinement(t.Context(), &asked)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !c.Policy.Confined() {
			got.Dir, got.TempDir = "", ""
		}
		if !same(c, got) {
			t.Errorf("%s: %+v became %+v", name, c, got)
		}
	}
}

// What a sandbox allows besides the project becomes a policy that allows exactly that.
func TestSandboxesThatAreNotThoseOfOneProject(t *testing.T) {
	s := newServer(t, Options{})
	link := filepath.Join(elsewhere(t), "link")
	if err := os.Symlink(realDir(t), link); err != nil { // below /tmp
		t.Fatal(err)
	}
	file := func(path, access string) string {
		return `{"path":{"type":"path","path":"` + path + `"},"access":"` + access + `"}`
	}
	place := func(kind, access string) string {
		return `{"path":{"type":"special","value":{"kind":"` + kind + `"}},"access":"` + access + `"}`
	}
	workspace := func(dir string, roots ...string) ptyio.Confinement {
		return ptyio.Confinement{Dir: dir, Policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, WritableRoots: roots}}
	}
	tmp := workspace("/tmp")
	tmp.Policy.ExcludeSlashTmp = false
	temp := workspace("/t", "/t2")
	temp.TempDir = "/t"
	protected := workspace("/w", "/w2")
	protected.Policy.ProtectedNames = []string{"a"}
	for entries, want := range map[string]ptyio.Confinement{
		"":                             {},
		file("/w/a", "read"):           {}, // nothing is written in any case
		file("/x", "write"):            workspace("/x"),
		place("slash_tmp", "write"):    tmp,
		place("tmpdir", "write"):       temp,
		place("project_roots", "read"): {},
		place("project_roots", "write") + "," + file("/w", "read") + "," + file("/w/a", "read") + "," + file("/w2/a", "read") + "," + file("/w2/.git", "read") + "," + file("/else", "read"): protected,
		place("slash_tmp", "write") + "," + file(link, "read"): workspace("refused"),
	} {
		var params wire.EncloseParams
		text := `{"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + strings.TrimSuffix(place("root", "read")+","+entries, ",") +
			`]}},"cwd":"file:///c","workspaceRoots":["file:///w","/w2"],"temporaryDirectories":["/t","/t2"]}}`
		if err := wire.DecodeParams(json.RawMessage(text), &params); err != nil {
			t.Fatal(err)
		}
		got, err := s.confinement(t.Context(), &params.Sandbox)
		if want.Dir == "refused" {
			if err == nil {
				t.Errorf("%s: got %+v", entries, got)
			}
			continue
		}
		if err != nil || !same(want, got) {
			t.Errorf("%s: got %+v, %v", entries, got, err)
		}
	}
}
