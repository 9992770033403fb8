package seatbelt

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// protected are names that a command cannot change at the top of each root, whether they exist or not.
var protected = []string{".git", ".agents", ".codex"}

// Looked holds the places that the paths of a confinement lead to. It does not change.
type Looked struct {
	Rules
	seen []seen
}

// seen is the file that a path led to when it was looked up.
type seen struct {
	path string
	info fs.FileInfo
}

// Look looks up the paths of a confinement. Directories that do not exist cannot be written.
func Look(c ptyio.Confinement) (*Looked, error) {
	l := &Looked{Rules: Rules{Network: c.Policy.NetworkAccess}}
	for _, root := range roots(c) {
		if err := l.root(root); err != nil {
			return nil, err
		}
	}
	if err := l.protect(append(slices.Clone(protected), c.Policy.ProtectedNames...)); err != nil {
		return nil, err
	}
	if more := c.Additional; more != nil {
		l.Network = l.Network || more.Network != nil && more.Network.Enabled
		if more.FileSystem != nil {
			for _, path := range more.FileSystem.Write {
				if !filepath.IsAbs(path) {
					path = filepath.Join(c.AdditionalDir, path)
				}
				l.Write = append(l.Write, Root{Path: resolved(path)})
			}
		}
	}
	for _, path := range c.Policy.DeniedReads {
		l.Unreadable = append(l.Unreadable, resolved(path))
	}
	for _, path := range c.Policy.Sockets {
		l.Sockets = append(l.Sockets, resolved(path))
	}
	return l, nil
}

// roots returns the directories that a policy lets commands write.
func roots(c ptyio.Confinement) []string {
	if c.Policy.Type != messages.SandboxWorkspaceWrite {
		return nil
	}
	all := append([]string{c.Dir}, c.Policy.WritableRoots...)
	if !c.Policy.ExcludeSlashTmp {
		all = append(all, "/tmp")
	}
	if !c.Policy.ExcludeTmpdirEnvVar && c.TempDir != "" {
		all = append(all, c.TempDir)
	}
	return all
}

func (l *Looked) root(path string) error {
	path = resolved(path)
	if slices.ContainsFunc(l.Write, func(r Root) bool { return r.Path == path }) {
		return nil
	}
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return refused(path, err.Error())
	}
	l.Write = append(l.Write, Root{Path: path})
	l.seen = append(l.seen, seen{path, info})
	return nil
}

// protect adds each protected path to every root that contains it.
func (l *Looked) protect(names []string) error {
	var all []string
	for _, root := range l.Write {
		for _, name := range names {
			path := filepath.Join(root.Path, name)
			info, err := os.Lstat(path)
			if err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return refused(path, "it is a symbolic link, and what it leads to could not be protected")
			}
			all = append(all, path)
			if err == nil && info.Mode().IsRegular() && name == ".git" {
				all = append(all, pointed(path)...)
			}
		}
	}
	for i := range l.Write {
		for _, path := range all {
			if strings.HasPrefix(path, strings.TrimSuffix(l.Write[i].Path, "/")+"/") && !slices.Contains(l.Write[i].Protected, path) {
				l.Write[i].Protected = append(l.Write[i].Protected, path)
			}
		}
	}
	return nil
}

// maxPointer bounds the size of a file that names a repository.
const maxPointer = 8 << 10

// pointed returns the directory that a .git file names.
func pointed(path string) []string {
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxPointer {
		return nil
	}
	text, _ := os.ReadFile(path)
	dir, found := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if !found {
		return nil
	}
	dir = strings.TrimSpace(dir)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(path), dir)
	}
	return []string{resolved(dir)}
}

// Check returns an error if a path now leads to another root.
func (l *Looked) Check() error {
	for _, s := range l.seen {
		info, err := os.Lstat(s.path)
		if err != nil || !os.SameFile(info, s.info) || resolved(s.path) != s.path {
			return refused(s.path, "it is not the directory any more that it was when the policy was set")
		}
	}
	return nil
}

// resolved follows the symbolic links of a path. If the path does not exist, it follows those of the part that does.
func resolved(path string) string {
	path = filepath.Clean(path)
	if full, err := filepath.EvalSymlinks(path); err == nil {
		return full
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

func refused(path, why string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "confine", Subject: path, Detail: fmt.Sprintf("nothing can be confined to it: %s; name another directory, or accept danger-full-access", why)}
}
