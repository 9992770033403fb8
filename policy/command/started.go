package command

import (
	"path"
	"strings"
)

// Started says what a command line starts, through other programs that run it: the program, and the file of code that it runs if it
// is a shell, an interpreter or a runner. code says that the code is in the words themselves, or looked for by a name.
func Started(words []string) (program, file string, code bool) {
	for range maxWrapped {
		if len(words) == 0 {
			return "", "", false
		}
		carrier, found := carrierOf(path.Base(words[0]))
		if !found || carrier.strict { // then no rule is offered in any case
			break
		}
		words = carrier.carried(words[1:])
	}
	if len(words) == 0 {
		return "", "", false
	}
	program, words = words[0], words[1:]
	name := strings.TrimSuffix(path.Base(program), ".exe")
	if verbs := bannedVerbs[name]; len(words) > 0 && verbs[words[0]] && name != "docker" && name != "podman" { // whose programs lie in an image
		file, code = codeFile(words[1:])
		return program, file, code
	}
	switch {
	case isShell(name):
		call := readShell(name, words)
		return program, call.file, call.code || len(call.scripts) > 0
	case isForeignShell(name) || bannedInterpreters[strings.TrimRight(name, "0123456789.")]:
		file, code = codeFile(words)
	}
	return program, file, code
}

// codeFile is the first word that is no option. The value of an option counts as one, which is an error on the safe side.
func codeFile(words []string) (file string, code bool) {
	for _, word := range words {
		switch {
		case !strings.HasPrefix(word, "-"):
			return word, false
		case codeFollows[word] || word == "-p" || word == "--print":
			return "", true
		case !strings.HasPrefix(word, "--") && strings.ContainsAny(word, "cemEr"): // python3 -Bc, perl -ne, python3 -mpip
			return "", true
		case strings.HasPrefix(word, "--eval=") || strings.HasPrefix(word, "--print="):
			return "", true
		}
	}
	return "", false
}
