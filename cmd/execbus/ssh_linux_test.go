package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// standIn is an ssh without keys: it does what ssh does with a ProxyCommand, and its server starts the same command for everyone.
const standIn = `#!/bin/sh
port=22
while :; do case $1 in
	-o) case $2 in ProxyCommand=*) proxy=${2#ProxyCommand=};; esac; shift 2;;
	-p) port=$2; shift 2;;
	*) break;;
esac; done
exec sh -c "exec $(printf %s "$proxy" | sed "s/%h/$1/g; s/%p/$port/g")"
`

// git reaches a host over ssh through the sandbox's proxy if a rule names its port for tcp, and no other.
func TestGitOverSSHThroughTheSandbox(t *testing.T) {
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
	}
	needs(t, "git", "sh", "sed")
	dir := t.TempDir()
	repository := bareRepository(t, dir)
	t.Run("stand-in", func(t *testing.T) {
		bin := t.TempDir()
		if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(standIn), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		clones(t, repository, "", func() *exec.Cmd { return exec.Command("git", "upload-pack", repository) })
	})
	t.Run("OpenSSH", func(t *testing.T) {
		needs(t, "ssh", "ssh-keygen", "/usr/sbin/sshd")
		self, err := user.Current()
		if err != nil {
			t.Skipf("skipped: sshd needs an account: %v", err)
		}
		for _, key := range []string{"host", "user"} {
			if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		config := filepath.Join(dir, "sshd_config")
		text := fmt.Sprintf("HostKey %[1]s/host\nAuthorizedKeysFile %[1]s/user.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n", dir)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// The user's own command is added to.
		t.Setenv("GIT_SSH_COMMAND", "ssh -F none -i "+filepath.Join(dir, "user")+" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null")
		daemon := func() *exec.Cmd { return exec.Command("/usr/sbin/sshd", "-i", "-f", config) }
		host, port := sshServer(t, daemon)
		clone := exec.Command("git", "clone", "-q", fmt.Sprintf("ssh://%s@%s:%s%s", self.Username, host, port, repository), filepath.Join(dir, "direct"))
		if out, err := clone.CombinedOutput(); err != nil {
			t.Skipf("skipped: sshd serves nobody here, even without a sandbox: %v: %s", err, out)
		}
		clones(t, repository, self.Username+"@", daemon)
	})
}

// needs skips a test where a program is not installed.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %v", err)
		}
	}
}

// bareRepository makes a repository with one file.
func bareRepository(t *testing.T, dir string) (path string) {
	t.Helper()
	script := `git init -q work && cd work && echo hello >file && git add file && git -c user.name=a -c user.email=a@b.c commit -qm one && cd .. && git clone -q --bare work repo.git`
	command := exec.Command("sh", "-c", script)
	command.Dir, command.Env = dir, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "repo.git")
}

// sshServer serves each connection with a command of its own.
func sshServer(t *testing.T, command func() *exec.Cmd) (host, port string) {
	t.Helper()
	return served(t, func(conn *net.TCPConn) {
		socket, err := conn.File()
		if err != nil {
			t.Error(err)
			return
		}
		c := command()
		c.Stdin, c.Stdout = socket, socket
		_ = c.Run() // what it serves tells
		_ = socket.Close()
	})
}

// clones clones the repository from an allowed server, and not from another one.
func clones(t *testing.T, repository, who string, command func() *exec.Cmd) {
	t.Helper()
	t.Setenv(roleVariable, "execbus") // for this program where ssh starts it
	host, port := sshServer(t, command)
	_, other := sshServer(t, func() *exec.Cmd {
		t.Error("the other server was reached")
		return command()
	})
	for at, may := range map[string]bool{port: true, other: false} {
		dir := t.TempDir()
		code, out, errs := runs(t, "", "--cd", dir, "--allow-host", host+":"+port+"/tcp", "--",
			"git", "clone", "-q", fmt.Sprintf("ssh://%s%s:%s%s", who, host, at, repository), "into")
		text, _ := os.ReadFile(filepath.Join(dir, "into", "file"))
		switch {
		case may && (code != 0 || string(text) != "hello\n"):
			t.Errorf("%d, %q, %s %s", code, text, out, errs)
		case !may && (code == 0 || text != nil || !strings.Contains(errs, "not allowed: Network access to "+host+":"+other+" was blocked")):
			t.Errorf("from the other server: %d, %q, %s %s", code, text, out, errs)
		}
	}
}
