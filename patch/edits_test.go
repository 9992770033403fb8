package patch_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/execbus/execbus/patch"
)

// edited is a text before and after an edit.
type edited struct{ old, now string }

// history has edits from the history of this repository.
func history(t *testing.T, most int) (all []edited) {
	t.Helper()
	git := func(input string, args ...string) []byte {
		command := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
		command.Stdin = strings.NewReader(input)
		out, err := command.Output()
		if err != nil {
			t.Logf("there are no edits from the history: git %s: %v", args[0], err)
		}
		return out
	}
	var names strings.Builder
	for line := range strings.Lines(string(git("", "log", "--raw", "--no-abbrev", "--no-renames", "--format=", "--diff-filter=M", "-n", strconv.Itoa(most)))) {
		if words := strings.Fields(line); len(words) > 4 {
			fmt.Fprintf(&names, "%s\n%s\n", words[2], words[3])
		}
	}
	if names.Len() == 0 {
		return nil
	}
	out := bufio.NewReader(bytes.NewReader(git(names.String(), "cat-file", "--batch")))
	var blobs []string
	for {
		head, err := out.ReadString('\n')
		if err == io.EOF {
			break
		}
		words := strings.Fields(head)
		if len(words) != 3 { // missing, in a shallow clone
			blobs = append(blobs, "\xff")
			continue
		}
		size, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatal(err)
		}
		blob := make([]byte, size+1)
		if _, err := io.ReadFull(out, blob); err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, string(blob[:size]))
	}
	for i := 0; i+1 < len(blobs); i += 2 {
		if e := (edited{blobs[i], blobs[i+1]}); utf8.ValidString(e.old) && utf8.ValidString(e.now) {
			all = append(all, e)
		}
	}
	return all
}

// fileLine is a line, split where files are.
var fileLine = regexp.MustCompile(`[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$`)

func splitLines(text string) []string { return fileLine.FindAllString(text, -1) }

func bareLine(line string) string { return strings.TrimRight(line, "\r\n") }

// step keeps a line (' '), removes it ('-') or adds one ('+').
type step struct {
	mark byte
	line string // without its end
}

// steps lead from one text to another.
func steps(old, now []string) (all []step) {
	add := func(mark byte, lines ...string) {
		for _, line := range lines {
			all = append(all, step{mark, bareLine(line)})
		}
	}
	same := func(a, b string) bool { return bareLine(a) == bareLine(b) }
	start := 0
	for start < len(old) && start < len(now) && same(old[start], now[start]) {
		start++
	}
	end := 0
	for end < len(old)-start && end < len(now)-start && same(old[len(old)-1-end], now[len(now)-1-end]) {
		end++
	}
	add(' ', old[:start]...)
	a, b := old[start:len(old)-end], now[start:len(now)-end]
	if len(a)*len(b) > 1<<14 {
		add('-', a...)
		add('+', b...)
	} else { // the longest common subsequence
		longest := make([][]int, len(a)+1)
		for i := range longest {
			longest[i] = make([]int, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if longest[i][j] = max(longest[i+1][j], longest[i][j+1]); same(a[i], b[j]) {
					longest[i][j] = longest[i+1][j+1] + 1
				}
			}
		}
		for i, j := 0, 0; i < len(a) || j < len(b); {
			switch {
			case i < len(a) && j < len(b) && same(a[i], b[j]):
				add(' ', a[i])
				i, j = i+1, j+1
			case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
				add('-', a[i])
				i++
			default:
				add('+', b[j])
				j++
			}
		}
	}
	add(' ', old[len(old)-end:]...)
	return all
}

// outcomeOf is what the language can make of the steps: lines that stay keep their ends, those that come get the first line's, and
// there is one at the end.
func outcomeOf(old []string, all []step) string {
	end := "\n"
	if len(old) > 0 && len(old[0]) > len(bareLine(old[0])) {
		end = old[0][len(bareLine(old[0])):]
	}
	var b strings.Builder
	at := 0
	for _, s := range all {
		switch s.mark {
		case ' ':
			line := old[at]
			if line == s.line { // the last one, without an end
				line += end
			}
			b.WriteString(line)
			at++
		case '-':
			at++
		default:
			b.WriteString(s.line + end)
		}
	}
	return b.String()
}

// hunksOf writes the steps as hunks, each of which is found where it is meant.
func hunksOf(r *rand.Rand, old []string, all []step) (lines []string) {
	bareOld := make([]string, len(old))
	for i, line := range old {
		bareOld[i] = bareLine(line)
	}
	first := func(block []string, from int) int { // where it is found
		for at := from; at+len(block) <= len(bareOld); at++ {
			if slices.Equal(bareOld[at:at+len(block)], block) {
				return at
			}
		}
		return -1
	}
	cursor, at := 0, 0 // in old
	for i := 0; i < len(all); {
		if all[i].mark == ' ' {
			i, at = i+1, at+1
			continue
		}
		// A group of changes that have no more than some lines between them.
		between := r.IntN(4)
		last, kept := i, 0
		for j := i; j < len(all) && kept <= between; j++ {
			if all[j].mark == ' ' {
				kept++
			} else {
				last, kept = j, 0
			}
		}
		group := all[i : last+1]
		size := 0 // lines of old in it
		for _, s := range group {
			if s.mark != '+' {
				size++
			}
		}
		before, after := min(r.IntN(4), at-cursor), min(r.IntN(4), len(old)-at-size)
		after = min(after, quiet(all[last+1:]))
		if size+before+after == 0 { // it would go to the end of the file
			before, after = min(1, at-cursor), min(1, quiet(all[last+1:]))
		}
		head := "@@"
		for before < at-cursor && first(bareOld[at-before:at+size+after], cursor) != at-before {
			before++ // up to the cursor, where it cannot be missed
		}
		if from := at - before; from > cursor && r.IntN(2) == 0 {
			if text := bareOld[cursor+r.IntN(from-cursor)]; strings.TrimSpace(text) != "" && text == strings.TrimSpace(text) {
				if found := first([]string{text}, cursor); found >= 0 && found < from && first(bareOld[from:at+size+after], found+1) == from && size+before+after > 0 {
					head = "@@ " + text
				}
			}
		}
		lines = append(lines, head)
		for _, line := range bareOld[at-before : at] {
			lines = append(lines, " "+line)
		}
		for _, s := range group {
			lines = append(lines, string(s.mark)+s.line)
		}
		for _, line := range bareOld[at+size : at+size+after] {
			lines = append(lines, " "+line)
		}
		if at+size+after == len(old) && r.IntN(2) == 0 {
			lines = append(lines, "*** End of File")
		}
		at += size
		cursor, i = at+after, last+1
		for range after {
			i, at = i+1, at+1
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "@@")
		if len(old) == 0 {
			return append(lines, "") // a blank line that is too many
		}
		return append(lines, " "+bareOld[0])
	}
	return lines
}

// quiet counts the steps before the next change.
func quiet(all []step) int {
	if i := slices.IndexFunc(all, func(s step) bool { return s.mark != ' ' }); i >= 0 {
		return i
	}
	return len(all)
}

// altered is an edit of a text that looks like another file.
func altered(r *rand.Rand, e edited) edited {
	both := func(change func(string) string) { e.old, e.now = change(e.old), change(e.now) }
	if r.IntN(3) == 0 {
		crlf := strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n")
		both(crlf.Replace)
	}
	if r.IntN(4) == 0 {
		both(func(text string) string { return strings.TrimRight(text, "\r\n") })
	}
	if r.IntN(6) == 0 {
		long := strings.Repeat("long äöü “x” — 𝄞 ", 2000) + "\n"
		both(func(text string) string { return text + long + text })
	}
	if r.IntN(6) == 0 {
		both(func(text string) string { return "\ufeff" + text + "\u2028\u0085\v\f\n" })
	}
	if lines := splitLines(e.now); r.IntN(2) == 0 { // more changes, some of lines that are there more than once
		for range r.IntN(6) {
			at := r.IntN(len(lines) + 1)
			if r.IntN(2) == 0 && at < len(lines) {
				lines = slices.Delete(lines, at, at+1)
			} else if len(lines) > 0 && strings.HasSuffix(pick(r, lines), "\n") {
				lines = slices.Insert(lines, at, pick(r, lines))
			} else {
				lines = slices.Insert(lines, at, "}\n")
			}
		}
		e.now = strings.Join(lines, "")
	}
	return e
}

// generated are edits of texts that were made up.
func generated(r *rand.Rand) edited {
	var old strings.Builder
	for range r.IntN(60) {
		old.WriteString(pick(r, []string{"", "", "}", "\t}", "if x {", "  return", "a", "b", "naïve “quotes”", "日本語", "e\u0301", strconv.Itoa(r.IntN(30))}) + pick(r, []string{"\n", "\n", "\n", "\n", "\r\n", "\r"}))
	}
	return altered(r, edited{old.String(), old.String()})
}

// PATCH_EDITS says how many edits of trees are tried.
func TestEditsOfTrees(t *testing.T) {
	edits := 40
	if n, err := strconv.Atoi(os.Getenv("PATCH_EDITS")); err == nil {
		edits = n
	}
	real := history(t, 2*edits)
	t.Logf("%d edits are from the history", len(real))
	for seed := range uint64(edits) {
		r := rand.New(rand.NewPCG(seed, 1))
		before, after, lines := map[string]string{}, map[string]string{}, []string{"*** Begin Patch"}
		for i := range 1 + r.IntN(4) {
			e := generated(r)
			if len(real) > 0 && r.IntN(4) > 0 {
				e = altered(r, pick(r, real))
			}
			name := fmt.Sprintf("d%d/file %d", r.IntN(3), i)
			switch before["/w/"+name] = e.old; r.IntN(8) {
			case 0:
				lines = append(lines, "*** Delete File: "+name)
			case 1: // over the other
				lines, after["/w/"+name] = append(lines, "*** Add File: "+name), ""
				for _, line := range splitLines(e.now) {
					lines = append(lines, "+"+bareLine(line))
					after["/w/"+name] += bareLine(line) + "\n"
				}
			default:
				old := splitLines(e.old)
				way := steps(old, splitLines(e.now))
				lines = append(lines, "*** Update File: "+name)
				if r.IntN(4) == 0 {
					name = "moved/" + name
					lines = append(lines, "*** Move to: "+name)
				}
				lines = append(lines, hunksOf(r, old, way)...)
				after["/w/"+name] = outcomeOf(old, way)
				if plainText(e.old) && plainText(e.now) && after["/w/"+name] != e.now {
					t.Fatalf("seed %d: the test is wrong", seed)
				}
			}
		}
		text := strings.Join(append(lines, "*** End Patch", ""), pick(r, []string{"\n", "\n", "\r\n"}))
		p, err := patch.Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		plan, err := p.Plan("/w", inMemory(p, before))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		got := maps.Clone(before)
		for _, change := range plan.Changes {
			if change.Old == nil != (before[change.Path] == "" && !has(before, change.Path)) || change.Old != nil && string(change.Old.Data) != before[change.Path] {
				t.Fatalf("seed %d: %s was something else", seed, change.Path)
			}
			if delete(got, change.Path); change.New != nil {
				got[change.Path] = string(change.New.Data)
			}
		}
		if !maps.Equal(got, after) {
			for name := range after {
				if got[name] != after[name] {
					t.Errorf("seed %d: %s is\n%q, want\n%q, was\n%q", seed, name, got[name], after[name], before[name])
				}
			}
			t.Fatalf("seed %d: the trees differ\n%q", seed, text)
		}
	}
}

func has(files map[string]string, name string) bool { _, found := files[name]; return found }

// plainText reports whether the language can make any such text from any other.
func plainText(text string) bool {
	return !strings.Contains(text, "\r") && (text == "" || strings.HasSuffix(text, "\n"))
}

// inMemory is what a look at some files would find, of which there is nothing on the disk.
func inMemory(p *patch.Patch, contents map[string]string) map[string]patch.File {
	files := map[string]patch.File{}
	for i, path := range p.Paths("/w") {
		file := patch.File{Path: path, Place: path, Leads: path, Kind: patch.Absent}
		if content, found := contents[path]; found {
			file.Kind, file.Mode, file.Data, file.ID = patch.Regular, 0o644, []byte(content), patch.ID{Device: 1, Inode: uint64(i)}
		} else if i == 0 {
			file.Kind = patch.Directory
		}
		files[path] = file
	}
	return files
}

// git apply makes the same of the same change, where both languages can say it.
func TestEditsAgreeWithGitApply(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git to compare with")
	}
	edits := 20
	if n, err := strconv.Atoi(os.Getenv("PATCH_EDITS")); err == nil {
		edits = n / 10
	}
	real := history(t, 2*edits)
	compared := 0
	for seed := range uint64(edits) {
		r := rand.New(rand.NewPCG(seed, 2))
		e := generated(r)
		if len(real) > 0 && r.IntN(4) > 0 {
			e = pick(r, real)
		}
		unix := strings.NewReplacer("\r\n", "\n", "\r", "\n")
		e = edited{unix.Replace(e.old + "\n"), unix.Replace(e.now + "\n")}
		if seed == 0 {
			e = edited{"a\nb\n", "a\nc\n"}
		}
		if e.old == e.now {
			continue
		}
		dir := t.TempDir()
		for name, text := range map[string]string{"f": e.old, "g": e.now} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		diff := exec.Command("git", "diff", "--no-index", "--no-color", "--no-ext-diff", "--text", "f", "g")
		diff.Dir, diff.Env = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		unified, _ := diff.Output() // 1, as they differ
		apply := exec.Command("git", "apply", "-p1", "--whitespace=nowarn")
		apply.Dir, apply.Env = dir, diff.Env
		apply.Stdin = strings.NewReader(strings.NewReplacer("b/g\n", "b/f\n").Replace(string(unified)))
		if out, err := apply.CombinedOutput(); err != nil {
			t.Fatalf("seed %d: git apply: %v: %s\n%s", seed, err, out, unified)
		}
		theirs, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		old := splitLines(e.old)
		lines := append([]string{"*** Begin Patch", "*** Update File: f"}, hunksOf(r, old, steps(old, splitLines(e.now)))...)
		p, err := patch.Parse(strings.Join(append(lines, "*** End Patch"), "\n"))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Plan("/w", inMemory(p, map[string]string{"/w/f": e.old}))
		if err != nil || string(plan.Changes[0].New.Data) != string(theirs) {
			t.Fatalf("seed %d: %v: git makes something else of it", seed, err)
		}
		compared++
	}
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
	t.Logf("%d edits agree", compared)
}
