//go:build linux

package attack

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// launches are attempts on the process that starts the command: by the command's environment, its directory, and its paths.
func launches() []attack {
	pwned := func(s *scene) bool { _, err := os.Stat(s.Out + "/new"); return err == nil }
	script := func(s *scene, names ...string) {
		for _, name := range names {
			must(s, os.WriteFile(filepath.Join(s.Work, name), []byte("#!/bin/sh\ntouch "+s.Out+"/new\n"), 0o755))
		}
	}
	list := []attack{
		{name: "launch: PATH before the sandbox", setup: func(s *scene) {
			script(s, "sh", "bwrap", "mount", "newuidmap", "newgidmap", "sandbox-exec")
		}, env: map[string]string{"PATH": "."}, act: func(p places) error { return errHeld }, won: pwned},
		{name: "launch: a preloaded library", setup: func(s *scene) { script(s, "evil.so") },
			env: map[string]string{"LD_PRELOAD": "./evil.so", "LD_LIBRARY_PATH": ".", "LD_AUDIT": "./evil.so"},
			act: func(p places) error { return errHeld }, won: pwned},
		{name: "launch: settings of the warden's runtime", env: map[string]string{"GODEBUG": "execerrdot=0", "GOTRACEBACK": "crash", "GOMAXPROCS": "1"},
			act: func(p places) error { return os.WriteFile(outNew(p), nil, 0o644) }, won: pwned},
		{name: "launch: a temporary directory outside", setup: func(s *scene) { s.policy.ExcludeTmpdirEnvVar = os.Getenv("TMPDIR") != "" }, // the host's own may be written
			env: map[string]string{"TMPDIR": ".."}, act: func(p places) error { return os.WriteFile(outNew(p), nil, 0o644) }, won: pwned},
		{name: "launch: a home outside", env: map[string]string{"HOME": "..", "XDG_RUNTIME_DIR": ".."},
			act: func(p places) error { return os.WriteFile(outNew(p), nil, 0o644) }, won: pwned},
		{name: "launch: a marker of the sandbox", env: map[string]string{"EXECBUS_SANDBOX_NETWORK_DISABLED": "0", "CONTAINER": "1"},
			act: func(p places) error { return os.WriteFile(outNew(p), nil, 0o644) }, won: pwned},
	}
	for i := range list {
		list[i].unsafe = true
	}
	return append(list, attack{name: "launch: a root that is writable by its name only",
		act: func(p places) error {
			sibling := p.Work + "x"
			if err := unix.Mkdir(sibling, 0o755); err != nil {
				return err
			}
			return unix.Rmdir(sibling)
		}})
}
