package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outside returns the path of a file that does not exist and lies in no workspace and no temporary directory.
func outside(t *testing.T) string {
	t.Helper()
	file, err := os.CreateTemp("/var/tmp", "execbus-test-")
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if err := os.Remove(file.Name()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file.Name()) })
	return file.Name()
}

// A command of the server writes in the workspace, and elsewhere only if a setting says so. The files are looked at from outside.
func TestMCPConfinesCommandsToItsWorkspace(t *testing.T) {
	confinedHere(t)
	t.Setenv("TMPDIR", "") // the default: /tmp
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("sandbox = \"danger-full-access\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags           []string
		variable, value string
		inside, outside bool // whether the command can write there
	}{
		"the default":           {nil, "X", "", true, false},
		"--sandbox":             {[]string{"--sandbox", "danger-full-access"}, "X", "", true, true},
		"--writable":            {[]string{"--writable", "/var/tmp"}, "X", "", true, true},
		"EXECBUS_SANDBOX":       {nil, "EXECBUS_SANDBOX", "read-only", false, false},
		"the file":              {nil, configVariable, file, true, true},
		"a flag over the file":  {[]string{"--sandbox", "workspace-write"}, configVariable, file, true, false},
		"a flag over the other": {[]string{"--sandbox", "danger-full-access"}, "EXECBUS_SANDBOX", "read-only", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			r := launch(t, append([]string{"mcp", "--assurance", "confined"}, c.flags...)...)
			r.send(hello)
			r.answer("1")
			within, beyond := filepath.Join(r.c.Dir, "file"), outside(t)
			answer := r.exec(2, "echo x > file; echo x > "+beyond)
			for path, want := range map[string]bool{within: c.inside, beyond: c.outside} {
				if _, err := os.Stat(path); (err == nil) != want {
					t.Errorf("%s: %v; written %v; %s", path, err, want, answer)
				}
			}
			if denied := strings.Contains(answer, "the sandbox denied write"); denied == (c.inside && c.outside) {
				t.Errorf("the answer is %s", answer)
			}
			_ = r.in.Close()
			if code := r.wait(); code != 0 || r.errors.Len() > 0 {
				t.Errorf("exit code %d, %s", code, r.errors.String())
			}
		})
	}
}

func TestMCPKeepsCommandsOffTheNetwork(t *testing.T) {
	confinedHere(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for flag, want := range map[string]bool{"--assurance=confined": false, "--network": true} {
		r := launch(t, "mcp", flag, "--assurance=confined")
		r.send(hello)
		r.answer("1")
		answer := r.exec(2, "exec bash -c ': > /dev/tcp/127.0.0.1/"+strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)+"'")
		if connected := strings.Contains(answer, `"exit_code":0`); connected != want {
			t.Errorf("%s: %s", flag, answer)
		}
	}
}

func TestMCPWarnsAboutWideWorkspaces(t *testing.T) {
	for _, c := range []struct{ dir, flag, says string }{
		{"/", "--network", "commands can write everything below /; name a smaller workspace with --dir\n"},
		{"HOME", "--network", "commands can write everything below HOME; name a smaller workspace with --dir\n"},
		{"/", "--sandbox=read-only", ""},
		{"/", "--sandbox=danger-full-access", ""},
	} {
		home := t.TempDir()
		t.Setenv("HOME", home)
		var out, wrong strings.Builder
		code := run([]string{"mcp", "--assurance", "none", c.flag, "--dir", strings.ReplaceAll(c.dir, "HOME", home)}, streams{strings.NewReader(""), &out, &wrong})
		if says := strings.ReplaceAll(c.says, "HOME", home); code != 0 || (says == "") != (wrong.Len() == 0) || !strings.Contains(wrong.String(), says) {
			t.Errorf("%+v: %d, %s", c, code, wrong.String())
		}
	}
}

// A model learns from the description what confines its commands, and which settings the user can change.
func TestMCPDescribesItsSandbox(t *testing.T) {
	r := launch(t, "mcp", "--assurance", "none", "--writable", "/var/tmp")
	r.send(hello)
	r.answer("1")
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	listed := r.answer("2")
	for _, fact := range []string{"Commands run in a sandbox: workspace-write, also /var/tmp, no network; its workspace is " + r.c.Dir, "sandbox_permissions", sandboxFlags} {
		if !strings.Contains(listed, fact) {
			t.Errorf("%q is not in %s", fact, listed)
		}
	}
}

// A command replaces a directory that the user will name, or start execbus in, the next time.
func TestWorkspacesThatACommandHasReplaced(t *testing.T) {
	confinedHere(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"secret", "work/project", "other"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	project, secret, other := base+"/work/project", base+"/secret", base+"/other"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	execute := func(dir, pwd string, words ...string) (string, int) {
		c := exec.CommandContext(t.Context(), self, words...)
		c.Dir, c.Stdin = dir, strings.NewReader("")
		c.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "PWD=") })
		c.Env = append(c.Env, roleVariable+"=execbus", "HOME="+base, "TMPDIR="+other)
		if pwd != "" {
			c.Env = append(c.Env, "PWD="+pwd)
		}
		said, err := c.CombinedOutput()
		if err != nil && !isExit(err) {
			t.Fatal(err)
		}
		return string(said), c.ProcessState.ExitCode()
	}
	limited := `--sandbox={"type":"workspace-write","exclude_slash_tmp":true}` // the directories of the test lie there
	if said, code := execute(base+"/work", base+"/work", "run", limited, "--", "/bin/sh", "-c", "rmdir project && ln -s "+secret+" project"); code != 0 {
		t.Fatalf("%d: %s", code, said)
	}
	for _, test := range []struct {
		name, dir, pwd string
		flags          string
		refused        bool
	}{
		{"a root", other, other, "--writable " + project, true},
		{"a relative root", base + "/work", base + "/work", "--writable project", true},
		{"a root of the environment's", base + "/work", "", "--writable=project", true},
		{"a named workspace", other, other, "DIR " + project, true},
		{"a relative workspace", base + "/work", base + "/work", "DIR project", true},
		{"entered by the link", project, project, "", true},
		{"entered by the link, and a relative root in it", project, project, "DIR " + other + " --writable .", true},
		{"entered by a program that is elsewhere", project, base, "", true},
		{"PWD leads nowhere", project, base + "/none", "", true},
		{"PWD is relative", project, ".", "", true},
		{"the target is named", other, other, "--writable " + secret, false},
		{"PWD has another spelling", secret, other + "/../secret/.", "", false},
		{"the workspace is named, wherever PWD leads", project, base, "DIR " + other, false},
		{"nothing can be written", project, project, "--sandbox=read-only", false},
	} {
		for command, flag := range map[string]string{"run": "--cd", "mcp": "--dir"} {
			words := append([]string{command, limited, "--assurance=confined"}, strings.Fields(strings.ReplaceAll(test.flags, "DIR", flag))...)
			if command == "run" {
				words = append(words, "--", "/bin/sh", "-c", "echo >"+secret+"/new; true")
			}
			said, code := execute(test.dir, test.pwd, words...)
			written := os.Remove(secret+"/new") == nil
			if refused := code != 0 || strings.Contains(said, "every command will be refused"); refused != test.refused || refused && written {
				t.Errorf("%s, %s: exit code %d, %s", command, test.name, code, said)
			}
		}
	}
}
