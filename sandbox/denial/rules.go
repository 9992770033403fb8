package denial

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// Rules say what a confined command may do. All paths are absolute and clean. Of the entries that apply to a path the
// longest counts.
type Rules struct {
	// Write are the directories and files below which it may write.
	Write []string
	// Protected are names such as .git. A path with one of them directly below an entry of Write must not be written.
	Protected []string
	// Unreadable lists paths that it must not read, and Read lists exceptions below them.
	Unreadable, Read []string
	// Network says that it may use the network.
	Network bool
	// Sockets are the unix sockets outside of Write that it may use. With them or the network it may also use those below Write.
	Sockets []string
	// Home is the user's home directory: a grant names a file in it, never all of it. Empty means that it is unknown.
	Home string
}

// The rules that a denial names.
const (
	ruleRoots     = "outside of what may be written"
	ruleProtected = "a protected name"
	ruleRead      = "what may not be read"
	ruleNetwork   = "no network"
	ruleApart     = "no network, so that servers outside of the sandbox cannot be reached"
	ruleSockets   = "unix sockets that the policy does not list"
	ruleCalls     = "calls that no confined command may make"
)

// RulesOf are the rules of a policy. Dir and temp are directories that workspace-write lets every command write; temp may
// be empty. more is what one command may do in addition, with paths relative to a directory.
func RulesOf(p messages.SandboxPolicy, dir, temp string, more *messages.AdditionalPermissions, moreDir string) Rules {
	r := Rules{Network: p.NetworkAccess, Sockets: p.Sockets, Protected: slices.Concat([]string{".git", ".agents", ".codex"}, p.ProtectedNames),
		Unreadable: slices.Clone(p.DeniedReads)}
	if p.Type == messages.SandboxWorkspaceWrite {
		r.Write = append([]string{dir}, p.WritableRoots...)
		if !p.ExcludeSlashTmp {
			r.Write = append(r.Write, "/tmp")
		}
		if !p.ExcludeTmpdirEnvVar && temp != "" {
			r.Write = append(r.Write, temp)
		}
	}
	if more != nil {
		r.Network = r.Network || more.Network != nil && more.Network.Enabled
		if files := more.FileSystem; files != nil {
			r.Write = append(r.Write, files.Write...)
			r.Read = append(r.Read, files.Read...)
		}
	}
	for _, list := range [][]string{r.Write, r.Read, r.Unreadable} {
		for i, path := range list {
			if !filepath.IsAbs(path) {
				path = filepath.Join(moreDir, path)
			}
			list[i] = filepath.Clean(path)
		}
	}
	return r
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// below is the longest entry that path lies below.
func below(path string, entries []string) (longest string, found bool) {
	for _, entry := range entries {
		if within(path, entry) && len(entry) >= len(longest) {
			longest, found = entry, true
		}
	}
	return longest, found
}

// unwritable says which rule forbids writing to a path, and what would have to be writable instead; there is no rule if it
// is allowed. Deep says that only a nested repository may be protected there.
func (r Rules) unwritable(path string) (rule, grant string, deep bool) {
	root, found := below(path, r.Write)
	if !found {
		return ruleRoots, r.grantFor(path), false
	}
	walked := root
	for name := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(path, root), "/"), "/") {
		deep = walked != root
		walked = filepath.Join(walked, name)
		if slices.Contains(r.Protected, name) {
			return ruleProtected, walked, deep
		}
	}
	return "", "", false
}

// repository is the protected name of a repository that a command in a directory would make there.
func (r Rules) repository(dir string) (path string) {
	root, _ := below(dir, r.Write)
	return filepath.Join(root, ".git")
}

// unreadable says which rule forbids reading a path, and what would have to be readable instead; nothing helps against an
// entry for the path itself.
func (r Rules) unreadable(path string) (rule, grant string) {
	denied, found := below(path, r.Unreadable)
	if allowed, more := below(path, slices.Concat(r.Read, r.Write)); !found || more && len(allowed) > len(denied) {
		return "", ""
	}
	if path == denied {
		return ruleRead, ""
	}
	return ruleRead, path
}

// grantFor is what has to be writable for a file to be made, replaced or removed: its directory, unless everything that the user has
// lies there. There is none for a directory with all of that, nor for the kernel's own, where it could not help.
func (r Rules) grantFor(path string) string {
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if within(path, dir) {
			return ""
		}
	}
	if within(r.Home, path) {
		return ""
	}
	if dir := filepath.Dir(path); dir != "/" && !within(r.Home, dir) && !homes().MatchString(dir) {
		return dir
	}
	return path
}

// homes match directories in which users have everything.
var homes = lazily(`^(/root|/home(/[^/]+)?|/Users(/[^/]+)?)$`)
