package patch_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
)

// plan plans a patch for files in /w that are not on the disk.
func plan(contents map[string]string, text string) (*patch.Plan, error) {
	p, err := patch.Parse("*** Begin Patch\n" + text + "\n*** End Patch\n")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name, content := range contents {
		files["/w/"+name] = content
	}
	return p.Plan("/w", inMemory(p, files))
}

func mustPlan(t *testing.T, contents map[string]string, text string) *patch.Plan {
	t.Helper()
	got, err := plan(contents, text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// refused checks that an error refuses a patch and says something.
func refused(t *testing.T, err error, says string) {
	t.Helper()
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.ErrInvalidRequest || !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v, want one with %q", err, says)
	}
}

func TestPatchesBeyondTheBoundsAreRefused(t *testing.T) {
	begin, end := "*** Begin Patch\n", "*** End Patch"
	_, err := patch.Parse(begin + "*** Add File: x\n+" + strings.Repeat("x", patch.MaxPatch) + "\n" + end)
	refused(t, err, "at most 16777216")
	_, err = patch.Parse(begin + "*** Add File: x\n" + strings.Repeat("+\n", patch.MaxLines) + end)
	refused(t, err, "more than 1048576 lines")
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "*** Add File: %d\n", i)
		}
		return begin + b.String() + end
	}
	if _, err := patch.Parse(many(patch.MaxOperations)); err != nil {
		t.Error(err)
	}
	_, err = patch.Parse(many(patch.MaxOperations + 1))
	refused(t, err, "line 4098: it has more than 4096 operations")
	_, err = patch.Parse(begin + "*** Add File: \xff\n" + end)
	refused(t, err, "not UTF-8: byte 30")
}

func TestFilesBeyondTheBoundsAreRefused(t *testing.T) {
	huge := bytes.Repeat([]byte("x"), patch.MaxFile+1)
	try := func(text string, x []byte) error {
		p, err := patch.Parse("*** Begin Patch\n" + text + "\n*** End Patch")
		if err != nil {
			t.Fatal(err)
		}
		files := inMemory(p, map[string]string{"/w/y": "y\n"})
		for path, file := range files {
			if strings.HasPrefix(path, "/w/x") {
				file.Kind, file.Data = patch.Regular, x
				files[path] = file
			}
		}
		_, err = p.Plan("/w", files)
		return err
	}
	for _, text := range []string{"*** Update File: x\n@@\n+a", "*** Delete File: x", "*** Add File: x\n+a", "*** Update File: y\n*** Move to: x\n@@\n+a"} {
		err := try(text, huge)
		refused(t, err, "/w/x: line 2: it cannot be")
		refused(t, err, "it has more than 67108864 bytes")
	}
	refused(t, try("*** Update File: x\n@@\n+a", huge[1:]), "/w/x: line 2: it would have more than 67108864 bytes")
	refused(t, try("*** Delete File: x1\n*** Delete File: x2\n*** Delete File: x3\n*** Delete File: x4\n*** Delete File: x5", huge[1:]), "more than 268435456 bytes in all")
	if err := try("*** Delete File: x1\n*** Delete File: x2\n*** Delete File: x3\n*** Delete File: x4", huge[1:]); err != nil {
		t.Error(err)
	}
	refused(t, try("*** Update File: x\n@@\n+a", bytes.Repeat([]byte("\n"), patch.MaxFileLines+1)), "it has more than 4194304 lines")
	refused(t, try(strings.TrimSuffix(strings.Repeat("*** Update File: x\n@@\n+a\n", 17), "\n"), huge[:16<<20]), "the operations write more than 268435456 bytes in all")
}

// A patch may need any number of comparisons, but it does not get them.
func TestSearchIsBounded(t *testing.T) {
	file := strings.Repeat("a\n", 1<<18)
	_, err := plan(map[string]string{"x": file}, "*** Update File: x\n@@\n"+strings.Repeat("-a\n", 1<<12)+"-b")
	refused(t, err, "/w/x: line 3: to find its hunks takes too long; split the patch")
	if _, err := plan(map[string]string{"x": file + "b\n"}, "*** Update File: x\n@@\n-b\n+c"); err != nil {
		t.Error(err)
	}
}

func TestWhatNobodyLookedAtIsADefect(t *testing.T) {
	p, err := patch.Parse("*** Begin Patch\n*** Delete File: x\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	files := inMemory(p, nil)
	delete(files, "/w/x")
	if _, err := p.Plan("/w", files); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Error(err)
	}
	files["/w"] = patch.File{Kind: patch.Absent}
	_, err = p.Plan("/w", files)
	refused(t, err, "/w: the patch is for this directory, and there is none")
}

func TestProblemsAreCauses(t *testing.T) {
	for text, want := range map[string]string{
		"*** Delete File: x":                           "/w/x: line 2: it cannot be deleted: permission denied",
		"*** Add File: x":                              "/w/x: line 2: it cannot be written: permission denied",
		"*** Update File: x\n@@\n+a":                   "/w/x: line 2: it cannot be updated: permission denied",
		"*** Update File: y\n*** Move to: x\n@@\n+a\n": "/w/x: line 2: it cannot be written: permission denied",
	} {
		p, err := patch.Parse("*** Begin Patch\n" + text + "\n*** End Patch")
		if err != nil {
			t.Fatal(err)
		}
		files := inMemory(p, map[string]string{"/w/y": "a\n"})
		files["/w/x"] = patch.File{Path: "/w/x", Problem: "permission denied"}
		_, err = p.Plan("/w", files)
		refused(t, err, want)
	}
}

func TestPathsAreNamedOnce(t *testing.T) {
	p, err := patch.Parse("*** Begin Patch\n*** Add File: a//x\n*** Delete File: ./a/q/../x\n*** Update File: /w/y\n*** Move to: ../z\n+a\n*** Delete File: .\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(p.Paths("/w/"), " "); got != "/w /w/a/x /w/y /z" {
		t.Error(got)
	}
}

func TestOneOperationOnEachPath(t *testing.T) {
	for text, twice := range map[string]string{
		"*** Add File: x\n*** Delete File: y":                                  "",
		"*** Add File: x\n*** Delete File: ./x":                                "/w/x: line 3: more than one operation",
		"*** Update File: x\n*** Move to: y\n+a\n*** Add File: y":              "/w/y: line 5",
		"*** Update File: x\n*** Move to: y\n+a\n*** Add File: x":              "/w/x: line 5",
		"*** Update File: x\n*** Move to: x\n+a":                               "",
		"*** Update File: x\n+a\n*** Update File: y\n*** Move to: /w/x\n+a":    "/w/x: line 4",
		"*** Update File: x\n*** Move to: y\n+a\n*** Update File: z\n+a":       "",
		"*** Delete File: a\n*** Delete File: b\n*** Delete File: q/../../w/a": "/w/a: line 4",
	} {
		p, err := patch.Parse("*** Begin Patch\n" + text + "\n*** End Patch")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Single("/w"); twice == "" && err != nil {
			t.Errorf("%q: %v", text, err)
		} else if twice != "" {
			refused(t, err, twice)
		}
	}
}

// What is shown in an error is short, on lines of its own, and cannot be mistaken.
func TestErrorsShowWhatCanBeSeen(t *testing.T) {
	_, err := plan(map[string]string{"x": "a\n"}, "*** Update File: x\n@@\n-\x1b[2J\u202e"+strings.Repeat("ü", 10_000)+strings.Repeat("\n-a", 1000))
	refused(t, err, `\e[2J\u202eü`)
	if text := err.Error(); len(text) > 2000 || !strings.HasSuffix(text, "\na\n…") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	if i := strings.IndexFunc(err.Error(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q", err.Error()[i:])
	}
	_, err = plan(nil, "*** Delete File: \u202e\x1b")
	refused(t, err, `/w/\u202e\e: line 2`)
}

func TestChangesSayWhatWasAndWhatIs(t *testing.T) {
	describe := func(plan *patch.Plan) (all []string) {
		state := func(c *patch.Content) string {
			switch {
			case c == nil:
				return "nothing"
			case c.Created:
				return fmt.Sprintf("new %q", c.Data)
			}
			return fmt.Sprintf("%v %d %q", c.Mode, c.ID.Inode, c.Data)
		}
		for _, c := range plan.Changes {
			text := fmt.Sprintf("%s: %s, %s", c.Path, state(c.Old), state(c.New))
			if c.From != "" {
				text += " from " + c.From
			}
			if c.Overwrites {
				text += " over"
			}
			all = append(all, fmt.Sprintf("%s +%d -%d", text, c.Added, c.Removed))
		}
		return all
	}
	files := map[string]string{"x": "a\nb\nc\n", "y": "1\n2\n"}
	for text, want := range map[string][]string{
		"*** Add File: n\n+1\n+2":                                                        {`/w/n: nothing, new "1\n2\n" +2 -0`},
		"*** Add File: y\n+2\n+3":                                                        {`/w/y: -rw-r--r-- 1 "1\n2\n", -rw-r--r-- 0 "2\n3\n" over +2 -2`},
		"*** Delete File: y":                                                             {`/w/y: -rw-r--r-- 1 "1\n2\n", nothing +0 -2`},
		"*** Update File: x\n@@\n-a\n+A\n b\n c\n+d":                                     {`/w/x: -rw-r--r-- 1 "a\nb\nc\n", -rw-r--r-- 0 "A\nb\nc\nd\n" +2 -1`},
		"*** Update File: x\n@@\n a":                                                     {`/w/x: -rw-r--r-- 1 "a\nb\nc\n", -rw-r--r-- 0 "a\nb\nc\n" +0 -0`},
		"*** Update File: x\n-a\n*** Update File: x\n-c":                                 {`/w/x: -rw-r--r-- 1 "a\nb\nc\n", -rw-r--r-- 0 "b\n" +1 -3`},
		"*** Update File: x\n*** Move to: n\n-b":                                         {`/w/n: nothing, -rw-r--r-- 0 "a\nc\n" from /w/x +0 -1`, `/w/x: -rw-r--r-- 1 "a\nb\nc\n", nothing +0 -0`},
		"*** Update File: x\n*** Move to: y\n-b":                                         {`/w/y: -rw-r--r-- 2 "1\n2\n", -rw-r--r-- 0 "a\nc\n" from /w/x over +0 -3`, `/w/x: -rw-r--r-- 1 "a\nb\nc\n", nothing +0 -0`},
		"*** Add File: n\n+1\n*** Delete File: n":                                        nil,
		"*** Delete File: y\n*** Add File: y\n+2\n+3":                                    {`/w/y: -rw-r--r-- 1 "1\n2\n", new "2\n3\n" +2 -2`},
		"*** Delete File: y\n*** Update File: x\n*** Move to: y\n-b":                     {`/w/y: -rw-r--r-- 1 "1\n2\n", -rw-r--r-- 0 "a\nc\n" from /w/x +0 -3`, `/w/x: -rw-r--r-- 2 "a\nb\nc\n", nothing +0 -0`},
		"*** Add File: n\n+1\n*** Update File: n\n*** Move to: m\n+2":                    {`/w/m: nothing, new "1\n2\n" +2 -0`},
		"*** Update File: x\n*** Move to: n\n-b\n*** Update File: n\n*** Move to: m\n-a": {`/w/x: -rw-r--r-- 1 "a\nb\nc\n", nothing +0 -0`, `/w/m: nothing, -rw-r--r-- 0 "c\n" from /w/x +0 -2`},
		"*** Update File: x\n*** Move to: n\n-b\n*** Update File: n\n*** Move to: x\n a": {`/w/x: -rw-r--r-- 1 "a\nb\nc\n", -rw-r--r-- 0 "a\nc\n" +0 -1`},
		"*** Update File: x\n*** Move to: n\n-b\n*** Add File: x\n+q":                    {`/w/n: nothing, -rw-r--r-- 0 "a\nc\n" from /w/x +0 -1`, `/w/x: -rw-r--r-- 1 "a\nb\nc\n", new "q\n" +1 -3`},
		"*** Update File: x\n-b\n*** Delete File: x\n*** Delete File: y":                 {`/w/x: -rw-r--r-- 1 "a\nb\nc\n", nothing +0 -3`, `/w/y: -rw-r--r-- 2 "1\n2\n", nothing +0 -2`},
	} {
		if got := describe(mustPlan(t, files, text)); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
