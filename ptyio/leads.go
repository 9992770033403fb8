package ptyio

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Follower is a Resolver that can say where paths lead. Of a machine whose resolver is none, nothing is known of where they do.
type Follower interface {
	// Leads returns the file or directory that the kernel reaches by an absolute path, without links and "..". The last name may be a
	// pattern; if one of the files that match it lies elsewhere, that is where it leads. Names that do not exist yet are kept. It is
	// empty if the path leads to something else than a regular file or a directory, or if where it leads cannot be told.
	Leads(ctx context.Context, path string) (string, error)
}

func (local) Leads(ctx context.Context, path string) (string, error) {
	return look(ctx, path, func() (string, error) { return leadsTo(path), nil })
}

// maxMatched bounds the directory in which a pattern is looked for.
const maxMatched = 4096

// leadsTo is where a path leads. A pattern leads to the first match that is a link.
func leadsTo(path string) string {
	dir, name := filepath.Split(path)
	if strings.ContainsAny(dir, "*?[") {
		return ""
	}
	if !strings.ContainsAny(name, "*?[") {
		return destination(path)
	}
	file, err := os.Open(dir)
	if err != nil {
		return destination(path) // there is nothing to match
	}
	defer file.Close()
	entries, _ := file.ReadDir(maxMatched)
	if len(entries) == maxMatched {
		return ""
	}
	for _, entry := range entries {
		matches, bad := filepath.Match(name, entry.Name())
		if (matches || bad != nil) && !entry.Type().IsRegular() && !entry.IsDir() {
			return destination(dir + entry.Name())
		}
	}
	return destination(dir)
}

// destination follows links as the kernel does.
func destination(path string) string {
	rest := ""
	for at := path; ; {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			if info, err := os.Stat(real); err != nil || !info.IsDir() && (!info.Mode().IsRegular() || rest != "") {
				return ""
			}
			return filepath.Join(real, rest)
		}
		if _, broken := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) || broken == nil || at == "/" {
			return "" // nobody may look, or it is a link to what does not exist yet
		}
		dir, name := filepath.Split(strings.TrimRight(at, "/"))
		if name == ".." || dir == "" {
			return ""
		}
		if at, rest = strings.TrimRight(dir, "/"), filepath.Join(name, rest); at == "" {
			at = "/"
		}
	}
}
