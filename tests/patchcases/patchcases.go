// Package patchcases has what the program apply_patch was seen to do in more than 500 cases, for the tests of everything that applies patches.
//
//	patchcases.Try(t, func(dir, text string) (exit int, stdout, stderr string) { … })
//
// # What you must not assume
//
// That everything should come out as it was seen: Deliberate has what should not.
package patchcases

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/messages"
)

//go:embed testdata
var files embed.FS

// Case is what the program apply_patch did.
type Case struct {
	Name, Group, Note string
	Before, After     map[string]Entry
	Patch             rawText
	Argv              []string
	Stdin             *string
	Cwd               string
	Exit              int
	Stdout, Stderr    string
	StillLinked       bool `json:"still_linked"`
}

// rawText is a text, or bytes that are none.
type rawText string

func (r *rawText) UnmarshalJSON(data []byte) error {
	var binary struct {
		Base64 []byte
		Bytes  int // of a patch that is not given: one line of so many bytes in all
	}
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(r))
	}
	if err := json.Unmarshal(data, &binary); err != nil {
		return err
	}
	if *r = rawText(binary.Base64); binary.Bytes > 0 {
		const begin, end = "*** Begin Patch\n*** Add File: x\n+", "\n*** End Patch"
		*r = rawText(begin + strings.Repeat("y", binary.Bytes-len(begin)-len(end)) + end)
	}
	return nil
}

// Entry is a file, a directory or a link.
type Entry struct {
	Text, Mode, Symlink, Sha256 string
	Base64                      []byte
	Dir, Fifo, Generated        bool
	Size                        int
}

func (e *Entry) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return json.Unmarshal(data, &e.Text)
	}
	type plain Entry
	return json.Unmarshal(data, (*plain)(e))
}

// Deliberate are the differences that we want, with the cases that show them. The doc of package patch has the same rows.
var Deliberate = []struct {
	Row   string
	cases map[string]outcome
}{
	{"A patch that fails changes nothing", map[string]outcome{
		"comb_add_file_then_child":    {exit: 1, before: true, says: "d/y: line 4: it cannot be written: $DIR/d is not a directory"},
		"delete_twice":                {exit: 1, before: true, says: "x: line 3: it cannot be deleted: there is no such file"},
		"move_then_update_old_name":   {exit: 1, before: true, says: "x: line 7: it cannot be updated: there is no such file"},
		"partial_third_fails_delete":  {exit: 1, before: true, says: "nope: line 8: it cannot be deleted: there is no such file"},
		"partial_third_fails_missing": {exit: 1, before: true, says: "nope: line 7: it cannot be updated: there is no such file"},
		"parse_062":                   {exit: 1, before: true, says: "x  y: line 5: it cannot be deleted"},
		"mixed_039":                   {exit: 1, before: true, says: "x: line 7: the expected lines cannot be found"},
		"mixed_097":                   {exit: 1, before: true, says: "x: line 4: it cannot be updated"},
		"mixed_127":                   {exit: 1, before: true, says: "d: line 5: it cannot be written: it is a directory"},
		"mixed_128":                   {exit: 1, before: true, says: "d: line 4: it cannot be written: it is a directory"},
		"mixed_129":                   {exit: 1, before: true, says: "d/e/f: line 4: it cannot be written: $DIR/d is not a directory"},
		"files_019":                   {exit: 1, before: true, says: "a/b: line 4: it cannot be written: it is a directory"},
		"files_021":                   {exit: 1, before: true, says: "d: line 3: it cannot be written: it is a directory"},
	}},
	{"A move of a file onto itself, under any of its names, is an update", map[string]outcome{
		"move_to_itself":            {after: map[string]Entry{"x": {Text: "a\nB\nc\nd\ne\n"}}, says: "M x\n"},
		"move_to_itself_dot":        {after: map[string]Entry{"x": {Text: "a\nB\nc\nd\ne\n"}}, says: "M ./x\n"},
		"move_to_itself_by_symlink": {after: map[string]Entry{"x": {Text: "a\nB\nc\nd\ne\n"}, "y": {Symlink: "x"}}, says: "M y\n"},
		"mixed_085":                 {after: map[string]Entry{"x": {Text: ""}, "l": {Symlink: "x"}}, says: "M l\n"},
		"mixed_118":                 {after: map[string]Entry{"x": {Text: ""}, "l": {Symlink: "m"}, "m": {Symlink: "x"}}, says: "M l\n"},
		"files_027":                 {after: map[string]Entry{"x": {Text: "A\n"}}, says: "M x/\n"},
	}},
	{"What a file is moved onto must be absent or a file", map[string]outcome{
		"files_006": {exit: 1, before: true, says: "/dev/null: line 2: it cannot be written: it is a device"},
	}},
	{"A move keeps the mode", map[string]outcome{
		"files_000": {after: map[string]Entry{"y": {Text: "A\nb\n", Mode: "0755"}}, says: "M y\n"},
		"files_001": {after: map[string]Entry{"y": {Text: "A\nb\n", Mode: "0755"}}, says: "M y\nOverwritten: y"},
		"files_004": {after: map[string]Entry{"x": {Text: "1\n", Mode: "0644"}, "y": {Text: "A\nb\n", Mode: "0755"}}, says: "A x\nM y\n"},
	}},
	{"Overwriting by an Add or a Move is named", map[string]outcome{
		"add_overwrites_keeps_mode": {says: "A x\nOverwritten: x\n"},
		"add_through_symlink":       {says: "A l\nOverwritten: l\n"},
		"crlf_overwrite_by_add":     {says: "A x\nOverwritten: x\n"},
		"move_over_existing":        {says: "M y\nOverwritten: y\n"},
		"mixed_086":                 {says: "A l\nM x\nOverwritten: l\n"},
		"mixed_119":                 {says: "A l\nM x\nOverwritten: l\n"},
		"mixed_131":                 {says: "A x\nA x\nOverwritten: x\n"},
		"files_028":                 {says: "A x\nOverwritten: x\n"},
		"files_030":                 {says: "M y\nOverwritten: y\n"},
		"files_003":                 {says: "A x\nM x\nOverwritten: x\n"},
		"files_005":                 {says: "A n\nM x\nOverwritten: x\n"},
	}},
	{"Lines that are only added under \"@@ TEXT\" go behind TEXT", map[string]outcome{
		"update_only_additions_ctx": {after: map[string]Entry{"x": {Text: "a\nb\nf\nc\nd\ne\n"}}, says: "M x\n"},
		"lines_045":                 {after: map[string]Entry{"x": {Text: "a\nq\nb\nr\nc\n"}}, says: "M x\n"},
	}},
	{"Tabs stay in paths, and so do carriage returns", map[string]outcome{
		"parse_066": {after: map[string]Entry{"x": {Text: "a\nb\nc\n"}, "\ty": {Text: "1\n"}}, says: "A \ty\n"},
		"parse_102": {after: map[string]Entry{"x": {Text: "a\nb\nc\n"}, "y\rz": {Text: "1\n"}}, says: "A y\rz\n"},
	}},
	{"A link that leads nowhere can be deleted", map[string]outcome{
		"mixed_092": {after: map[string]Entry{}, says: "D l\n"},
		"mixed_093": {after: map[string]Entry{"l": {Text: "1\n"}}, says: "A l\nD l\n"},
		"mixed_094": {exit: 1, before: true, says: "x: line 3: it cannot be updated: there is no such file"},
	}},
	{"Only files and links can be deleted", map[string]outcome{
		"files_007": {exit: 1, before: true, says: "f: line 2: it cannot be deleted: it is a device, a pipe or a socket"},
	}},
	{"A path that led through a link which the patch has removed is refused", map[string]outcome{
		"mixed_121": {exit: 1, before: true, says: "l: line 3: it leads to $DIR/x, perhaps by the link $DIR/m, which the patch removes before"},
		"files_025": {exit: 1, before: true, says: "l/y: line 3: it cannot be written: $DIR/d/x is not a directory"},
	}},
}

// outcome is what comes out instead of what was observed.
type outcome struct {
	exit   int
	before bool             // nothing is changed
	after  map[string]Entry // nil: as observed
	says   string           // a part of what is written
}

// Try applies each patch in a directory of its own and compares what comes out. apply does what a program does that applies one patch.
func Try(t *testing.T, apply func(t *testing.T, dir, text string) (exit int, stdout, stderr string)) {
	t.Helper()
	umask := syscall.Umask(0o022) // as it was when they were observed
	t.Cleanup(func() { syscall.Umask(umask) })
	known := map[string]outcome{}
	for _, row := range Deliberate {
		maps.Copy(known, row.cases)
	}
	for _, c := range All(t) {
		wanted, deliberate := known[c.Name]
		delete(known, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			build(t, dir, c)
			in := func(text string) string { return strings.ReplaceAll(text, "$DIR", dir) }
			input := "$PATCH"
			switch {
			case len(c.Argv) == 2:
				input = c.Argv[1]
			case c.Stdin != nil:
				input = *c.Stdin
			}
			exit, stdout, stderr := apply(t, filepath.Join(dir, c.Cwd), in(strings.ReplaceAll(input, "$PATCH", string(c.Patch))))
			switch {
			case !deliberate:
				wanted = outcome{exit: c.Exit, after: c.After}
			case wanted.before:
				wanted.after = c.Before
			case wanted.after == nil:
				wanted.after = c.After
			}
			if exit != wanted.exit {
				t.Errorf("exit %d, want %d: %s", exit, wanted.exit, stderr)
			}
			compare(t, dir, wanted.after)
			switch {
			case deliberate:
				if !strings.Contains(stdout+stderr, in(wanted.says)) {
					t.Errorf("it says %q, want a text with %q", stdout+stderr, in(wanted.says))
				}
			case stdout != in(c.Stdout):
				t.Errorf("stdout is %q, want %q", stdout, in(c.Stdout))
			case exit == 1:
				for _, fact := range Facts(t, in(c.Stderr)) {
					if !strings.Contains(stderr, fact) {
						t.Errorf("the error %q does not name %q, as does %q", stderr, fact, c.Stderr)
					}
				}
			}
		})
	}
	for name := range known {
		t.Errorf("there is no case %s", name)
	}
}

// Table has a line for each case that comes out differently: the patch, what was seen, and what we do.
func Table(t testing.TB) string {
	var b strings.Builder
	seen := map[string]Case{}
	for _, c := range All(t) {
		seen[c.Name] = c
	}
	for _, row := range Deliberate {
		fmt.Fprintf(&b, "%s\n", row.Row)
		for _, name := range slices.Sorted(maps.Keys(row.cases)) {
			c, ours := seen[name], row.cases[name]
			fmt.Fprintf(&b, "  %-28s %q\n      seen: exit %d, %q\n      ours: exit %d, … %q …\n", name, c.Patch, c.Exit, c.Stdout+c.Stderr, ours.exit, ours.says)
		}
	}
	return b.String()
}

// messagesOf are the forms of the messages, and what is to be in ours for each. A number stands for a part of the form.
var messagesOf = []struct {
	form  string
	facts []string
}{
	{`^Invalid patch: The first line of the patch must be '(.*)'`, []string{"first line", "$1"}},
	{`^Invalid patch: The last line of the patch must be '(.*)'`, []string{"last line", "$1"}},
	{`^Invalid patch hunk on line (\d+): '(.*)' is not a valid hunk header`, []string{"line $1", "$2", "*** Add File: ", "*** Delete File: ", "*** Update File: "}},
	{`^Invalid patch hunk on line (\d+): Update file hunk for path '(.*)' is empty`, []string{"line $1", "$2", "empty"}},
	{`^Invalid patch hunk on line (\d+): Update hunk does not contain any lines`, []string{"line $1", "does not contain any lines"}},
	{`^Invalid patch hunk on line (\d+): Unexpected line found in update hunk: '(.*)'\. Every`, []string{"line $1", "$2", "' '", "'+'", "'-'"}},
	{`^Invalid patch hunk on line (\d+): Expected update hunk to start with a @@ context marker, got: '(.*)'`, []string{"line $1", "$2", "@@"}},
	{`^Failed to find context '(.*)' in (.*)`, []string{"$1", "$2"}},
	{`(?s)^Failed to find expected lines in ([^\n]*):\n(.*)`, []string{"$1", "$2"}},
	{`^Failed to read file to update (.*): No such file`, []string{"$1", "there is no such file"}},
	{"^Failed to read file to update (.*): path `.*` is not a file", []string{"$1", "not a file"}},
	{`^Failed to read file to update (.*)/y: Not a directory`, []string{"$1/y", "$1 is not a directory"}},
	{`^Failed to read file to update (.*): invalid utf-8 sequence of \d bytes from index (\d+)`, []string{"$1", "not UTF-8: byte $2"}},
	{`^Failed to (?:write|delete) file (.*)`, []string{"$1"}},
	{`^Failed to create parent directories for (.*)`, []string{"$1"}},
	{`^Invalid patch: apply_patch environment_id cannot be empty`, []string{"environment ID", "cannot be empty"}},
	{`^Invalid patch: apply_patch environment_id cannot be specified more than once`, []string{"environment ID", "more than once"}},
	{`^No files were modified`, []string{"no file would be changed"}},
	{`^'(?s:.*)' is invalid on 'linux'`, []string{"is no valid path", "NUL"}},
	{`^Error: apply_patch requires a UTF-8 PATCH`, []string{"not UTF-8"}},
}

// Facts are what an error has to name that is about the same.
func Facts(t *testing.T, stderr string) (all []string) {
	t.Helper()
	stderr = strings.TrimSuffix(stderr, "\n")
	for _, m := range messagesOf {
		form := regexp.MustCompile(m.form)
		match := form.FindStringSubmatchIndex(stderr)
		if match == nil {
			continue
		}
		for _, fact := range m.facts {
			for line := range strings.SplitSeq(string(form.ExpandString(nil, fact, stderr, match)), "\n") {
				all = append(all, strings.ReplaceAll(messages.Visible(line), `\t`, "\t")) // tabs are shown
			}
		}
		return all
	}
	t.Errorf("no form of a message fits %q", stderr)
	return nil
}

// build makes the files of a case.
func build(t *testing.T, dir string, c Case) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, e := range c.Before {
		path := filepath.Join(dir, name)
		check(os.MkdirAll(filepath.Dir(path), 0o777))
		switch {
		case e.Dir:
			check(os.MkdirAll(path, 0o777))
		case e.Symlink != "":
			check(os.Symlink(e.Symlink, path))
		case e.Fifo:
			check(syscall.Mkfifo(path, 0o666))
		default:
			check(os.WriteFile(path, e.data(), 0o666))
			if e.Mode != "" {
				check(os.Chmod(path, e.mode(t)))
			}
		}
		if c.StillLinked {
			check(os.Link(path, filepath.Join(dir, "y")))
		}
	}
}

func (e Entry) data() []byte {
	switch {
	case e.Generated: // 100,000 lines
		var b bytes.Buffer
		for i := range 100_000 {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.Bytes()
	case e.Base64 != nil:
		return e.Base64
	}
	return []byte(e.Text)
}

func (e Entry) mode(t *testing.T) fs.FileMode {
	mode, err := strconv.ParseUint(e.Mode, 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	return fs.FileMode(mode)
}

// compare checks that a directory has these entries, and no others. Only directories that are empty count.
func compare(t *testing.T, dir string, want map[string]Entry) {
	t.Helper()
	got := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		e, known := want[name]
		if d.IsDir() {
			if inside, _ := os.ReadDir(path); len(inside) > 0 {
				return nil
			}
		}
		got[name] = true
		switch {
		case !known:
			t.Errorf("there is %s", name)
		case d.IsDir() || e.Dir:
			if !d.IsDir() || !e.Dir {
				t.Errorf("%s: one is a directory, the other is not", name)
			}
		case d.Type() == fs.ModeNamedPipe || e.Fifo:
			if d.Type() != fs.ModeNamedPipe || !e.Fifo {
				t.Errorf("%s: one is a pipe, the other is not", name)
			}
		case d.Type() == fs.ModeSymlink || e.Symlink != "":
			if text, _ := os.Readlink(path); text != e.Symlink {
				t.Errorf("%s leads to %q, want %q", name, text, e.Symlink)
			}
		default:
			data, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			if sum := sha256.Sum256(data); e.Sha256 != "" && hex.EncodeToString(sum[:]) != e.Sha256 {
				t.Errorf("%s is another text, of %d bytes", name, len(data))
			} else if e.Sha256 == "" && !bytes.Equal(data, e.data()) {
				t.Errorf("%s is %q, want %q", name, data, e.data())
			}
			if info, _ := d.Info(); e.Mode != "" && info.Mode().Perm() != e.mode(t) {
				t.Errorf("%s has mode %v, want %v", name, info.Mode(), e.Mode)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if !got[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

// All reads what was observed.
func All(t testing.TB) (all []Case) {
	for _, name := range []string{"cases", "more"} {
		data, err := files.ReadFile("testdata/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var c Case
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			all = append(all, c)
		}
	}
	if len(all) < 400 {
		t.Fatalf("there are only %d cases", len(all))
	}
	return all
}
