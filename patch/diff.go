package patch

import (
	"fmt"
	"slices"
	"strings"
)

// nothing stands for the file before it was added, and after it was deleted.
const nothing = "/dev/null"

const (
	around   = 3    // lines that a diff shows before and after a change
	maxShown = 2000 // bytes of a line in a diff
)

// difference is how the change of one file is shown.
type difference struct {
	from, to string
	base     []byte
	edits    []edit
}

// replaced is the difference to another text: all between the lines that both begin with and those that both end with.
func (d difference) replaced(by []byte) difference {
	old, now := newDocument(d.base, nil).lines, newDocument(by, nil).lines
	start, end := 0, 0
	most := min(len(old), len(now))
	for start < most && old[start] == now[start] {
		start++
	}
	for end < most-start && old[len(old)-1-end] == now[len(now)-1-end] {
		end++
	}
	change := edit{at: start, removed: len(old) - start - end}
	for _, line := range now[start : len(now)-end] {
		change.added = append(change.added, content(line))
	}
	if change.removed > 0 || len(change.added) > 0 {
		d.edits = []edit{change}
	}
	return d
}

// diffLine is a line of a unified diff.
type diffLine struct{ mark, text string }

// lines are the lines of the unified diff.
func (d *difference) lines() (all []diffLine) {
	all = append(all, diffLine{"--- ", d.from}, diffLine{"+++ ", d.to})
	lines := newDocument(d.base, nil).lines
	show := func(mark string, from, to int) {
		for _, line := range lines[from:to] {
			all = append(all, diffLine{mark, content(line)})
		}
	}
	shift := 0 // by which the lines are further down after the edits so far
	for rest := d.edits; len(rest) > 0; {
		n := 1 // edits that are shown together
		for n < len(rest) && rest[n].at-rest[n-1].at-rest[n-1].removed <= 2*around {
			n++
		}
		next := max(0, rest[0].at-around)
		last := min(len(lines), rest[n-1].at+rest[n-1].removed+around)
		added, removed := 0, 0
		for _, edit := range rest[:n] {
			added, removed = added+len(edit.added), removed+edit.removed
		}
		all = append(all, diffLine{"@@ ", fmt.Sprintf("-%s +%s @@", extent(next, last-next), extent(next+shift, last-next-removed+added))})
		for _, edit := range rest[:n] {
			show(" ", next, edit.at)
			next = edit.at + edit.removed
			show("-", edit.at, next)
			for _, line := range edit.added {
				all = append(all, diffLine{"+", line})
			}
		}
		show(" ", next, last)
		shift += added - removed
		rest = rest[n:]
	}
	return all
}

// extent says which lines a part of a diff is about. If there are none, it is behind the line that is named.
func extent(from, lines int) string {
	if lines == 0 {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, lines)
}

// String is the line as it is shown.
func (l diffLine) String() string { return l.mark + visible(clip(l.text, maxShown)) + "\n" }

// Diff shows the changes to a person: unified, at most limit bytes with the middle cut, and nothing in it that cannot be seen.
func (p *Plan) Diff(limit int) string {
	var lines []diffLine
	total := 0
	for _, d := range p.differences {
		part := d.lines()
		total += len(part)
		lines = append(lines, part...)
		if excess := len(lines) - 2*limit; excess > 0 { // more than can be shown
			lines = slices.Delete(lines, limit, limit+excess)
		}
	}
	// Half of the room is for the lines from the front, the rest for those from the back.
	room := limit - len(cutMark(total))
	if room < 0 {
		return ""
	}
	var head, tail []string
	for len(head) < len(lines) {
		line := lines[len(head)].String()
		if room -= len(line); room < limit/2 {
			room += len(line)
			break
		}
		head = append(head, line)
	}
	for len(head)+len(tail) < len(lines) {
		line := lines[len(lines)-1-len(tail)].String()
		if room -= len(line); room < 0 {
			break
		}
		tail = append(tail, line)
	}
	slices.Reverse(tail)
	cut := ""
	if hidden := total - len(head) - len(tail); hidden > 0 {
		cut = cutMark(hidden)
	}
	return strings.Join(head, "") + cut + strings.Join(tail, "")
}

func cutMark(lines int) string { return fmt.Sprintf("… %d lines are not shown …\n", lines) }
