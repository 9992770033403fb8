//go:build linux

package hosts_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds the wait for the end of a daemon. Only a defect makes it last that long. Builds take as long as they take, and hosts are
// run with the go tool, too: they end in time for this test to say what they have said.
const patience = time.Minute

// warden is the output of a host that has a warden.
const warden = "parent: execbus-warden\ncode(7), ended 1, 0 survivors, airtight true\n"

// module makes a copy of the hosts' module.
var module = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "execbus-hosts-")
	if err != nil {
		return "", err
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		return dir, err
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/host")); err != nil {
		return dir, err
	}
	needs, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		return dir, err
	}
	const ours = "github.com/execbus/execbus"
	text := strings.Replace(string(needs), "module "+ours, "module a.example/host", 1) +
		"\nrequire " + ours + " v0.0.0\nreplace " + ours + " => " + repository + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		return dir, err
	}
	sums, err := os.ReadFile(filepath.Join(repository, "go.sum"))
	if err != nil {
		return dir, err
	}
	return dir, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600)
})

func TestMain(m *testing.M) {
	beOnPlatform()
	code := m.Run()
	if dir, err := module(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// tool returns the directory of the module. It skips the test if there is no go tool.
func tool(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		if os.Getenv("EXECBUS_NEED_GO") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := module()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// inModule runs a command in that directory. It ends what runs when the time for all tests is nearly over.
func inModule(t *testing.T, env []string, words ...string) (string, error) {
	t.Helper()
	ctx := context.Background()
	if end, is := t.Deadline(); is {
		limited, cancel := context.WithDeadline(ctx, end.Add(-time.Until(end)/20))
		defer cancel()
		ctx = limited
	}
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir = tool(t)
	command.Env = append(append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off"), env...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// build builds one of the programs, in a directory that every user can read.
func build(t *testing.T, env []string, arguments ...string) string {
	t.Helper()
	path := filepath.Join(tool(t), fmt.Sprintf("built-%d", rand.Int()))
	if out, err := inModule(t, env, append([]string{"go", "build", "-o", path}, arguments...)...); err != nil {
		t.Fatalf("go build %v: %v\n%s", arguments, err, out)
	}
	return path
}

var (
	plainOnce sync.Once
	plainPath string
)

// plain builds a program in the most common way.
func plain(t *testing.T) string {
	t.Helper()
	tool(t)
	plainOnce.Do(func() { plainPath = build(t, []string{"CGO_ENABLED=0"}, ".") })
	return plainPath
}

// withC returns the environment of a build that needs a C compiler.
func withC(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	return []string{"CGO_ENABLED=1", "GOFLAGS=-mod=mod -ldflags=-w"} // debugging information would take long to link
}

// pureGo are the tags without which a static program could not look up users and hosts. The shared library has them too, because then both
// are linked from the same compiled packages.
const pureGo = "-tags=netgo,osusergo"

// playing runs a host, and checks after its end that nothing of it is left.
func playing(t *testing.T, env []string, words ...string) string {
	t.Helper()
	return played(t, 1, append(env, "BEFORE=setsid"), words...)
}

// direct runs a host that must find that it has no warden, and say why. Its daemon stays in its session, so the direct
// spawner finds it.
func direct(t *testing.T, why string, env []string, words ...string) {
	t.Helper()
	expect(t, played(t, 1, env, words...), "notice: commands are started without a warden", why, "code(7), ended 1, 0 survivors, airtight false\n")
}

func played(t *testing.T, runtimes int, env []string, words ...string) string {
	t.Helper()
	var tokens []string
	for range runtimes {
		tokens = append(tokens, fmt.Sprintf("100000.%09d", rand.IntN(1e9)))
	}
	out, err := inModule(t, append(env, "TOKENS="+strings.Join(tokens, " ")), words...)
	if err != nil {
		out += err.Error()
	}
	for _, token := range tokens {
		for begin := time.Now(); exists(token); time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > patience {
				t.Fatalf("the daemon lives on; the host said %s", out)
			}
		}
	}
	return out
}

func exists(token string) bool {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if line, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline"); bytes.Equal(line, []byte("sleep\x00"+token+"\x00")) {
			return true
		}
	}
	return false
}

func expect(t *testing.T, out string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("without %q it says\n%s", part, out)
		}
	}
}

func TestHostsHoweverTheyAreRun(t *testing.T) {
	path := plain(t)
	unshare := []string{"unshare", "--pid", "--fork", "--mount-proc"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	for name, words := range map[string][]string{
		"plain":             {path},
		"pid 1":             append(slices.Clone(unshare), path),
		"GOMAXPROCS=1":      {"env", "GOMAXPROCS=1", path},
		"64 descriptors":    {"sh", "-c", `ulimit -n 64; exec "$0"`, path},
		"little memory":     {"sh", "-c", `ulimit -v 1500000; exec "$0"`, path},
		"no descriptor":     {"sh", "-c", `exec "$0" <&- 2>&-`, path},
		"without a session": {"setsid", "--wait", path},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "pid 1" {
				if out, err := exec.Command(unshare[0], append(slices.Clone(unshare[1:]), "true")...).CombinedOutput(); err != nil {
					t.Skipf("no pid namespaces here: %v %s", err, out)
				}
			}
			out := playing(t, nil, words...)
			if name == "little memory" { // the reader of rule files needs more memory, and says so
				out = out[max(0, strings.Index(out, "parent:")):]
			}
			if out != warden {
				t.Errorf("it says\n%s", out)
			}
		})
	}
}

func TestAHostWhoseBinaryIsGoneOrAnother(t *testing.T) {
	path := plain(t)
	for _, what := range []string{"deleted", "replaced"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			own := filepath.Join(t.TempDir(), "host")
			if err := os.Link(path, own); err != nil {
				copied(t, path, own)
			}
			if out := playing(t, []string{"BINARY=" + what}, own); out != warden {
				t.Errorf("it says\n%s", out)
			}
		})
	}
}

func TestAHostThatIgnoresItsChildren(t *testing.T) {
	t.Parallel()
	if out := playing(t, []string{"CHILDREN=ignored"}, plain(t)); out != warden {
		t.Errorf("it says\n%s", out)
	}
}

// A copy of the host has all its descriptors. So neither the warden nor the host sees one closed when the other closes it.
func TestAHostThatForks(t *testing.T) {
	for when, says := range map[string]string{"and go on": warden, "and die": "signal: killed"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			out := playing(t, []string{"FORK=" + when}, plain(t))
			var copied int
			said, rest, _ := strings.Cut(out, "\n")
			if _, err := fmt.Sscanf(said, "copy: %d", &copied); err != nil {
				t.Fatalf("it says\n%s", out)
			}
			if err := unix.Kill(copied, unix.SIGKILL); err != nil {
				t.Errorf("the copy, which is to outlive the host: %v", err)
			}
			if rest != says {
				t.Errorf("it says\n%s", out)
			}
		})
	}
}

func copied(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTwoRuntimesLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	if out := played(t, 2, []string{"BEFORE=setsid"}, plain(t)); out != warden+"the other daemon: 1\n"+warden {
		t.Errorf("it says\n%s", out)
	}
}

func TestAHostWhoseFileGivesCapabilitiesHasNoWarden(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host")
	copied(t, plain(t), path)
	netRaw := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // version 2, CAP_NET_RAW, effective
	if err := unix.Setxattr(path, "security.capability", netRaw, 0); err != nil {
		t.Skip("only root can give a file capabilities, and not on every file system: ", err)
	}
	direct(t, "gives rights", nil, path)
}

func TestHostsHoweverTheyAreBuilt(t *testing.T) {
	for _, c := range []struct {
		name      string
		c         bool
		arguments []string
	}{
		{"with the race detector", true, []string{"-race", "."}},
		{"with coverage", false, []string{"-cover", "."}},
		{"as a static PIE", true, []string{"-buildmode=pie", pureGo, "-ldflags=-w -linkmode=external -extldflags=-static-pie", "."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := []string{"CGO_ENABLED=0"}
			if c.c {
				env = withC(t)
			}
			expect(t, playing(t, nil, build(t, env, c.arguments...)), warden)
		})
	}
}

func TestHostsOfTheGoTool(t *testing.T) {
	t.Parallel()
	tool(t)
	expect(t, playing(t, nil, "go", "run", "."), warden)
	expect(t, playing(t, nil, "go", "test", "-count=1", "-v", "./play"), warden)
}

func TestAHostInsideOfAnotherProgramHasNoWarden(t *testing.T) {
	t.Parallel()
	library := build(t, withC(t), "-buildmode=c-shared", pureGo, "./shared")
	program := filepath.Join(tool(t), "program")
	if out, err := inModule(t, nil, "gcc", "-x", "c", "-o", program, "program.c.txt", "-ldl"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	direct(t, "this code lies in "+library, nil, program, library)
	// Without a warden the commands are the host's children. The kernel reports no exit to a host that ignores SIGCHLD.
	expect(t, played(t, 1, []string{"CHILDREN=ignored"}, program, library), "its exit status was lost", "ended 1, 0 survivors, airtight false\n")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	direct(t, "this code lies in "+library, nil, "python3", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).Play()", library)
}

func TestAHostThatNeedsTheLoader(t *testing.T) {
	t.Parallel()
	env := withC(t)
	libraries := filepath.Join(tool(t), "libraries")
	if err := os.MkdirAll(libraries, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := inModule(t, nil, "gcc", "-pthread", "-x", "c", "-shared", "-fPIC", "-o", libraries+"/libodd.so", "odd.c.txt"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	path := build(t, env, "./linked")
	if out := playing(t, []string{"LD_LIBRARY_PATH=" + libraries}, path); out != warden {
		t.Errorf("with its library it says\n%s", out)
	}
	// Some of so many signals hit the library's thread.
	const signals = `sleep 2; for s in PIPE USR1 USR2 ALRM HUP INT QUIT; do for i in {1..300}; do kill -$s $PPID; done; done; setsid`
	if out := played(t, 1, []string{"LD_LIBRARY_PATH=" + libraries, "BEFORE=" + signals}, path); out != warden {
		t.Errorf("after signals to its warden it says\n%s", out)
	}
	expect(t, playing(t, []string{"LD_LIBRARY_PATH=" + libraries, "EXCLUDE=LD_*"}, path),
		"error:", "the warden did not start", "libodd.so")
	loader, err := inModule(t, nil, "sh", "-c", `readelf -l "$0" | sed -n 's/.*interpreter: \(.*\)]/\1/p'`, path)
	if loader = strings.TrimSpace(loader); err != nil || loader == "" {
		t.Skip("nobody says which loader it has: ", err)
	}
	direct(t, "this code lies in "+path, []string{"LD_LIBRARY_PATH=" + libraries}, loader, path)
}

func TestInitialisersThatGoBeforeTheWarden(t *testing.T) {
	path := plain(t)
	const failed = "error: "
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close() // the host needs this port
	for name, c := range map[string]struct {
		env  []string
		says []string
	}{
		"a variable":              {[]string{"EARLY=variable", "NEEDED=1"}, []string{warden}},
		"a variable, kept back":   {[]string{"EARLY=variable", "NEEDED=1", "EXCLUDE=NEEDED"}, []string{failed, "the warden did not start", "NEEDED is not set"}},
		"a port":                  {[]string{"EARLY=port", "PORT=" + port}, []string{failed, "the warden did not start", "address already in use"}},
		"a panic":                 {[]string{"EARLY=panic"}, []string{failed, "the warden did not start", "this is no good place"}},
		"what prints":             {[]string{"EARLY=print"}, []string{"early 1\nearly 2\n" + warden}},
		"what hangs, ten seconds": {[]string{"EARLY=hang"}, []string{failed, "the warden did not start"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, playing(t, c.env, path), c.says...)
		})
	}
}
