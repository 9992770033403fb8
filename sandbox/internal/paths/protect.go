package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/execbus/execbus/internal/placeholder"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// maxGitFile bounds how much of a .git file is read.
const maxGitFile = 4 << 10

// protect adds the protected names at the top of a directory. Those that are missing are left out if ifThere is true.
func (f *finder) protect(root confine.Rule, ifThere bool) error {
	if !root.Directory {
		return nil
	}
	for _, name := range f.found.names {
		path := filepath.Join(root.Path, name)
		if f.isRoot(path) {
			continue
		}
		end, err := f.reach(root.Path, name, ifThere)
		switch {
		case err != nil && ifThere:
			f.gap(path, reason(err))
		case err != nil:
			return refused(path, reason(err)+"; it has to be protected, but cannot be found")
		case name == ".git":
			f.linked(root.Path, end)
		}
	}
	return nil
}

// maxLinks bounds the symbolic links of one path, as the kernel does.
const maxLinks = 40

// reach protects what a path below a directory leads to, and the symbolic links on the way, as far as commands could change them. The
// directories around what is protected cannot be moved. Reach returns where the path ends; empty if it leads nowhere.
func (f *finder) reach(dir, name string, ifThere bool) (end string, err error) {
	at, links := dir, 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		next := rest[0]
		rest = rest[1:]
		path := filepath.Join(at, next)
		if next == ".." && f.access(at) == confine.Write && !f.fastened(at) {
			f.gap(filepath.Join(dir, name), "the way there leads through "+at+" and back, and commands could replace that")
		}
		if next == "" || next == "." || next == ".." {
			at = path
			continue
		}
		info, ours, err := settled(path)
		to := ""
		if err == nil && !ours && info.Mode()&fs.ModeSymlink != 0 {
			to, err = os.Readlink(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) || ours:
			f.keepMissing(path, ifThere)
			return "", nil
		case err != nil:
			return "", err
		case to == "":
			if at = path; !info.IsDir() || barred(info) {
				rest = nil
			}
			continue
		}
		f.keep(path, info, to, ifThere)
		if links++; links > maxLinks {
			return "", nil
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = slices.Concat(strings.Split(to, "/"), rest)
	}
	info, err := os.Lstat(at)
	if err != nil { // it has just gone
		f.keepMissing(at, ifThere)
		return "", nil
	}
	f.keep(at, info, "", ifThere)
	return at, nil
}

// barred reports whether only its owner can pass a directory, and commands are another user: those of root have no rights over the
// files of others.
func barred(info fs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return known && info.IsDir() && os.Geteuid() == 0 && stat.Uid != 0 && info.Mode().Perm()&0o011 == 0
}

// settled returns what is at a path, and whether that is a placeholder. A placeholder can go at any time, and must not be taken for a
// link that somebody has made; so a link counts only if it is still there when it has been read.
func settled(path string) (info fs.FileInfo, ours bool, err error) {
	for range 100 {
		info, err = os.Lstat(path)
		ours = err == nil && info.Mode()&(fs.ModeSymlink|fs.ModeSocket) != 0 && placeholder.Is(path)
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
	return slices.ContainsFunc(f.found.Plan.Rules, func(p confine.Rule) bool { return p.Path == path && p.Access == confine.Write })
}

// fastened reports whether a directory cannot be moved because a protected path lies in it.
func (f *finder) fastened(dir string) bool {
	return slices.ContainsFunc(f.found.Plan.Rules, func(p confine.Rule) bool {
		return p.Access != confine.Write && p.Path != dir && confine.Within(p.Path, dir)
	})
}

// keepMissing lets nothing be made at a path.
func (f *finder) keepMissing(path string, ifThere bool) {
	if !ifThere && f.access(path) == confine.Write {
		f.found.Plan.Rules = append(f.found.Plan.Rules, confine.Rule{Path: path, Access: confine.Read, File: -1})
	}
}

// keep makes a path read-only if commands could change it. If it is a link, to is where it leads.
func (f *finder) keep(path string, info fs.FileInfo, to string, ifThere bool) {
	if f.access(path) != confine.Write || f.isRoot(path) {
		return
	}
	id := identify(info)
	f.found.Plan.Rules = append(f.found.Plan.Rules, confine.Rule{Path: path, Access: confine.Read, Device: id.device, Inode: id.inode,
		Directory: info.IsDir(), Link: to, IfThere: ifThere, File: -1})
}

// linked protects the repository that a .git file in a directory names, and the repository to which this work tree belongs. The
// file may be elsewhere, but what it says is relative to the directory.
func (f *finder) linked(dir, file string) {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if repository := f.named(dir, file, "gitdir:"); repository != "" {
		f.named(repository, filepath.Join(repository, "commondir"), "")
	}
}

// named protects the directory that a file names, and returns it; empty if there is none.
func (f *finder) named(dir, file, prefix string) string {
	opened, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
	if filepath.IsAbs(name) {
		dir = "/"
	}
	end, err := f.reach(dir, name, true)
	if err != nil {
		f.gap(name, reason(err))
	}
	return end
}

// access is what the most specific rule so far says about a path.
func (f *finder) access(path string) confine.Access {
	return confine.AccessAmong(f.found.Plan.Rules, path)
}
