package patch

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// tree is what the files are while the operations are done.
type tree struct {
	dir         string
	files       map[string]File
	names       map[string]*name // by place
	touched     []*name          // in the order of the operations
	made        []string         // places of files that were not there before, even if they are gone again
	unlinked    []*name          // links that are no more
	overwritten []string
	written     int // bytes
	steps       int // what is left for matching
}

// name is one name in a directory, and what stands there.
type name struct {
	place, named string
	leads        string // of a link
	obstacle     string // why the patch cannot use what stands here; empty: it can
	blocked      string // what stands where there would have to be a directory
	was, is      *contents
	overwrites   bool
	touched      bool
}

// contents is a file, which may have several names, or a symbolic link.
type contents struct {
	Content
	old   *Content // before the patch; nil: the patch made it
	from  string   // the place from which it was moved
	base  []byte   // what the edits are for
	edits []edit
	exact bool // the edits are all that happened to it
}

// read enters what was found.
func (t *tree) read(paths []string) error {
	total, byID := 0, map[ID]*contents{}
	for i, path := range paths {
		file, known := t.files[path]
		switch {
		case !known:
			return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "patch", Subject: messages.Visible(path), Detail: "nobody has looked at this path"}
		case i == 0 && file.Kind != Directory:
			return refuse(messages.Visible(path), "the patch is for this directory, and %s", or(file.Problem, "there is none"))
		}
		if total += len(file.Data); total > MaxTotal {
			return refuse("", "the files have more than %d bytes in all; split it", MaxTotal)
		}
		place := or(file.Place, path)
		leads := or(file.Leads, place)
		if file.Link != "" && t.names[place] == nil {
			link := Content{Link: file.Link}
			is := &contents{Content: link, old: &link}
			n := &name{place: place, leads: leads, obstacle: file.Problem, was: is, is: is}
			if leads == place && n.obstacle == "" {
				n.obstacle = "it is a link that leads nowhere"
			}
			t.names[place] = n
		}
		if t.names[leads] != nil {
			continue
		}
		n := &name{place: leads, obstacle: obstacle(file), blocked: file.Blocked}
		if file.Kind == Regular && n.obstacle == "" {
			content := Content{Data: file.Data, Mode: file.Mode, ID: file.ID}
			if byID[file.ID] == nil || file.ID == (ID{}) {
				byID[file.ID] = &contents{Content: content, old: &content, base: file.Data, exact: true}
			}
			n.was, n.is = byID[file.ID], byID[file.ID]
		}
		t.names[leads] = n
	}
	return nil
}

// obstacle says why a patch cannot use what was found; empty if it can.
func obstacle(file File) string {
	switch {
	case file.Problem != "":
		return file.Problem
	case file.Kind == Directory:
		return "it is a directory, not a file"
	case file.Kind == Other:
		return "it is a device, a pipe or a socket, not a file"
	case len(file.Data) > MaxFile:
		return fmt.Sprintf("it has more than %d bytes", MaxFile)
	}
	return ""
}

func or(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

// do does one operation.
func (t *tree) do(o Operation) error {
	switch o.Kind {
	case Delete:
		return t.remove(o, t.at(o.Path))
	case Add:
		n, err := t.behind(o, o.Path)
		if err != nil {
			return err
		}
		var text []byte
		for _, line := range o.added {
			text = append(append(text, line...), '\n')
		}
		return t.put(o, o.Path, n, contents{Content: Content{Data: text, Created: true}})
	default:
		return t.update(o)
	}
}

// at is the name that a path of the patch stands for. It may be a link.
func (t *tree) at(path string) *name {
	path = absolute(t.dir, path)
	return t.names[or(t.files[path].Place, path)]
}

// behind is the file that a path of the patch leads to.
func (t *tree) behind(o Operation, path string) (*name, error) {
	n := t.at(path)
	if n.is == nil || n.is.Link == "" {
		return n, nil
	}
	if n.obstacle != "" {
		return nil, t.fail(o, path, "%s", n.obstacle)
	}
	for _, gone := range t.unlinked {
		if gone.leads == n.leads {
			return nil, t.fail(o, path, "it leads to %s, perhaps by the link %s, which the patch removes before; split the patch",
				messages.Visible(n.leads), messages.Visible(gone.place))
		}
	}
	return t.names[n.leads], nil
}

// update changes a file, and perhaps moves it.
func (t *tree) update(o Operation) error {
	from := t.at(o.Path)
	n, err := t.behind(o, o.Path)
	if err != nil {
		return err
	}
	switch {
	case n.obstacle != "":
		return t.fail(o, o.Path, "it cannot be updated: %s", n.obstacle)
	case n.is == nil:
		return t.fail(o, o.Path, "it cannot be updated: %s", n.absence())
	case !utf8.Valid(n.is.Data):
		return t.fail(o, o.Path, "it cannot be updated: it is not UTF-8: byte %d", invalidAt(string(n.is.Data)))
	}
	d := newDocument(n.is.Data, &t.steps)
	if len(d.lines) > MaxFileLines {
		return t.fail(o, o.Path, "it cannot be updated: it has more than %d lines", MaxFileLines)
	}
	edits, err := d.edits(o.hunks)
	if err != nil {
		return refuse(messages.Visible(absolute(t.dir, o.Path)), "%v", err)
	}
	if d.size(edits) > MaxFile {
		return t.fail(o, o.Path, "it would have more than %d bytes", MaxFile)
	}
	updated := *n.is
	updated.Data = d.apply(edits)
	if updated.exact = n.is.exact && n.is.edits == nil; updated.exact {
		updated.edits = edits
	}
	to := n
	if o.MoveTo != "" {
		if to, err = t.behind(o, o.MoveTo); err != nil {
			return err
		}
	}
	if to == n || to.is == n.is { // it stays, under this or another of its names
		t.touch(n, o.Path)
		*n.is = updated
		return t.write(o, len(updated.Data))
	}
	if updated.from == "" && updated.old != nil {
		updated.from = from.place
	}
	if err := t.put(o, o.MoveTo, to, updated); err != nil {
		return err
	}
	return t.remove(o, from)
}

// put puts a whole file in a place, into what is there if there is something.
func (t *tree) put(o Operation, path string, n *name, file contents) error {
	if n.obstacle != "" {
		return t.fail(o, path, "it cannot be written: %s", n.obstacle)
	}
	t.touch(n, path)
	if file.from == n.place { // it is back
		file.from = ""
	}
	if n.is == nil {
		if why := t.blocks(n); why != "" {
			return t.fail(o, path, "it cannot be written: %s", why)
		}
		file.ID, file.old = ID{}, nil
		n.is = &file
		t.made = append(t.made, n.place)
	} else {
		if n.is == n.was && !n.overwrites {
			n.overwrites = true
			t.overwritten = append(t.overwritten, "Overwritten: "+path)
		}
		if file.Created {
			file.Mode, file.Created = n.is.Mode, n.is.Created
		}
		file.ID, file.old = n.is.ID, n.is.old
		*n.is = file
	}
	return t.write(o, len(file.Data))
}

// write bounds what the operations write.
func (t *tree) write(o Operation, bytes int) error {
	if t.written += bytes; t.written > MaxTotal {
		return refuse("", "line %d: the operations write more than %d bytes in all; split it", o.Line, MaxTotal)
	}
	return nil
}

// remove removes a name.
func (t *tree) remove(o Operation, n *name) error {
	link := n.is != nil && n.is.Link != "" // then what is wrong with its target does not matter
	switch {
	case link && t.files[absolute(t.dir, o.Path)].Kind == Directory:
		return t.fail(o, o.Path, "it cannot be deleted: it is a link to a directory, not a file")
	case n.obstacle != "" && !link:
		return t.fail(o, o.Path, "it cannot be deleted: %s", n.obstacle)
	case n.is == nil:
		return t.fail(o, o.Path, "it cannot be deleted: %s", n.absence())
	}
	if link {
		t.unlinked, n.obstacle = append(t.unlinked, n), ""
	}
	t.touch(n, o.Path)
	n.is = nil
	return nil
}

// blocks says why a file cannot be created: its directory is a file, or it is a directory itself.
func (t *tree) blocks(n *name) string {
	if at := t.names[n.blocked]; n.blocked != "" && (at == nil || at.is != nil || at.was.Link != "") { // where a link led is not known once it is gone
		return fmt.Sprintf("%s is not a directory", messages.Visible(n.blocked))
	}
	for _, other := range t.names {
		if other.is != nil && below(n.place, other.place) {
			return fmt.Sprintf("%s is not a directory", messages.Visible(other.place))
		}
	}
	for _, place := range t.made {
		if below(place, n.place) {
			return "it is a directory by then, not a file"
		}
	}
	return ""
}

// below reports whether a path lies in a directory.
func below(path, dir string) bool {
	return len(path) > len(dir) && path[len(dir)] == '/' && strings.HasPrefix(path, dir)
}

// touch remembers that something has become of a name.
func (t *tree) touch(n *name, path string) {
	if !n.touched {
		n.touched, n.named = true, absolute(t.dir, path)
		t.touched = append(t.touched, n)
	}
}

// absence says why there is no file.
func (n *name) absence() string {
	if n.blocked != "" {
		return fmt.Sprintf("%s is not a directory", messages.Visible(n.blocked))
	}
	return "there is no such file"
}

// fail refuses an operation.
func (t *tree) fail(o Operation, path, format string, values ...any) error {
	return refuse(messages.Visible(absolute(t.dir, path)), "line %d: %s", o.Line, fmt.Sprintf(format, values...))
}

// change is what has become of a name, and how that is shown. moved says that the patch moved it away.
func (n *name) change(moved bool) (change Change, all []difference) {
	change = Change{Path: n.place, Named: n.named, Overwrites: n.overwrites}
	base := difference{from: n.place, to: n.place}
	if n.was != nil {
		change.Old = n.was.old
		base.base = change.Old.Data
	} else {
		base.from = nothing
	}
	if n.is == nil {
		if base.to = nothing; !moved {
			all = append(all, base.replaced(nil))
		}
	} else {
		after := n.is.Content
		after.ID = ID{}
		change.New, change.From = &after, n.is.from
		if change.From != "" && change.Old != nil { // it takes the place of another file
			all = append(all, difference{from: n.place, to: nothing, base: base.base}.replaced(nil))
		}
		if change.From != "" {
			base.from, base.base = change.From, n.is.base
		}
		if n.is.exact {
			base.edits = n.is.edits
			all = append(all, base)
		} else {
			all = append(all, base.replaced(after.Data))
		}
	}
	for _, d := range all {
		for _, edit := range d.edits {
			change.Added, change.Removed = change.Added+len(edit.added), change.Removed+edit.removed
		}
	}
	return change, all
}
