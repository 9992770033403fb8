package view

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/execbus/execbus/messages"
)

// part is a part of a recording, with the size that the terminal has in it.
type part struct {
	size   messages.Size
	output []byte
}

// sizeMark stands in a recording where the size of the terminal has been changed.
var sizeMark = regexp.MustCompile(`\x1b\[8;(\d+);(\d+)t`)

// recording reads a recording.
func recording(t testing.TB, name string) (parts []part) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	marks := sizeMark.FindAllSubmatchIndex(data, -1)
	if len(marks) == 0 || marks[0][0] != 0 {
		t.Fatalf("%s does not begin with the size of the terminal", name)
	}
	for i, mark := range marks {
		end := len(data)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		rows, _ := strconv.Atoi(string(data[mark[2]:mark[3]]))
		cols, _ := strconv.Atoi(string(data[mark[4]:mark[5]]))
		parts = append(parts, part{messages.Size{Rows: uint16(rows), Cols: uint16(cols)}, data[mark[1]:end]})
	}
	return parts
}

// recordings finds the recordings in a directory of testdata.
func recordings(t testing.TB, dir string, least int) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", dir, "*.out"))
	if err != nil || len(names) < least {
		t.Fatalf("%d recordings, want %d at least: %v", len(names), least, err)
	}
	return names
}
