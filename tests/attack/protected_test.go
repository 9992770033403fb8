//go:build linux

package attack

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

const carveOut = "Landlock grants rights to everything below a directory, and cannot take them back for a part of it"

// protectedNames are attempts on files inside the root that must not change.
func protectedNames() []attack {
	intact := func(s *scene) bool {
		text, err := os.ReadFile(s.Work + "/.git/config")
		hooks, _ := os.ReadDir(s.Work + "/.git/hooks")
		entries, _ := os.ReadDir(s.Work + "/.git")
		info, failed := os.Lstat(s.Work + "/.git")
		return err != nil || failed != nil || !info.IsDir() || string(text) != "untouched" || len(hooks) > 0 || len(entries) != 2
	}
	appeared := func(name string) func(*scene) bool {
		return func(s *scene) bool {
			entries, err := os.ReadDir(s.Work + "/" + name)
			_, link := os.Readlink(s.Work + "/" + name)
			return err == nil && len(entries) > 0 || link == nil
		}
	}
	list := []attack{
		{name: "protected: write", act: func(p places) error { return os.WriteFile(p.Work+"/.git/config", nil, 0o644) }},
		{name: "protected: plant a hook", act: func(p places) error { return os.WriteFile(p.Work+"/.git/hooks/pre-commit", nil, 0o755) }},
		{name: "protected: remove a file", act: func(p places) error { return os.Remove(p.Work + "/.git/config") }},
		{name: "protected: remove everything", act: func(p places) error { return os.RemoveAll(p.Work + "/.git") }},
		{name: "protected: rename", act: func(p places) error { return os.Rename(p.Work+"/.git", p.Work+"/git") }},
		{name: "protected: rename over", act: func(p places) error { return os.Rename(p.Work+"/file", p.Work+"/.git/config") }},
		{name: "protected: rename from", act: func(p places) error { return os.Rename(p.Work+"/.git/config", p.Work+"/config") }},
		{name: "protected: exchange", act: func(p places) error {
			return unix.Renameat2(unix.AT_FDCWD, p.Work+"/dir", unix.AT_FDCWD, p.Work+"/.git", unix.RENAME_EXCHANGE)
		}},
		{name: "protected: hard link", act: func(p places) error {
			if err := os.Link(p.Work+"/.git/config", p.Work+"/l"); err != nil {
				return err
			}
			return os.WriteFile(p.Work+"/l", []byte("owned"), 0o644)
		}},
		{name: "protected: through the own directory", act: func(p places) error {
			return os.WriteFile("/proc/self/cwd/.git/new", nil, 0o644)
		}},
		{name: "protected: by another spelling", act: func(p places) error {
			return os.WriteFile(p.Work+"/dir/../.git/./hooks/../new", nil, 0o644)
		}},
		{name: "protected: temporary file without a name", act: func(p places) error {
			fd, err := unix.Open(p.Work, unix.O_TMPFILE|unix.O_RDWR, 0o644)
			if err != nil {
				return err
			}
			return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, p.Work+"/.git/new", unix.AT_SYMLINK_FOLLOW)
		}},
		{name: "protected: truncate", act: func(p places) error { return os.Truncate(p.Work+"/.git/config", 0) }},
		{name: "protected: rename the root", act: func(p places) error { return os.Rename(p.Work, p.Work+"x") },
			won: func(s *scene) bool { _, err := os.Stat(s.Work); return err != nil }},
		{name: "protected: a nested repository", act: func(p places) error {
			return os.WriteFile(p.Work+"/vendor/lib/.git/config", nil, 0o644)
		}, won: func(s *scene) bool {
			text, _ := os.ReadFile(s.Work + "/vendor/lib/.git/config")
			return string(text) != "untouched"
		}},
		{name: "protected: move a nested repository", act: func(p places) error {
			return os.Rename(p.Work+"/vendor", p.Work+"/sold")
		}, won: func(s *scene) bool {
			text, _ := os.ReadFile(s.Work + "/vendor/lib/.git/config")
			return string(text) != "untouched"
		}},
		{name: "protected: a name of the host's", policy: func(p *messages.SandboxPolicy) { p.ProtectedNames = []string{".idea"} },
			setup: func(s *scene) { must(s, os.Mkdir(s.Work+"/.idea", 0o755)) },
			act:   func(p places) error { return os.WriteFile(p.Work+"/.idea/x", nil, 0o644) }, won: appeared(".idea")},
		{name: "protected: a file that names a repository", setup: pointer, act: func(p places) error {
			return os.WriteFile(p.Work+"/.git", []byte("gitdir: /tmp\n"), 0o644)
		}, won: func(s *scene) bool {
			text, _ := os.ReadFile(s.Work + "/.git")
			return string(text) != "gitdir: dir/real\n"
		}},
		{name: "protected: the repository that a file names", setup: pointer, act: func(p places) error {
			return os.WriteFile(p.Work+"/dir/real/config", nil, 0o644)
		}, won: appeared("dir/real")},
	}
	for _, name := range []string{".agents", ".codex"} {
		list = append(list,
			attack{name: "protected: make a missing " + name, act: func(p places) error {
				_ = os.Mkdir(filepath.Join(p.Work, name), 0o755)
				return os.WriteFile(filepath.Join(p.Work, name, "x"), nil, 0o644)
			}, won: appeared(name)},
			attack{name: "protected: link to a missing " + name, act: func(p places) error {
				return os.Symlink("dir", filepath.Join(p.Work, name))
			}, won: appeared(name)},
			attack{name: "protected: rename to a missing " + name, act: func(p places) error {
				_ = os.WriteFile(p.Work+"/dir/x", nil, 0o644)
				return os.Rename(p.Work+"/dir", filepath.Join(p.Work, name))
			}, won: appeared(name)})
	}
	for i := range list {
		list[i].except = carveOut
		if list[i].name == "protected: rename the root" { // its parent is outside
			list[i].except = ""
		}
		if list[i].won == nil {
			list[i].won = intact
		}
	}
	return append(list, attack{name: "denied: read", except: carveOut,
		policy: func(p *messages.SandboxPolicy) { p.DeniedReads = []string{"/secret"} },
		setup: func(s *scene) {
			s.policy.DeniedReads = []string{s.Out}
		},
		act: func(p places) error { _, err := os.ReadFile(outFile(p)); return err }},
		attack{name: "denied: list", except: carveOut,
			setup: func(s *scene) { s.policy.DeniedReads = []string{s.Out} },
			act: func(p places) error {
				entries, err := os.ReadDir(p.Out)
				if err == nil && len(entries) == 0 {
					return errHeld
				}
				return err
			}})
}

// pointer makes .git a file that names a directory inside the root.
func pointer(s *scene) {
	must(s, os.RemoveAll(s.Work+"/.git"))
	must(s, os.Mkdir(s.Work+"/dir/real", 0o755))
	must(s, os.WriteFile(s.Work+"/.git", []byte("gitdir: dir/real\n"), 0o644))
}
