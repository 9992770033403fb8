package paths

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Bounds of the search for nested repositories, which begins at the top of each writable directory.
type Bounds struct {
	Depth   int           // levels of directories below the top
	Entries int           // names looked at, for all directories together
	Time    time.Duration // for all directories together
}

// DefaultBounds are so small that a person does not notice the search.
var DefaultBounds = Bounds{Depth: 4, Entries: 20_000, Time: 250 * time.Millisecond}

// maxNested bounds the repositories that are protected.
const maxNested = 256

// search is the walk through all writable directories, shallow directories first.
type search struct {
	*finder
	until   time.Time
	entries int
	count   int
	deep    int // directories that were too deep
	stopped bool
}

type step struct {
	dir   string
	depth int
}

// nested protects the repositories below the tops of writable directories.
func (f *finder) nested(roots []confine.Rule) {
	s := &search{finder: f, until: time.Now().Add(f.bounds.Time)}
	seen := map[string]bool{}
	for _, root := range roots {
		if !root.Directory || seen[root.Path] {
			continue
		}
		queue := []step{{root.Path, 0}}
		for len(queue) > 0 && !s.stopped {
			next := queue[0]
			queue = queue[1:]
			if next.depth > 0 && seen[next.dir] { // it is a root itself
				continue
			}
			seen[next.dir] = true
			queue = append(queue, s.look(next)...)
		}
		if s.stopped {
			return
		}
	}
	if s.deep > 0 {
		f.gap("repositories below the writable directories", fmt.Sprintf("%d directories lie deeper than %d levels, which were not looked into",
			s.deep, f.bounds.Depth))
	}
}

// look looks at one directory, and returns the directories in it.
func (s *search) look(at step) (below []step) {
	dir, err := os.Open(at.dir)
	if err != nil {
		return nil
	}
	defer dir.Close()
	if info, err := dir.Stat(); err != nil || barred(info) {
		return nil
	}
	for {
		entries, err := dir.ReadDir(256)
		for _, entry := range entries {
			s.entries++
			path := filepath.Join(at.dir, entry.Name())
			switch {
			case at.depth > 0 && entry.Name() == ".git":
				s.repository(path)
			case !entry.IsDir() || at.depth == 0 && s.protects(entry.Name()):
			case at.depth >= s.bounds.Depth:
				s.deep++
			default:
				below = append(below, step{path, at.depth + 1})
			}
			if s.over(at.dir) {
				return nil
			}
		}
		if err != nil {
			return below
		}
	}
}

// protects reports whether a name is protected at the top. Then nothing below it needs protection.
func (s *search) protects(name string) bool {
	return slices.Contains(s.found.names, name)
}

func (s *search) repository(path string) {
	s.count++
	dir := filepath.Dir(path)
	if end, err := s.reach(dir, ".git", true); err != nil {
		s.gap(path, reason(err))
	} else {
		s.linked(dir, end)
	}
}

// over reports whether a bound was reached, and records where.
func (s *search) over(dir string) bool {
	why := ""
	switch {
	case s.count >= maxNested:
		why = fmt.Sprintf("the search stopped after %d of them", maxNested)
	case s.entries >= s.bounds.Entries:
		why = fmt.Sprintf("the search stopped after %d names", s.bounds.Entries)
	case s.entries%64 == 0 && time.Now().After(s.until):
		why = fmt.Sprintf("the search stopped after %v", s.bounds.Time)
	default:
		return false
	}
	s.stopped = true
	s.gap("repositories below the writable directories", why+", in "+dir)
	return true
}
