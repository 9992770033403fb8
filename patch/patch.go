package patch

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
)

// Bounds of a patch. Beyond them it is refused.
const (
	MaxPatch      = 16 << 20 // bytes
	MaxLines      = 1 << 20
	MaxOperations = 4096
)

// Kind says what an operation does to a file.
type Kind string

// The kinds.
const (
	Add    Kind = "add"    // write a whole file
	Delete Kind = "delete" // remove a file, or a symbolic link itself
	Update Kind = "update" // change lines of a file, and perhaps move it
)

// Patch is a list of operations. They are done one after the other, and each sees what the one before did.
type Patch struct {
	Operations    []Operation
	EnvironmentID string // from the optional second line; it means nothing here
}

// Operation is what a patch does to one file.
type Operation struct {
	Kind   Kind
	Path   string // as it is written in the patch
	MoveTo string // Update: the new path, as it is written; empty: it stays
	Line   int    // of the patch, where it begins; the first line is 1

	added []string // Add: the lines
	hunks []hunk   // Update
}

// hunk is one change of a file, found by the lines around it.
type hunk struct {
	line    int    // of the patch, where it begins
	context string // the line behind which it is; empty: there is none
	body    []bodyLine
	atEnd   bool // it ends where the file ends
}

// bodyLine is a line that stays (' '), is removed ('-') or is added ('+').
type bodyLine struct {
	mark byte
	text string
}

// The lines that a patch is made of.
const (
	beginPatch  = "*** Begin Patch"
	endPatch    = "*** End Patch"
	environment = "*** Environment ID:"
	addFile     = "*** Add File: "
	deleteFile  = "*** Delete File: "
	updateFile  = "*** Update File: "
	moveTo      = "*** Move to: "
	endOfFile   = "*** End of File"
	hunkStart   = "@@"
)

// Parse reads a patch. An error says in which line the patch is wrong; the line with "*** Begin Patch" is the first.
func Parse(text string) (*Patch, error) {
	if len(text) > MaxPatch {
		return nil, refuse("", "it has %d bytes, and at most %d are taken; split it", len(text), MaxPatch)
	}
	if !utf8.ValidString(text) {
		return nil, refuse("", "it is not UTF-8: byte %d", invalidAt(text))
	}
	if strings.Count(text, "\n") >= MaxLines {
		return nil, refuse("", "it has more than %d lines; split it", MaxLines)
	}
	text = strings.TrimSpace(text)
	lines := unwrap(strings.Split(text, "\n"))
	last := len(lines) - 1
	if first := strings.TrimSpace(lines[0]); first != beginPatch && text != "" {
		return nil, refuse("line 1", "the first line of the patch must be %q, not %s", beginPatch, quote(first))
	}
	if last == 0 || strings.TrimSpace(lines[last]) != endPatch {
		return nil, refuse(lineName(last+1), "the last line of the patch must be %q, not %s", endPatch, quote(lines[last]))
	}
	p := parser{patch: &Patch{}}
	for i, line := range lines[1:last] {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\r"), "\r") // a stray one before the end of the line goes, too
		if err := p.line(i+2, line); err != nil {
			return nil, err
		}
	}
	if err := p.end(last + 1); err != nil {
		return nil, err
	}
	return p.patch, nil
}

// unwrap takes off what is left of a here-document around a patch.
func unwrap(lines []string) []string {
	wrappers := []string{"<<EOF", "<<'EOF'", `<<"EOF"`}
	if n := len(lines); n >= 4 && slices.Contains(wrappers, strings.TrimRight(lines[0], "\r")) && strings.HasSuffix(lines[n-1], "EOF") {
		return lines[1 : n-1]
	}
	return lines
}

// parser takes the lines between the first and the last one by one.
type parser struct {
	patch *Patch
	open  bool // the last hunk takes more lines
	ended bool // there was an end of the patch
}

// line reads one line.
func (p *parser) line(number int, line string) error {
	if p.ended {
		if strings.TrimSpace(line) == "" {
			return nil
		}
		return refuse(lineName(number), "the last line of the patch must be %q, and this one follows it: %s", endPatch, quote(line))
	}
	if n := len(p.patch.Operations); n > 0 {
		switch operation := &p.patch.Operations[n-1]; operation.Kind {
		case Update:
			return p.update(operation, number, line)
		case Add:
			if text, found := strings.CutPrefix(line, "+"); found {
				operation.added = append(operation.added, text)
				return nil
			}
		}
	}
	if id, found := strings.CutPrefix(strings.TrimSpace(line), environment); found && len(p.patch.Operations) == 0 {
		return p.environment(number, strings.TrimSpace(id))
	}
	found, err := p.header(number, strings.TrimSpace(line))
	if !found {
		err = refuse(lineName(number), "%s is not a valid header of an operation: use %q, %q or %q with a path",
			quote(strings.TrimSpace(line)), addFile, deleteFile, updateFile)
	}
	return err
}

// environment takes the name of an environment, once.
func (p *parser) environment(number int, id string) error {
	switch {
	case p.patch.EnvironmentID != "":
		return refuse(lineName(number), "the environment ID cannot be given more than once")
	case id == "":
		return refuse(lineName(number), "the environment ID cannot be empty")
	}
	p.patch.EnvironmentID = id
	return nil
}

// header begins an operation, if the line is the header of one, or ends the patch.
func (p *parser) header(number int, line string) (found bool, err error) {
	if line == endPatch {
		err := p.end(number)
		p.ended = true
		return true, err
	}
	for _, of := range headers {
		path, begins := strings.CutPrefix(line, of.prefix)
		if !begins || path == "" {
			continue
		}
		if len(p.patch.Operations) == MaxOperations {
			return true, refuse(lineName(number), "it has more than %d operations; split it", MaxOperations)
		}
		if err := p.end(number); err != nil {
			return true, err
		}
		p.patch.Operations = append(p.patch.Operations, Operation{Kind: of.kind, Path: path, Line: number})
		return true, checkPath(number, path)
	}
	return false, nil
}

var headers = []struct {
	prefix string
	kind   Kind
}{{addFile, Add}, {deleteFile, Delete}, {updateFile, Update}}

// update reads a line behind the header of an Update.
func (p *parser) update(operation *Operation, number int, line string) error {
	header := strings.TrimRightFunc(line, unicode.IsSpace)
	var current *hunk
	if n := len(operation.hunks); n > 0 {
		current = &operation.hunks[n-1]
	}
	if path, found := strings.CutPrefix(header, moveTo); found && current == nil && operation.MoveTo == "" {
		operation.MoveTo = path
		return checkPath(number, path)
	}
	empty := p.open && len(current.body) == 0
	switch context, starts := cutHunkStart(line); {
	case header == endOfFile && current == nil: // nothing has begun that could end
		return nil
	case empty && (header == endOfFile || header == endPatch):
		return p.end(number)
	case header == endOfFile && p.open:
		current.atEnd, p.open = true, false
		return nil
	case starts && !empty:
		operation.hunks = append(operation.hunks, hunk{line: number, context: context})
		p.open = true
		return nil
	case !empty:
		if found, err := p.header(number, header); found {
			return err
		}
		if current != nil && !p.open && strings.TrimSpace(line) == "" {
			return nil // between the end of a file and what follows
		}
	}
	if current == nil && isBody(line) { // the first hunk needs no "@@"
		operation.hunks = append(operation.hunks, hunk{line: number})
		current, p.open = &operation.hunks[0], true
	}
	switch {
	case p.open && line == "":
		current.body = append(current.body, bodyLine{mark: ' '})
	case p.open && isBody(line):
		current.body = append(current.body, bodyLine{mark: line[0], text: line[1:]})
	case current == nil || empty:
		return refuse(lineName(number), "unexpected %s: each line of a hunk begins with ' ' (it stays), '+' (it is added) or '-' (it is removed)", quote(line))
	default:
		return refuse(lineName(number), "%s is no line of the hunk before it: the next hunk begins with %q, and each line of a hunk with ' ', '+' or '-'",
			quote(line), hunkStart)
	}
	return nil
}

// end ends the last operation, at the line that follows it: an Update needs changes.
func (p *parser) end(number int) error {
	if len(p.patch.Operations) == 0 {
		return nil
	}
	operation := p.patch.Operations[len(p.patch.Operations)-1]
	switch {
	case operation.Kind != Update:
	case len(operation.hunks) == 0:
		return refuse(lineName(operation.Line), "the update of %s is empty: it needs a hunk", quote(operation.Path))
	case p.open && len(operation.hunks[len(operation.hunks)-1].body) == 0:
		return refuse(lineName(number), "the hunk before this line does not contain any lines")
	}
	p.open = false
	return nil
}

// cutHunkStart reports whether a line begins a hunk, and returns the text behind it.
func cutHunkStart(line string) (context string, found bool) {
	if strings.TrimRightFunc(line, unicode.IsSpace) == hunkStart {
		return "", true
	}
	return strings.CutPrefix(line, hunkStart+" ")
}

func isBody(line string) bool { return line == "" || strings.ContainsRune(" +-", rune(line[0])) }

func checkPath(number int, path string) error {
	if strings.ContainsRune(path, 0) {
		return refuse(lineName(number), "%s is no valid path: it has a NUL", quote(path))
	}
	return nil
}

// Paths are all files to look at before the patch can be planned: dir itself first, then the paths of the operations, each
// once. They are absolute, and joined to dir as text: "nope/../x" is "x", whatever nope is.
func (p *Patch) Paths(dir string) []string {
	paths := []string{filepath.Clean(dir)}
	seen := map[string]bool{paths[0]: true}
	for _, operation := range p.Operations {
		for _, path := range operation.paths(dir) {
			if !seen[path] {
				seen[path] = true
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Single refuses a patch in which two operations name one path, as an intercepted command may not.
func (p *Patch) Single(dir string) error {
	seen := map[string]bool{}
	for _, operation := range p.Operations {
		for _, path := range slices.Compact(operation.paths(dir)) {
			if seen[path] {
				return refuse(messages.Visible(path), "line %d: more than one operation names this path; give each path one operation", operation.Line)
			}
			seen[path] = true
		}
	}
	return nil
}

// paths are the absolute paths of an operation.
func (o *Operation) paths(dir string) []string {
	if o.MoveTo == "" {
		return []string{absolute(dir, o.Path)}
	}
	return []string{absolute(dir, o.Path), absolute(dir, o.MoveTo)}
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func lineName(number int) string { return "line " + strconv.Itoa(number) }
