package execserver

import (
	"io/fs"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// Bounds of a walk.
const (
	maxWalked     = 100_000
	maxWalkErrors = 1000
)

// walker collects the entries below a directory.
type walker struct {
	result  wire.WalkResult
	entries int // how many more fit
	depth   int // the deepest level that the client wants
}

func walk(c *connection, params wire.WalkParams) (later, error) {
	w := &walker{result: wire.WalkResult{Entries: []wire.WalkEntry{}, Errors: []wire.WalkError{}}, entries: maxWalked, depth: maxNested}
	if n := params.Options.MaxEntries; n != nil {
		w.entries = int(min(*n, maxWalked))
	}
	if n := params.Options.MaxDepth; n != nil {
		w.depth = int(min(*n, maxNested))
	}
	return at(c, &use{large: true}, params.Path, params.Sandbox, func(l location) (any, error) {
		names, err := l.names()
		if err != nil {
			return nil, err
		}
		w.directory(l, names, 1)
		return w.result, nil
	})
}

// directory lists the entries of a directory at a depth. Each directory comes before its own entries.
func (w *walker) directory(l location, names []string, depth int) {
	if depth > w.depth {
		w.result.Truncated = w.result.Truncated || len(names) > 0
		return
	}
	for _, name := range names {
		if w.entries == 0 {
			w.result.Truncated = true
			return
		}
		below := l.below(name)
		info, err := l.in.Lstat(below.name)
		if err != nil {
			w.failed(below, err)
			continue
		}
		w.entries--
		w.result.Entries = append(w.result.Entries, wire.WalkEntry{Path: wire.FileURI(below.path), IsDirectory: info.IsDir(),
			IsFile: info.Mode().IsRegular(), IsSymlink: info.Mode().Type() == fs.ModeSymlink})
		if !info.IsDir() {
			continue
		}
		inside, err := below.names()
		if err != nil {
			w.failed(below, err)
			continue
		}
		w.directory(below, inside, depth+1)
	}
}

func (w *walker) failed(l location, err error) {
	if len(w.result.Errors) == maxWalkErrors {
		w.result.Truncated = true
		return
	}
	w.result.Errors = append(w.result.Errors, wire.WalkError{Path: wire.FileURI(l.path), Message: err.Error()})
}
