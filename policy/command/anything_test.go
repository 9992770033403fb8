package command

import (
	"strings"
	"testing"
)

func TestPrefixesThatRunAnything(t *testing.T) {
	for _, shell := range []string{"bash", "sh", "zsh", "dash", "fish", "ksh", "csh", "tcsh", "/bin/tcsh", "/bin/sh", "/bin/bash", "/bin/zsh",
		"/usr/bin/bash"} {
		for _, prefix := range [][]string{{shell}, {shell, "-c"}, {shell, "-lc"}} {
			expectAnything(t, true, prefix...)
		}
		expectAnything(t, false, shell, "-c", "ls")
		expectAnything(t, false, shell, "script.sh")
	}
	for _, windows := range []string{"cmd", "cmd.exe", "powershell", "powershell.exe", "pwsh", "pwsh.exe"} {
		expectAnything(t, true, windows)
		expectAnything(t, true, windows, "-Command")
		expectAnything(t, true, windows, "/c")
	}
	for _, interpreter := range strings.Fields("python python3 python3.13 pythonw py pyw pypy pypy3 node nodejs bun deno perl " +
		"php ruby lua julia Rscript osascript ipython ipython3 tclsh tclsh8.6 wish expect") {
		expectAnything(t, true, interpreter)
		expectAnything(t, true, interpreter, "-e")
		expectAnything(t, true, interpreter, "-c")
		expectAnything(t, false, interpreter, "main.x")
		expectAnything(t, false, interpreter, "-e", "1")
	}
	for _, prefix := range []string{"env", "git", "sudo", "rm", "npm run", "pnpm run", "yarn run", "bun run", "deno eval",
		"xargs", "busybox", "npx", "/usr/local/bin/npx", "docker run", "podman run", "parallel", "unshare", "pkexec", "ld.so",
		"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1", "go run", "awk"} {
		words := strings.Fields(prefix)
		expectAnything(t, true, words...)
		expectAnything(t, false, append(words, "x")...)
	}
	for _, prefix := range []string{"bash -l -c", "python3 -u -c", "sudo bash", "sudo -u root bash -c", "env A=b python3",
		"env -i", "timeout 5",
		"nice -n 5 sh", "xargs -n 1 sh -c", "busybox sh", "/usr/bin/env node", "nohup sudo env perl -e",
		"bash -o pipefail -c", "bash -euo pipefail -c", "zsh -o extendedglob", "bash --rcfile x -ic", "sudo bash -O extglob -c",
		"python3 -W ignore -c", "node -r esbuild-register -e", "perl -I lib -e",
		"csh -f", "tcsh -c", "ipython -i", "npx -y", "npx --yes", "docker run -it --rm", "docker", "npm", "parallel -j 4", "parallel --jobs 4",
		"parallel :::", "flock", "flock /tmp/lock", "flock -n /tmp/lock", "flock -w 5 /tmp/lock", "flock /tmp/lock bash -c", "chroot", "chroot /x",
		"chroot --userspec a /x", "chroot /x /bin/sh", "unshare -rm", "unshare -R /x", "unshare -r bash", "pkexec --user root",
		"pkexec sh", "ld.so --library-path /x", "/lib/ld-linux.so.2 --preload x python3", "setpriv --reuid 5", "nsenter -t 1 -a",
		"git -c", "git -C", "su -c", "rm -rf", "ssh -t", "sudo rm -rf", "find -L"} {
		expectAnything(t, true, strings.Fields(prefix)...)
	}
	for _, prefix := range []string{"sudo make install", "env A=b cargo test", "timeout 5 make", "python3 -m pytest",
		"bash -c ls", "git -C x",
		"xargs grep x", "find . -name", "npx eslint", "docker run alpine", "docker ps", "npm test", "flock /tmp/lock make", "chroot /x make",
		"parallel gzip", "unshare -r make", "pkexec make", "ld.so ./x", "tclsh main.tcl", "go test"} {
		expectAnything(t, false, strings.Fields(prefix)...)
	}
	expectAnything(t, false, "cargo")
	expectAnything(t, false)
}

func expectAnything(t *testing.T, want bool, prefix ...string) {
	t.Helper()
	if RunsAnything(prefix) != want {
		t.Errorf("RunsAnything(%q) is %t", prefix, !want)
	}
}
