package patch_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/execbus/execbus/patch"
)

func TestDiffIsUnified(t *testing.T) {
	var numbers strings.Builder
	for i := range 40 {
		fmt.Fprintf(&numbers, "%d\n", i+1)
	}
	files := map[string]string{"x": numbers.String(), "y": "old\nlines\n", "crlf": "a\r\nb\r\nc", "tabs": "\tif x {\n\t\ty()\n"}
	for text, want := range map[string]string{
		"*** Add File: n\n+1\n+2":           "--- /dev/null\n+++ /w/n\n@@ -0,0 +1,2 @@\n+1\n+2\n",
		"*** Add File: n":                   "--- /dev/null\n+++ /w/n\n",
		"*** Delete File: y":                "--- /w/y\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-old\n-lines\n",
		"*** Add File: y\n+new\n+lines":     "--- /w/y\n+++ /w/y\n@@ -1,2 +1,2 @@\n-old\n+new\n lines\n",
		"*** Update File: x\n@@\n-9\n+nine": "--- /w/x\n+++ /w/x\n@@ -6,7 +6,7 @@\n 6\n 7\n 8\n-9\n+nine\n 10\n 11\n 12\n",
		"*** Update File: x\n@@\n-9\n@@\n-16\n+a\n+b\n@@\n-24\n@@ 30\n+q": "--- /w/x\n+++ /w/x\n@@ -6,14 +6,14 @@\n 6\n 7\n 8\n-9\n 10\n 11\n 12\n 13\n 14\n 15\n-16\n+a\n+b\n 17\n 18\n 19\n" +
			"@@ -21,13 +21,13 @@\n 21\n 22\n 23\n-24\n 25\n 26\n 27\n 28\n 29\n 30\n+q\n 31\n 32\n 33\n",
		"*** Update File: x\n@@\n-1\n@@\n+41":                  "--- /w/x\n+++ /w/x\n@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -38,3 +37,4 @@\n 38\n 39\n 40\n+41\n",
		"*** Update File: x\n@@\n 1":                           "--- /w/x\n+++ /w/x\n",
		"*** Update File: y\n*** Move to: n\n-old\n+new":       "--- /w/y\n+++ /w/n\n@@ -1,2 +1,2 @@\n-old\n+new\n lines\n",
		"*** Update File: y\n*** Move to: crlf\n-old\n+new":    "--- /w/crlf\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-a\n-b\n-c\n--- /w/y\n+++ /w/crlf\n@@ -1,2 +1,2 @@\n-old\n+new\n lines\n",
		"*** Update File: crlf\n-b\n+B":                        "--- /w/crlf\n+++ /w/crlf\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
		"*** Update File: tabs\n \tif x {\n+\tz()":             "--- /w/tabs\n+++ /w/tabs\n@@ -1,2 +1,3 @@\n \tif x {\n+\tz()\n \t\ty()\n",
		"*** Update File: y\n-old\n*** Update File: y\n-lines": "--- /w/y\n+++ /w/y\n@@ -1,2 +0,0 @@\n-old\n-lines\n",
		"*** Add File: n\n+a\u202eb\x1b[0m\u200b\r\n+ü":        "--- /dev/null\n+++ /w/n\n@@ -0,0 +1,2 @@\n+a\\u202eb\\e[0m\\u200b\n+ü\n",
		"*** Add File: n\u202e\x1b[31m":                        "--- /dev/null\n+++ /w/n\\u202e\\e[31m\n",
		"*** Add File: n\n+1\n*** Delete File: n":              "",
		"*** Delete File: y\n*** Update File: x\n-1\n+one":     "--- /w/y\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-old\n-lines\n--- /w/x\n+++ /w/x\n@@ -1,4 +1,4 @@\n-1\n+one\n 2\n 3\n 4\n",
	} {
		if got := mustPlan(t, files, text).Diff(1 << 20); got != want {
			t.Errorf("%q: the diff is\n%swant\n%s", text, got, want)
		}
	}
}

func TestDiffIsCutInTheMiddle(t *testing.T) {
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "\n+line %d ü\u202e", i)
	}
	plan := mustPlan(t, map[string]string{"x": "first\n"}, "*** Delete File: x\n*** Add File: n"+many.String()+"\n+"+strings.Repeat("long", 1<<20)+"\n*** Add File: last\n+end")
	whole := plan.Diff(1 << 20)
	for limit := 0; limit < 3000; limit += 41 {
		got := plan.Diff(limit)
		if len(got) > limit || !utf8.ValidString(got) || limit > 200 && (!strings.HasPrefix(got, "--- /w/x\n") || !strings.HasSuffix(got, "+end\n")) {
			t.Fatalf("limit %d: %d bytes: %q", limit, len(got), got)
		}
		head, rest, cut := strings.Cut(got, "… ")
		number, tail, _ := strings.Cut(rest, " lines are not shown …\n")
		if got == "" {
			continue
		}
		hidden := 0
		if _, err := fmt.Sscan(number, &hidden); !cut || err != nil || strings.Count(head+tail, "\n")+hidden != strings.Count(whole, "\n") {
			t.Fatalf("limit %d: %d lines, %d hidden, of %d: %q", limit, strings.Count(head+tail, "\n"), hidden, strings.Count(whole, "\n"), got)
		}
	}
	if !strings.Contains(whole, " bytes …]") || strings.Contains(whole, "are not shown") || len(whole) > 1<<18 {
		t.Errorf("%d bytes", len(whole))
	}
}

func TestDiffOfAnythingCanBeSeen(t *testing.T) {
	var all strings.Builder
	for r := range rune(0x3000) {
		if r != '\n' && r != '\r' && r != '\t' {
			all.WriteRune(r)
		}
		if r%64 == 0 {
			all.WriteString("\n+")
		}
	}
	got := mustPlan(t, map[string]string{"binary": "\x00\xff\xfe\n"}, "*** Delete File: binary\n*** Add File: n\n+"+all.String()).Diff(1 << 20)
	if !strings.Contains(got, "-\\x00\\xff\\xfe\n") {
		t.Errorf("%q", got[:200])
	}
	for _, r := range got {
		if r != '\n' && !unicode.IsPrint(r) || unicode.In(r, unicode.Bidi_Control, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point) {
			t.Errorf("there is %U in it", r)
		}
	}
}

func TestDiffOfLinks(t *testing.T) {
	p, err := patch.Parse("*** Begin Patch\n*** Delete File: l\n*** End Patch")
	if err != nil {
		t.Fatal(err)
	}
	files := inMemory(p, nil)
	files["/w/l"] = patch.File{Path: "/w/l", Place: "/w/l", Leads: "/w/t", Link: "t", Kind: patch.Regular, Data: []byte("text\n")}
	plan, err := p.Plan("/w", files)
	if err != nil || plan.Diff(1000) != "--- /w/l\n+++ /dev/null\n" || len(plan.Changes) != 1 || plan.Changes[0].Old.Link != "t" || plan.Changes[0].Removed != 0 {
		t.Errorf("%v %+v", err, plan)
	}
}
