//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

const owned = "owned"

// own writes the attacker's text to a file, in a directory that it makes if there is none.
func own(path string) error {
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	return os.WriteFile(path, []byte(owned), 0o644)
}

// replace puts a directory with the attacker's file in the place of a path.
func replace(path, file string) error {
	if err := os.Rename(path, path+".old"); err != nil && os.Remove(path) != nil {
		return err
	}
	return own(filepath.Join(path, file))
}

// relink makes a path a link to the attacker's directory.
func relink(p places, path, file string) error {
	if err := own(filepath.Join(p.Work, "evil", file)); err != nil {
		return err
	}
	if err := os.Rename(path, path+".old"); err != nil && os.Remove(path) != nil {
		return err
	}
	return os.Symlink(p.Work+"/evil", path)
}

// isOwned checks a file below the root.
func isOwned(name string) func(*scene) bool {
	return func(s *scene) bool {
		text, _ := os.ReadFile(filepath.Join(s.Work, name))
		return string(text) == owned
	}
}

// plant makes directories (with a slash at the end), links (with "->") and files below the root.
func plant(entries ...string) func(*scene) {
	return func(s *scene) {
		for _, entry := range entries {
			name, text, file := strings.Cut(entry, "=")
			name, target, link := strings.Cut(name, "->")
			path := filepath.Join(s.Work, name)
			must(s, os.MkdirAll(filepath.Dir(path), 0o755))
			switch {
			case link:
				must(s, os.RemoveAll(path))
				must(s, os.Symlink(target, path))
			case file:
				must(s, os.RemoveAll(path))
				must(s, os.WriteFile(path, []byte(text), 0o644))
			default:
				must(s, os.MkdirAll(path, 0o755))
			}
		}
	}
}

// settings are attempts on what decides about later commands: the root contains the home directory.
func settings() []attack {
	home := func(entries ...string) func(*scene) {
		return func(s *scene) {
			plant(append(entries, "home/")...)(s)
			s.Setenv("HOME", s.Work+"/home")
			s.Setenv("XDG_CONFIG_HOME", "")
			s.Setenv("XDG_STATE_HOME", "")
			s.Setenv("EXECBUS_CONFIG", "")
		}
	}
	named := func(entries ...string) func(*scene) {
		return func(s *scene) {
			home(entries...)(s)
			s.Setenv("EXECBUS_CONFIG", s.Work+"/settings/own.toml")
		}
	}
	const config, file = "home/.config/execbus/config.toml", "settings/own.toml"
	const record = "home/.local/state/execbus/patches/forged.json" // it would make a host write files
	list := []attack{
		{name: "settings: forge the record of a patch", setup: home(record + "="), act: func(p places) error { return own(p.Work + "/" + record) }, won: isOwned(record)},
		{name: "settings: make the journal of patches", setup: home(), act: func(p places) error { return own(p.Work + "/" + record) }, won: isOwned(record)},
		{name: "settings: replace the journal of patches", setup: home(record + "="), act: func(p places) error {
			return replace(p.Work+"/home/.local/state", "execbus/patches/forged.json")
		}, won: isOwned(record)},
		{name: "settings: write", setup: home(config + "="), act: func(p places) error { return own(p.Work + "/" + config) }, won: isOwned(config)},
		{name: "settings: make them", setup: home(), act: func(p places) error { return own(p.Work + "/" + config) }, won: isOwned(config)},
		{name: "settings: make a rule", setup: home(), act: func(p places) error { return own(p.Work + "/home/.config/execbus/rules/default.rules") },
			won: isOwned("home/.config/execbus/rules/default.rules")},
		{name: "settings: replace the directory", setup: home(config + "="), act: func(p places) error {
			return replace(p.Work+"/home/.config/execbus", "config.toml")
		}, won: isOwned(config)},
		{name: "settings: replace the directory around", setup: home(config + "="), act: func(p places) error {
			return replace(p.Work+"/home/.config", "execbus/config.toml")
		}, won: isOwned(config)},
		{name: "settings: replace the home directory", setup: home(config + "="), act: func(p places) error {
			return replace(p.Work+"/home", ".config/execbus/config.toml")
		}, won: isOwned(config)},
		{name: "settings: a link instead of the directory around", setup: home(config + "="), act: func(p places) error {
			return relink(p, p.Work+"/home/.config", "execbus/config.toml")
		}, won: isOwned(config)},
		{name: "settings: behind a link", setup: home("more/execbus/config.toml=", "home/.config->../more"), act: func(p places) error {
			return own(p.Work + "/more/execbus/config.toml")
		}, won: isOwned(config)},
		{name: "settings: another link", setup: home("more/execbus/config.toml=", "home/.config->../more"), act: func(p places) error {
			return relink(p, p.Work+"/home/.config", "execbus/config.toml")
		}, won: isOwned(config)},
		{name: "settings: where XDG_CONFIG_HOME says", setup: func(s *scene) {
			home()(s)
			s.Setenv("XDG_CONFIG_HOME", s.Work+"/xdg")
		}, act: func(p places) error { return own(p.Work + "/xdg/execbus/config.toml") }, won: isOwned("xdg/execbus/config.toml")},
		{name: "settings: the named file", setup: named(file + "="), act: func(p places) error { return own(p.Work + "/" + file) }, won: isOwned(file)},
		{name: "settings: a named file that is missing", setup: named("settings/"), act: func(p places) error { return own(p.Work + "/" + file) }, won: isOwned(file)},
		{name: "settings: a directory for the named file", setup: named(), act: func(p places) error { return own(p.Work + "/" + file) }, won: isOwned(file)},
		{name: "settings: rename over the named file", setup: named(file + "="), act: func(p places) error {
			if err := own(p.Work + "/evil"); err != nil {
				return err
			}
			return os.Rename(p.Work+"/evil", p.Work+"/"+file)
		}, won: isOwned(file)},
		{name: "settings: replace the directory of the named file", setup: named(file + "="), act: func(p places) error {
			return replace(p.Work+"/settings", "own.toml")
		}, won: isOwned(file)},
		{name: "settings: the file to which the named one is a link", setup: named("dir/real.toml=", file+"->../dir/real.toml"), act: func(p places) error {
			return own(p.Work + "/dir/real.toml")
		}, won: isOwned(file)},
	}
	for i := range list {
		list[i].except = carveOut
	}
	return list
}

// leading are attempts on repositories that links, and files that name repositories, lead to.
func leading() []attack {
	list := []attack{
		{name: "leading: behind a link", setup: plant("store/config=", ".git->store"), act: func(p places) error { return own(p.Work + "/store/config") },
			won: isOwned(".git/config")},
		{name: "leading: another link", setup: plant("store/config=", ".git->store"), act: func(p places) error { return relink(p, p.Work+"/.git", "config") },
			won: isOwned(".git/config")},
		{name: "leading: a directory instead of the link", setup: plant("store/config=", ".git->store"), act: func(p places) error {
			return replace(p.Work+"/.git", "config")
		}, won: isOwned(".git/config")},
		{name: "leading: another directory behind a link", setup: plant("store/config=", ".git->store"), act: func(p places) error {
			return replace(p.Work+"/store", "config")
		}, won: isOwned(".git/config")},
		{name: "leading: another directory around it", setup: plant("store/deep/git/config=", ".git->store/deep/git"), act: func(p places) error {
			return replace(p.Work+"/store", "deep/git/config")
		}, won: isOwned(".git/config")},
		{name: "leading: the second link", setup: plant("store/config=", "way->store", ".git->way"), act: func(p places) error {
			return relink(p, p.Work+"/way", "config")
		}, won: isOwned(".git/config")},
		{name: "leading: a link to nothing", setup: plant(".git->dir/store"), act: func(p places) error { return own(p.Work + "/dir/store/config") },
			won: isOwned(".git/config")},
		{name: "leading: a nested link", setup: plant("store/config=", "vendor/odd/.git->../../store"), act: func(p places) error {
			return own(p.Work + "/store/config")
		}, won: isOwned("vendor/odd/.git/config")},
		{name: "leading: another nested link", setup: plant("store/config=", "vendor/odd/.git->../../store"), act: func(p places) error {
			return relink(p, p.Work+"/vendor/odd/.git", "config")
		}, won: isOwned("vendor/odd/.git/config")},
		{name: "leading: another protected name", setup: plant("dir/agent/", ".codex->dir/agent"), act: func(p places) error {
			return own(p.Work + "/dir/agent/config.toml")
		}, won: isOwned(".codex/config.toml")},
		{name: "leading: a file behind a link", setup: plant("dir/pointer=gitdir: dir/real\n", "dir/real/config=", ".git->dir/pointer"), act: func(p places) error {
			return own(p.Work + "/dir/pointer")
		}, won: isOwned("dir/pointer")},
		{name: "leading: the repository that a file behind a link names", setup: plant("dir/pointer=gitdir: dir/real\n", "dir/real/config=", ".git->dir/pointer"),
			act: func(p places) error { return own(p.Work + "/dir/real/config") }, won: isOwned("dir/real/config")},
		{name: "leading: a link on the way that a file names", setup: plant("dir/real/git/config=", "way->dir/real", ".git=gitdir: way/git\n"), act: func(p places) error {
			return relink(p, p.Work+"/way", "git/config")
		}, won: isOwned("way/git/config")},
		{name: "leading: a repository that two worktrees share", setup: plant("dir/real/commondir=../common\n", "dir/common/config=", ".git=gitdir: dir/real\n"),
			act: func(p places) error { return own(p.Work + "/dir/common/config") }, won: isOwned("dir/common/config")},
	}
	temporary := func(entries ...string) func(*scene) {
		return func(s *scene) {
			plant(entries...)(s)
			s.Setenv("TMPDIR", s.Work+"/temp")
			s.policy.ExcludeTmpdirEnvVar = false
		}
	}
	list = append(list,
		attack{name: "temporary: write", setup: temporary("temp/.git/config="), act: func(p places) error { return own(p.Work + "/temp/.git/config") },
			won: isOwned("temp/.git/config")},
		attack{name: "temporary: replace", setup: temporary("temp/.git/config="), act: func(p places) error { return replace(p.Work+"/temp/.git", "config") },
			won: isOwned("temp/.git/config")},
		attack{name: "temporary: behind a link", setup: temporary("temp/.git->real", "temp/real/config="), act: func(p places) error {
			return own(p.Work + "/temp/real/config")
		}, won: isOwned("temp/.git/config")},
		attack{name: "temporary: a session's directory in it", setup: func(s *scene) {
			s.Setenv("TMPDIR", filepath.Dir(s.Work))
			s.policy.ExcludeTmpdirEnvVar = false
		}, act: func(p places) error { return own(p.Work + "/.agents/x") }, won: isOwned(".agents/x")},
	)
	for i := range list {
		list[i].except = carveOut
	}
	return list
}

// setIDs are attempts to leave a program that gives its rights to others.
func setIDs() []attack {
	list := []attack{
		{name: "set-id: chmod, the user", act: func(p places) error { return unix.Chmod(p.Work+"/su", unix.S_ISUID|0o755) }},
		{name: "set-id: chmod, the group", act: func(p places) error { return unix.Chmod(p.Work+"/su", unix.S_ISGID|0o755) }},
		{name: "set-id: fchmod", act: func(p places) error {
			fd, err := unix.Open(p.Work+"/su", unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return unix.Fchmod(fd, unix.S_ISUID|0o755)
		}},
		{name: "set-id: fchmodat", act: func(p places) error { return unix.Fchmodat(unix.AT_FDCWD, p.Work+"/su", unix.S_ISGID|0o755, 0) }},
		{name: "set-id: fchmodat2", act: func(p places) error {
			return unix.Fchmodat(unix.AT_FDCWD, p.Work+"/su", unix.S_ISUID|0o755, unix.AT_SYMLINK_NOFOLLOW)
		}},
		{name: "set-id: a directory", act: func(p places) error {
			if err := errors.Join(os.Remove(p.Work+"/su"), os.Mkdir(p.Work+"/su", 0o755)); err != nil {
				return err
			}
			return unix.Chmod(p.Work+"/su", unix.S_ISGID|0o755)
		}},
		{name: "set-id: mknod", act: func(p places) error {
			if err := os.Remove(p.Work + "/su"); err != nil {
				return err
			}
			return unix.Mknod(p.Work+"/su", unix.S_IFREG|unix.S_ISUID|0o755, 0)
		}},
		{name: "set-id: open", act: func(p places) error {
			if err := os.Remove(p.Work + "/su"); err != nil {
				return err
			}
			_, err := unix.Open(p.Work+"/su", unix.O_CREAT|unix.O_WRONLY, unix.S_ISUID|0o755)
			return err
		}},
		{name: "set-id: open relative to a directory", act: func(p places) error {
			dir, err := unix.Open(p.Work, unix.O_PATH, 0)
			if err == nil {
				err = os.Remove(p.Work + "/su")
			}
			if err != nil {
				return err
			}
			_, err = unix.Openat(dir, "su", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, unix.S_ISGID|0o755)
			return err
		}},
		{name: "set-id: a file without a name", act: func(p places) error {
			fd, err := unix.Open(p.Work, unix.O_TMPFILE|unix.O_RDWR, unix.S_ISUID|0o755)
			if err == nil {
				err = os.Remove(p.Work + "/su")
			}
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, p.Work+"/su", unix.AT_SYMLINK_FOLLOW)
		}},
		{name: "set-id: openat2", act: func(p places) error {
			if err := os.Remove(p.Work + "/su"); err != nil {
				return err
			}
			_, err := unix.Openat2(unix.AT_FDCWD, p.Work+"/su", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: unix.S_ISUID | 0o755})
			return err
		}},
	}
	for i, a := range list {
		list[i].act = func(p places) error {
			unix.Umask(0)
			if err := os.WriteFile(p.Work+"/su", []byte("#!/bin/sh\n"), 0o755); err != nil {
				return err
			}
			return a.act(p)
		}
		list[i].won = setUID("su")
	}
	return append(list,
		attack{name: "capabilities: raise an ambient one", act: func(places) error {
			head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var data [2]unix.CapUserData
			if err := unix.Capget(&head, &data[0]); err != nil {
				return err
			}
			for i := range data {
				data[i].Inheritable = data[i].Permitted
			}
			if err := unix.Capset(&head, &data[0]); err != nil {
				return err
			}
			for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
				if unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0) == nil {
					return nil
				}
			}
			return errHeld
		}},
		attack{name: "capabilities: of a program", who: onlyRoot, setup: func(s *scene) {
			self, err := os.ReadFile("/proc/self/exe")
			must(s, err)
			must(s, os.WriteFile(s.Out+"/able", self, 0o755))
			two := []byte{1, 0, 0, 2, 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
			must(s, unix.Setxattr(s.Out+"/able", "security.capability", two, 0))
		}, act: func(p places) error { return able(p.Out + "/able") }},
		attack{name: "capabilities: of a set-user-id program", who: onlyRoot, setup: func(s *scene) {
			self, err := os.ReadFile("/proc/self/exe")
			must(s, err)
			must(s, os.WriteFile(s.Out+"/able", self, 0o755))
			must(s, os.Chmod(s.Out+"/able", os.ModeSetuid|0o755))
		}, act: func(p places) error { return able(p.Out + "/able") }},
		attack{name: "capabilities: in the bounding set, root", who: onlyRoot, act: func(places) error { return have("CapBnd") }},
		attack{name: "capabilities: in the bounding set", who: onlyUser, except: "no ordinary user may empty the set, and without new privileges nothing comes from it",
			act: func(places) error { return have("CapBnd") }})
}

// have reports as an error that a set of this process's capabilities is empty.
func have(set string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), set+":")
	if line, _, _ := strings.Cut(rest, "\n"); strings.Trim(line, "\t 0") == "" {
		return fmt.Errorf("%s is empty", set)
	}
	return nil
}

// able executes a copy of this program, and succeeds if it has capabilities.
func able(program string) error {
	text, err := exec.Command(program, roleAble).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %s", err, text)
	}
	return nil
}

// beAble is that copy. It does not return.
func beAble() {
	if err := errors.Join(have("CapPrm"), have("CapEff")); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A command cannot write the rules that decide about it.
func TestACommandCannotWriteRules(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range []string{"rules", "more"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	files := []string{"rules/one.rules", "more/single.rules", "more/amendments.rules"} // the last one is missing
	for _, name := range files[:2] {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	rt, err := execbus.Start(execbus.Options{AmendmentFile: filepath.Join(dir, files[2]),
		Rules: []execbus.RuleLayer{{Dir: filepath.Join(dir, "rules"), Trusted: true}, {Files: []string{filepath.Join(dir, files[1])}, Trusted: true}}})
	must(t, err)
	t.Cleanup(func() { must(t, rt.Shutdown(context.Background())) })
	if level, _, text := best(t, rt); level != messages.AssuranceIsolated {
		t.Skipf("skipped: nothing can be isolated here: %s", text)
	}
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: dir, Approval: messages.ApprovalPolicy{Mode: messages.ApproveNever}, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}})
	must(t, err)
	for _, name := range append(files, "rules/new.rules") {
		yield := patience
		script := "echo owned >" + name + "; rm " + name + "; mv " + filepath.Dir(name) + " away; mkdir -p " + filepath.Dir(name) + "; echo owned >" + name
		if _, err := session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"sh", "-c", script}, Yield: &yield}); err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, name)); len(text) > 0 {
			t.Errorf("%s has become %q", name, text)
		}
	}
}
