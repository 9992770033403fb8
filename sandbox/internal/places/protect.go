package places

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/placeholder"
)

// maxGitFile bounds how much of a .git file is read.
const maxGitFile = 4 << 10

// protect adds the protected names at the top of a directory, whether they exist or not.
func (f *finder) protect(root confine.Place) error {
	if !root.Directory {
		return nil
	}
	for _, name := range f.names {
		path := filepath.Join(root.Path, name)
		info, ours, err := settled(path)
		switch {
		case f.isRoot(path):
			continue
		case errors.Is(err, fs.ErrNotExist) || ours:
			f.found.Plan.Places = append(f.found.Plan.Places, confine.Place{Path: path, Access: confine.Read, File: -1})
			continue
		case err != nil:
			return refused(path, reason(err)+"; it has to be protected, but cannot be found")
		case info.Mode()&fs.ModeSymlink != 0:
			return refused(path, "it is a symbolic link, and such a name cannot be protected; replace it with what it leads to")
		}
		f.keep(path, info)
		if name == ".git" && info.Mode().IsRegular() {
			f.linked(path)
		}
	}
	return nil
}

// settled returns what is at a path, and whether that is a placeholder. A placeholder can go at any time, and must not be taken for a
// link that somebody has made; so a link counts only if it is still there when it has been read.
func settled(path string) (info fs.FileInfo, ours bool, err error) {
	for range 100 {
		info, err = os.Lstat(path)
		ours = placeholder.Is(path)
		if ours || err != nil || info.Mode()&fs.ModeSymlink == 0 {
			break
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(now, info) {
			break
		}
	}
	return info, ours, err
}

// isRoot reports whether the policy itself names a path as one that can be written.
func (f *finder) isRoot(path string) bool {
	return slices.ContainsFunc(f.found.Plan.Places, func(p confine.Place) bool { return p.Path == path && p.Access == confine.Write })
}

// keep makes a place read-only.
func (f *finder) keep(path string, info fs.FileInfo) {
	id := identify(info)
	f.found.Plan.Places = append(f.found.Plan.Places, confine.Place{Path: path, Access: confine.Read, Device: id.device, Inode: id.inode,
		Directory: info.IsDir(), File: -1})
}

// linked protects the repository that a .git file names, and the repository to which this work tree belongs, if they are
// writable.
func (f *finder) linked(file string) {
	dir := f.follow(file, "gitdir:")
	if dir == "" {
		return
	}
	f.keepWritable(dir)
	if common := f.follow(filepath.Join(dir, "commondir"), ""); common != "" {
		f.keepWritable(common)
	}
}

// follow reads a file that names a directory, relative to its own.
func (f *finder) follow(file, prefix string) (dir string) {
	opened, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer opened.Close()
	text := make([]byte, maxGitFile)
	n, _ := opened.Read(text)
	line, _, _ := strings.Cut(string(text[:n]), "\n")
	name, found := strings.CutPrefix(line, prefix)
	if name = strings.TrimSpace(name); !found || name == "" {
		return ""
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(file), name)
	}
	dir, err = filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	return dir
}

// keepWritable makes a directory read-only if it lies in a writable one.
func (f *finder) keepWritable(dir string) {
	info, err := os.Lstat(dir)
	if err == nil && f.access(dir) == confine.Write {
		f.keep(dir, info)
	}
}

// access is what the most specific place found so far says about a path.
func (f *finder) access(path string) confine.Access {
	return confine.AccessAmong(f.found.Plan.Places, path)
}
