package patch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus/patch"
)

// Files that have several names, and links, as somebody who looked would describe them.
func TestFilesWithSeveralNames(t *testing.T) {
	same := patch.ID{Device: 1, Inode: 7}
	file := func(name, text string, id patch.ID) patch.File {
		return patch.File{Place: "/w/" + name, Leads: "/w/" + name, Kind: patch.Regular, Mode: 0o644, Data: []byte(text), ID: id}
	}
	hard := []patch.File{file("x", "a\nb\n", same), file("y", "a\nb\n", same)}
	unknown := []patch.File{file("x", "a\n", patch.ID{}), file("y", "a\n", patch.ID{})}
	loop := []patch.File{{Place: "/w/l", Leads: "/w/l", Link: "l", Kind: patch.Absent, Problem: "too many links"}}
	lost := []patch.File{{Place: "/w/l", Leads: "/w/l", Link: "no/../x", Kind: patch.Absent}}
	below := []patch.File{{Place: "/w/l", Leads: "/w/no", Link: "no", Kind: patch.Absent}, {Path: "/w/l/y", Place: "/w/no/y", Leads: "/w/no/y", Kind: patch.Absent, Blocked: "/w/l"}}
	for _, c := range []struct {
		files      []patch.File
		text, want string
	}{
		{hard, "*** Update File: x\n*** Move to: y\n-a\n+A", `/w/x="A\nb\n"`}, // both names stay
		{hard, "*** Update File: x\n-a\n*** Update File: y\n-b", `/w/x=""`},   // the second sees the first, and there is one file to write
		{hard, "*** Update File: x\n-a\n*** Update File: y\n+c\n*** Delete File: x", `/w/x gone /w/y="b\nc\n"`},
		{unknown, "*** Update File: x\n-a\n+A\n*** Update File: y\n-a\n+B", `/w/x="A\n" /w/y="B\n"`},
		{loop, "*** Add File: l\n+1", "line 2: too many links"},
		{loop, "*** Delete File: l\n*** Add File: l\n+1", `/w/l="1\n"`},
		{lost, "*** Add File: l\n+1", "line 2: it is a link that leads nowhere"},
		{lost, "*** Delete File: l", "/w/l gone"},
		{below, "*** Add File: l/y\n+1", "/w/l is not a directory"},
		{below, "*** Delete File: l\n*** Add File: l/y\n+1", "/w/l is not a directory"}, // where it would be is not known
	} {
		p, err := patch.Parse("*** Begin Patch\n" + c.text + "\n*** End Patch")
		if err != nil {
			t.Fatal(err)
		}
		files := inMemory(p, nil)
		for _, f := range c.files {
			if f.Path == "" {
				f.Path = f.Place
			}
			files[f.Path] = f
		}
		plan, err := p.Plan("/w", files)
		var got []string
		if err != nil {
			got = append(got, err.Error())
		} else {
			for _, change := range plan.Changes {
				if change.New == nil {
					got = append(got, change.Path+" gone")
				} else {
					got = append(got, fmt.Sprintf("%s=%q", change.Path, change.New.Data))
				}
			}
		}
		if text := strings.Join(got, " "); text != c.want && (err == nil || !strings.Contains(text, c.want)) {
			t.Errorf("%q: %s, want %s", c.text, text, c.want)
		}
	}
}
