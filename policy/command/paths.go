package command

import (
	"path"
	"slices"
	"strings"
)

var (
	// readsNothing are the safe programs that read no file, with any words.
	readsNothing = wordSet(`date echo expr false id pwd seq tr true uname which whoami`)
	// readsBelow are those that read whole directories.
	readsBelow = wordSet(`diff find grep rg` + onLinux(` du`))

	kernelDirs = []string{"proc", "sys", "dev"}
)

// Files are the words of a safe command that may name files, each absolute or relative to the command's directory.
func Files(words []string) (files []string) {
	if len(words) == 0 {
		return nil
	}
	name, known := safeName(words[0])
	if !known || readsNothing[name] || !safeAlways[name] && safeSome[name] == nil && safeConfined[name] == nil {
		return nil
	}
	if readsBelow[name] {
		files = append(files, ".")
	}
	for _, word := range words[1:] {
		files = append(files, filesIn(word)...)
	}
	return files
}

// At is the path that a file has for a command in a directory.
func At(dir, file string) string {
	if strings.HasPrefix(file, "/") {
		return file
	}
	return strings.TrimSuffix(dir, "/") + "/" + file
}

// elsewhere reports whether a file may lead below one of the kernel's directories, or to no file at all, by way of links.
func (at Setting) elsewhere(file string, below bool) bool {
	if at.Leads == nil || file == "" || file == "/dev/null" {
		return false
	}
	real := at.Leads(At(at.Dir, file))
	return real == "" || strings.HasPrefix(file, "~") || inKernelDir(strings.TrimPrefix(real, "/")) || below && real == "/"
}

// kernelFiles reports whether the words of a program may lead to files under /proc, /sys or /dev. It reports too much rather than
// too little.
func (at Setting) kernelFiles(program string, words []string) bool {
	if readsBelow[program] && at.Dir != "" && (at.leads(".", true) || at.elsewhere(".", true)) {
		return true
	}
	return slices.ContainsFunc(words, func(word string) bool {
		for _, file := range filesIn(word) {
			if at.leads(file, readsBelow[program]) || at.elsewhere(file, readsBelow[program]) {
				return true
			}
		}
		return false
	})
}

// filesIn are the parts of a word that may be the name of a file: the word itself, and the value of an option.
func filesIn(word string) []string {
	files := []string{word}
	if _, value, found := strings.Cut(word, "="); found {
		files = append(files, value)
	}
	if strings.HasPrefix(word, "-") {
		if slash := strings.IndexAny(word, "/."); slash >= 0 {
			files = append(files, word[slash:])
		}
		files = append(files, word[min(2, len(word)):])
	}
	return files
}

// leads reports whether a path may lead below one of the kernel's directories. If everything below the path is read, it
// also reports whether the path is a directory that contains one of them.
func (at Setting) leads(file string, below bool) bool {
	if file == "/dev/null" {
		return false
	}
	for _, rest := range strings.Split(file, "../")[1:] { // behind a link, ".." may be the root
		if inKernelDir(rest) {
			return true
		}
	}
	if strings.HasPrefix(file, "~") {
		_, rest, _ := strings.Cut(file, "/")
		file = "../" + rest // a home may lie anywhere
	}
	if at.Dir != "" && !strings.HasPrefix(file, "/") && inKernelDir(strings.TrimPrefix(path.Join(at.Dir, file), "/")) {
		return true
	}
	clean := path.Clean(file)
	absolute := strings.HasPrefix(clean, "/")
	if below && (clean == "/" || at.Dir != "" && !absolute && path.Join(at.Dir, clean) == "/") {
		return true
	}
	rest := strings.TrimPrefix(clean, "/")
	for strings.HasPrefix(rest, "../") {
		absolute, rest = true, rest[len("../"):] // with enough ".." it is at the root
	}
	if absolute {
		return inKernelDir(rest)
	}
	first, _, more := strings.Cut(rest, "/")
	return more && (at.Dir == "" || first != "dev") && slices.Contains(kernelDirs, first) // the working directory may be the root
}

// inKernelDir reports whether a path from the root begins with one of the kernel's directories, or with a pattern that may
// match one.
func inKernelDir(rest string) bool {
	first, _, _ := strings.Cut(rest, "/")
	return slices.ContainsFunc(kernelDirs, func(dir string) bool {
		matches, err := path.Match(first, dir)
		return matches || err != nil
	})
}

// maxDirs bounds the directories that one script may be in.
const maxDirs = 16

// Moved are the directories in which a script may be after a command, given those before it: a cd may change each of
// them, fail, or be skipped. An unknown directory, or one too many, becomes one in which no relative path is safe.
func Moved(dirs []string, words []string) []string {
	if len(words) == 0 || words[0] != "cd" {
		return dirs
	}
	args, physical := words[1:], slices.Contains(words, "-P")
	for len(args) > 0 && (args[0] == "-P" || args[0] == "-L" || args[0] == "--") {
		args = args[1:]
	}
	to := "~"
	if len(args) > 0 {
		to = args[0]
	}
	moved := slices.Clip(dirs)
	for _, dir := range dirs {
		switch {
		case len(args) > 1 || len(moved) >= maxDirs || physical && strings.Contains(to, ".."): // zsh has a cd of two words
			dir = "/" + kernelDirs[0]
		case strings.HasPrefix(to, "~"):
			_, rest, _ := strings.Cut(to, "/")
			dir = path.Join("/home", rest) // a real one may lie deeper, and is then farther from the root
		case strings.HasPrefix(to, "/"):
			dir = path.Clean(to)
		default: // after "-" it is in a directory that is known already
			dir = path.Join("/", dir, to)
		}
		if !slices.Contains(moved, dir) {
			moved = append(moved, dir)
		}
	}
	return moved
}
