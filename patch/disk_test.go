package patch_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/execbus/execbus/patch"
)

// apply does what a plan says, on the disk and as simply as possible.
func apply(plan *patch.Plan) error {
	for _, change := range plan.Changes {
		if change.New == nil || change.Old != nil && (change.Old.Link != "" || change.New.Created) {
			if err := os.Remove(change.Path); err != nil {
				return err
			}
		}
		if change.New == nil {
			continue
		}
		mode := change.New.Mode
		if change.New.Created {
			mode = 0o666
		}
		if err := os.MkdirAll(filepath.Dir(change.Path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(change.Path, change.New.Data, mode); err != nil {
			return err
		}
		if !change.New.Created {
			if err := os.Chmod(change.Path, mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// planned looks at the files of a patch, and plans it.
func planned(dir, text string) (*patch.Plan, error) {
	p, err := patch.Parse(text)
	if err != nil {
		return nil, err
	}
	files := map[string]patch.File{}
	for _, path := range p.Paths(dir) {
		files[path] = look(path)
	}
	return p.Plan(dir, files)
}

// look finds what stands at a path.
func look(path string) patch.File {
	file := patch.File{Path: path, Kind: patch.Absent}
	f := follow(path, 0)
	file.Place, file.Leads, file.Link, file.Blocked = f.place, f.leads, f.link, f.blocked
	if f.err != nil {
		file.Problem = f.err.Error()
		return file
	}
	info, err := os.Lstat(file.Leads)
	switch {
	case errors.Is(err, fs.ErrNotExist) || file.Blocked != "":
		return file
	case err != nil:
		file.Problem = err.Error()
		return file
	case info.IsDir():
		file.Kind = patch.Directory
	case !info.Mode().IsRegular():
		file.Kind = patch.Other
	default:
		file.Kind = patch.Regular
		if file.Data, err = os.ReadFile(file.Leads); err != nil {
			file.Problem = err.Error()
		}
	}
	stat := info.Sys().(*syscall.Stat_t)
	file.ID = patch.ID{Device: uint64(stat.Dev), Inode: stat.Ino}
	file.Mode = info.Mode().Perm()
	return file
}

type followed struct {
	place, leads, link, blocked string
	err                         error
}

// follow follows the links of a path.
func follow(path string, links int) (f followed) {
	if path == "/" {
		return followed{place: path, leads: path}
	}
	parent := follow(filepath.Dir(path), links)
	f.place = filepath.Join(parent.leads, filepath.Base(path))
	f.leads, f.blocked, f.err = f.place, parent.blocked, parent.err
	if f.blocked != "" || f.err != nil {
		return f
	}
	switch info, err := os.Lstat(parent.leads); {
	case errors.Is(err, fs.ErrNotExist) && parent.link != "":
		f.blocked = parent.place
	case err == nil && !info.IsDir():
		f.blocked = parent.leads
	}
	info, err := os.Lstat(f.place)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return f
	}
	if f.link, f.err = os.Readlink(f.place); f.err != nil {
		return f
	}
	if links++; links > 40 {
		f.err = errors.New("too many links lead to one another")
		return f
	}
	to := f.link
	if !filepath.IsAbs(to) {
		to = filepath.Join(parent.leads, to)
	}
	target := follow(filepath.Clean(to), links)
	f.leads, f.blocked, f.err = target.leads, target.blocked, target.err
	if _, err := os.Lstat(filepath.Dir(f.leads)); err != nil && f.blocked == "" && f.err == nil { // nothing makes directories behind a link
		f.blocked = filepath.Dir(f.leads)
	}
	return f
}
