package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/policy/command"
)

// maxNames bounds how many names of one script are looked for.
const maxNames = 64

// Names are the names in a request's script that its shell will look for in PATH; Request.Found should have an entry
// for each. There are none if the script is not understood, because names do not matter then.
func Names(request Request, trustedShells []string) []string {
	u := command.Understand(request.line(trustedShells))
	if !u.Script || !u.Plain && !u.Complex {
		return nil
	}
	var names []string
	for _, words := range u.Commands {
		name := words[0]
		if !strings.Contains(name, "/") && !command.Builtin(name) && !slices.Contains(names, name) && len(names) < maxNames {
			names = append(names, name)
		}
	}
	return names
}

// maxFiles bounds how many paths of one command line are looked up. A command with more is not known to be safe.
const maxFiles = 256

// Files are the paths that a request's commands may read if they are known to be safe; Request.Leads should have an entry for each.
func Files(request Request, trustedShells []string) []string {
	u := command.Understand(request.line(trustedShells))
	if !u.Plain {
		return nil
	}
	var files []string
	dirs := []string{request.Dir}
	for _, words := range u.Commands {
		for _, file := range command.Files(words) {
			for _, dir := range dirs {
				if path := command.At(dir, file); len(files) < maxFiles && !slices.Contains(files, path) {
					files = append(files, path)
				}
			}
		}
		if u.Script {
			dirs = command.Moved(dirs, words)
		}
	}
	return files
}

func (r Request) line(trustedShells []string) command.Line {
	return command.Line{Argv: r.Argv, Program: r.Program, TrustedShells: trustedShells}
}

// invoked is one command with the name that it is judged by: the name of its program, or the path of a program that is not
// the system's own. A program that was not found has a path that no program has.
type invoked struct {
	words   []string
	written []string // the words as the request has them, if words begins with the path instead; nil otherwise
	nowhere bool
}

// invocations are the commands with the names that they are judged by.
func (m *maker) invocations() []invoked {
	if !m.understood.Script {
		return []invoked{m.known(m.request.Argv, m.request.Program)}
	}
	open := m.openDirs()
	var all []invoked
	for _, words := range m.understood.Commands {
		program := ""
		if opaque := !m.understood.Plain && !m.understood.Complex; !opaque && m.request.Found != nil && !strings.Contains(words[0], "/") &&
			!command.Builtin(words[0]) {
			program = tidyProgram(m.request.Found[words[0]])
			if program == "" || shadowed(m.request.Path, filepath.Dir(program), open) {
				program = NotFound
			}
		}
		all = append(all, m.known(words, program))
	}
	return all
}

// known is a command whose program was found at a path; an empty path means that there was no lookup.
func (m *maker) known(words []string, program string) invoked {
	if program == "" || command.InSystemDir(program) {
		return invoked{words: words}
	}
	if len(words) == 0 {
		return invoked{nowhere: true}
	}
	known := invoked{written: words, nowhere: program == NotFound}
	if known.nowhere {
		program += "/" + words[0]
	}
	known.words = append([]string{program}, words[1:]...)
	return known
}

// tidyProgram is a path without irrelevant differences, or NotFound for a text that is not a path. An empty one stays
// empty.
func tidyProgram(program string) string {
	switch {
	case filepath.IsAbs(program):
		return tidy(program) // a PATH may say /usr/bin/
	case program != "":
		return NotFound
	}
	return ""
}

// openDirs are the directories that commands may write to.
func (m *maker) openDirs() []string {
	dirs := []string{m.request.Dir, m.sessionDir, m.tempDir, "/tmp", "/var/tmp", "/dev/shm"}
	dirs = append(dirs, m.sandbox.WritableRoots...)
	if p := m.request.AdditionalPermissions; p != nil && p.FileSystem != nil {
		dirs = append(dirs, p.FileSystem.Write...)
	}
	for i, dir := range dirs {
		if dir != "" && !filepath.IsAbs(dir) {
			dirs[i] = filepath.Join(m.request.Dir, dir)
		}
	}
	return dirs
}

// shadowed reports whether a command can put another program before one in PATH: an earlier directory is relative, or
// can be written to.
func shadowed(path, dir string, open []string) bool {
	for _, entry := range filepath.SplitList(path) {
		entry = tidy(entry)
		switch {
		case entry == dir:
			return false
		case !filepath.IsAbs(entry):
			return true
		case command.InSystemDir(entry + "/x"):
		case slices.ContainsFunc(open, func(root string) bool { return root != "" && inside(entry, tidy(root)) }):
			return true
		}
	}
	return false
}

// inside reports whether a directory is another or lies below it. A directory with ".." in its path may be anywhere, so it
// counts.
func inside(dir, root string) bool {
	return dir == root || strings.Contains(dir, "..") || strings.HasPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}
