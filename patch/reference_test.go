package patch_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execbus/execbus/tests/patchcases"
)

// Lines that match one another under some comparison only, and lines that mean something in a patch.
var (
	someLines = strings.Split("|a|a|a|b|b|c| | a|a |\ta|  b  |“a”|\"a\"|a–b|a-b|a b|a\u00a0b|*** End of File|@@|+a|-b", "|")
	someEnds  = []string{"\n", "\n", "\n", "\n", "\r\n", "\r"}
	someWords = []string{"*** Begin Patch", "*** End Patch", "*** Add File: x", "*** Add File: d/n", "*** Delete File: x", "*** Delete File: y",
		"*** Update File: x", "*** Update File: y ", " *** Update File: x", "*** Move to: m", "*** Move to: y", "*** End of File", " *** End of File", "@@", "@@ ", "@@ a", "@@ b",
		"@@  a ", "@@a", "", "", " ", " a", " b", "-a", "-b", "+a", "+", "-", "\t", "x", "*** Environment ID: e", "\u00a0", "*** Add File:", "***", "+q\r"}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// someText is a file of a few lines.
func someText(r *rand.Rand) string {
	var b strings.Builder
	end := pick(r, someEnds)
	for range r.IntN(7) {
		b.WriteString(pick(r, someLines))
		if r.IntN(8) == 0 {
			b.WriteString(pick(r, someEnds))
		} else {
			b.WriteString(end)
		}
	}
	if r.IntN(4) == 0 {
		b.WriteString("last")
	}
	return b.String()
}

// somePatch is a patch that may be right: much of it is taken from the files.
func somePatch(r *rand.Rand, files map[string]string) string {
	lines := []string{"*** Begin Patch"}
	for range 1 + r.IntN(3) {
		name := pick(r, []string{"x", "x", "y", "n", "d/n"})
		switch r.IntN(6) {
		case 0:
			lines = append(lines, "*** Delete File: "+name)
		case 1:
			lines = append(lines, "*** Add File: "+name)
			for range r.IntN(3) {
				lines = append(lines, "+"+pick(r, someLines))
			}
		default:
			lines = append(lines, "*** Update File: "+name)
			if r.IntN(5) == 0 {
				lines = append(lines, "*** Move to: "+pick(r, []string{"m", "d/m"}))
			}
			lines = append(lines, someHunks(r, files[name])...)
		}
	}
	lines = append(lines, "*** End Patch")
	for range r.IntN(3) * r.IntN(2) { // and something is wrong
		switch at := 1 + r.IntN(len(lines)-1); r.IntN(3) {
		case 0:
			lines = slices.Insert(lines, at, pick(r, someWords))
		case 1:
			lines[at] = pick(r, someWords)
		default:
			lines = slices.Delete(lines, at, at+1)
		}
	}
	return strings.Join(lines, pick(r, []string{"\n", "\n", "\n", "\r\n"}))
}

// someHunks changes some of the lines of a text.
func someHunks(r *rand.Rand, text string) (lines []string) {
	all := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' })
	for at := 0; ; {
		lines = append(lines, pick(r, []string{"@@", "@@", "@@", "@@ a", "@@ b"}))
		before := len(lines)
		at += r.IntN(3)
		for n := r.IntN(4); n > 0 && at < len(all); n, at = n-1, at+1 {
			line := strings.TrimRight(all[at], "\r")
			if r.IntN(6) == 0 {
				line = strings.TrimSpace(line)
			}
			mark := pick(r, []string{" ", " ", "-"})
			if lines = append(lines, mark+line); mark == "-" && r.IntN(2) == 0 {
				lines = append(lines, "+"+pick(r, someLines))
			}
		}
		if r.IntN(4) == 0 {
			lines = append(lines, pick(r, []string{"", " ", "+", "-"}))
		}
		if r.IntN(4) == 0 || len(lines) == before {
			lines = append(lines, "+new")
		}
		if r.IntN(6) == 0 {
			lines = append(lines, "*** End of File")
		}
		if r.IntN(2) == 0 {
			return lines
		}
	}
}

// additionsOnly reports whether a patch adds lines behind a context and finds no others there, where we do something else.
func additionsOnly(text string) bool {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "@@ ") || strings.TrimSpace(line) == "@@" {
			continue
		}
		only, some := true, false
		for _, next := range lines[i+1:] {
			if next = strings.TrimRight(next, "\r"); strings.HasPrefix(next, "@@") || strings.HasPrefix(next, "***") {
				break
			}
			only, some = only && strings.HasPrefix(next, "+"), true
		}
		if only && some {
			return true
		}
	}
	return false
}

// The program apply_patch does the same to random patches, if there is one to ask. APPLY_PATCH_PROGRAM is its path, APPLY_PATCH_RUNS how
// many patches.
func TestRandomPatchesComeOutAsWithTheProgram(t *testing.T) {
	program := os.Getenv("APPLY_PATCH_PROGRAM")
	if program == "" {
		t.Skip("APPLY_PATCH_PROGRAM does not name a program apply_patch to compare with")
	}
	runs, _ := strconv.Atoi(os.Getenv("APPLY_PATCH_RUNS"))
	outcomes := map[int]int{}
	for seed := range uint64(max(runs, 1000)) {
		r := rand.New(rand.NewPCG(seed, 28))
		files := map[string]string{"x": someText(r), "y": someText(r)}
		text := somePatch(r, files)
		if additionsOnly(text) {
			continue
		}
		ours, theirs := t.TempDir(), t.TempDir()
		for name, content := range files {
			for _, dir := range []string{ours, theirs} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		exit, stdout, stderr := applied(ours, text)
		command := exec.Command(program)
		command.Dir, command.Stdin = theirs, strings.NewReader(text)
		var out, errs bytes.Buffer
		command.Stdout, command.Stderr = &out, &errs
		err := command.Run()
		if theirExit := command.ProcessState.ExitCode(); exit != theirExit {
			t.Fatalf("seed %d: exit %d, the program has %d: %s\nours: %s\npatch: %q\nfiles: %q", seed, exit, theirExit, errs.String(), stderr, text, files)
		}
		outcomes[exit]++
		if exit != 0 {
			if got := tree(t, ours); !maps.Equal(got, files) {
				t.Fatalf("seed %d: the patch failed and changed something: %q, before %q", seed, got, files)
			}
			for _, fact := range patchcases.Facts(t, strings.ReplaceAll(errs.String(), theirs, ours)) {
				if !strings.Contains(stderr, fact) {
					t.Fatalf("seed %d: the error is %q\nthe program has %q\npatch: %q\nfiles: %q", seed, stderr, errs.String(), text, files)
				}
			}
			continue
		}
		stdout = strings.Join(slices.DeleteFunc(strings.SplitAfter(stdout, "\n"), func(line string) bool { return strings.HasPrefix(line, "Overwritten: ") }), "")
		if got, want := fmt.Sprintf("%q", tree(t, ours)), fmt.Sprintf("%q", tree(t, theirs)); err != nil || got != want || stdout != out.String() {
			t.Fatalf("seed %d: %v\nours:   %s %q\ntheirs: %s %q\npatch: %q\nfiles: %q", seed, err, got, stdout, want, out.String(), text, files)
		}
	}
	t.Logf("exits: %v", outcomes)
}

// tree has the contents of the files in a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
