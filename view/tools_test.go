package view

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The text of what tools print has all lines that say something, and at most half of the bytes in sum.
func TestTextOfTools(t *testing.T) {
	t.Parallel()
	raw, shown := 0, 0
	for _, name := range recordings(t, "tools", 20) {
		part := recording(t, name)[0]
		text := TextOf(part.output, part.size)
		raw, shown = raw+len(part.output), shown+len(text)
		base := strings.TrimSuffix(filepath.Base(name), ".out")
		t.Logf("%-15s %6d bytes, as text %6d, %5.1f %%", base, len(part.output), len(text), 100*float64(len(text))/float64(len(part.output)))
		list, err := os.ReadFile(strings.TrimSuffix(name, ".out") + ".lines")
		if err != nil || len(list) < 20 {
			t.Fatalf("%s has %d bytes of lines: %v", base, len(list), err)
		}
		rows := strings.Split(string(text), "\n")
		for row := range strings.Lines(string(list)) {
			if row = strings.TrimSuffix(row, "\n"); !slices.Contains(rows, row) {
				t.Errorf("the text of %s has no line %q", base, row)
			}
		}
	}
	t.Logf("%d bytes, as text %d, %.1f %%", raw, shown, 100*float64(shown)/float64(raw))
	if 2*shown > raw {
		t.Errorf("of %d bytes %d are left", raw, shown)
	}
}
