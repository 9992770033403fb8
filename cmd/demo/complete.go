package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus"
)

// mostShown bounds the list of completions.
const mostShown = 40

// complete completes the word before the cursor: a verb after a colon, a program at the start of a line, or else a file.
// others lists the possible completions if there are several.
func complete(line string, pos int, dir string) (completed string, at int, others string) {
	runes := []rune(line)
	before, after := string(runes[:pos]), string(runes[pos:])
	start := strings.LastIndexAny(before, " ;|&<>("+string(newlineMark)) + 1
	word := before[start:]
	var names []string
	switch first := strings.TrimLeft(before[:start], " ") == ""; {
	case first && strings.HasPrefix(word, ":"):
		for _, v := range verbs() {
			names = append(names, ":"+v.name+" ")
		}
	case first && !strings.Contains(word, "/") && word != "":
		names = programs(word)
	default:
		names = paths(word, dir)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return line, pos, ""
	}
	common := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	common = strings.ToValidUTF8(common, "")
	if len(names) > 1 && common == word {
		if len(names) > mostShown {
			names = append(names[:mostShown], "...")
		}
		others = execbus.CleanLine(strings.Join(names, "  "), false) + "\n"
	}
	whole := before[:start] + common
	return whole + after, len([]rune(whole)), others
}

// programs returns the programs on PATH.
func programs(word string) (names []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), word) {
				names = append(names, entry.Name()+" ")
			}
		}
	}
	return names
}

// paths returns files and directories, relative to the directory in which commands run. Names that would need quoting are left out.
func paths(word, here string) (names []string) {
	dir, _ := filepath.Split(word)
	look := dir
	if rest, home := strings.CutPrefix(dir, "~/"); home {
		look = filepath.Join(os.Getenv("HOME"), rest)
	} else if !filepath.IsAbs(dir) {
		look = filepath.Join(here, dir)
	}
	entries, _ := os.ReadDir(look)
	for _, entry := range entries {
		if strings.ContainsAny(entry.Name(), " \t\n'\"\\$`*?[]{}()<>|&;#!~") {
			continue
		}
		name := dir + entry.Name()
		if info, err := os.Stat(filepath.Join(look, entry.Name())); err == nil && info.IsDir() {
			name += "/"
		} else {
			name += " "
		}
		names = append(names, name)
	}
	return names
}
