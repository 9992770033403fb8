package isolate

import (
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// rules makes a Landlock rule set that repeats the restrictions of the mounts: a second fence. The first process makes it in the
// new namespaces, because only there it finds the new file systems.
func (s *space) rules(abi int) (ruleset *birth.Memory) {
	words := confine.Handled(abi)
	ruleset = birth.NewMemory(0)
	s.add(birth.Call("landlock rule set", unix.SYS_LANDLOCK_CREATE_RULESET, birth.Words(words...), birth.Number(8*len(words)),
		birth.Number(0)).Keep(ruleset, 0))
	allow := func(what string, rights confine.Rights, path string) {
		if rights &= confine.Rights(words[0]); rights == 0 {
			return
		}
		rule := birth.NewMemory(uint64(rights), 0) // landlock_path_beneath_attr, whose end the kernel does not read
		s.add(birth.Call(what, unix.SYS_OPENAT, here(), birth.Text(path), birth.Number(unix.O_PATH|unix.O_CLOEXEC)).Keep(rule, 1),
			birth.Call(what, unix.SYS_LANDLOCK_ADD_RULE, ruleset.Word(0), birth.Number(unix.LANDLOCK_RULE_PATH_BENEATH), rule.At(0), birth.Number(0)))
	}
	allow("landlock: reading", confine.ReadDirectory, "/")
	allow("landlock: devices", confine.ReadDirectory|confine.UseDevice|unix.LANDLOCK_ACCESS_FS_TRUNCATE, "/dev")
	allow("landlock: shared memory", confine.WriteDirectory, "/dev/shm")
	for _, rule := range s.plan.Rules {
		switch {
		case rule.Access != confine.Write || rule.Missing():
		case rule.Directory:
			allow("landlock: "+rule.Path, confine.WriteDirectory, rule.Path)
		default:
			allow("landlock: "+rule.Path, confine.WriteFile, rule.Path)
		}
	}
	for _, socket := range s.plan.Sockets {
		allow("landlock: "+socket.Path, confine.Connect, socket.Path)
	}
	return ruleset
}
