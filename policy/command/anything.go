package command

import (
	"path"
	"slices"
	"strings"
)

// Programs that run whatever their arguments say. A rule for one of them alone, or with nothing but options, would allow
// everything; longer prefixes say something.
var (
	bannedShells       = wordSet(`bash sh zsh dash fish ksh ash mksh`)
	bannedInterpreters = wordSet(`python pythonw py pyw pypy node nodejs bun deno perl php ruby lua julia Rscript osascript`)
	bannedWindows      = wordSet(`cmd powershell pwsh`)
	bannedOthers       = wordSet(`env git sudo rm eval find ssh su watch`)
	codeFollows        = wordSet(`-c -e -E -r --eval`) // to interpreters
	bannedPairs        = []string{"npm run", "pnpm run", "yarn run", "bun run", "deno eval"}
)

// RunsAnything reports whether a rule that allows a prefix would allow everything, or close to it. Paths that end in such a name count, versions do not
// help (python3.13), and neither does another program that runs the one in its words (sudo bash -c).
func RunsAnything(prefix []string) bool {
	if len(prefix) == 0 {
		return false
	}
	for range maxWrapped {
		carrier, found := carriers[path.Base(prefix[0])]
		if !found {
			return allowsAll(prefix[0], prefix[1:])
		}
		if prefix = carrier.carried(prefix[1:]); len(prefix) == 0 {
			return true
		}
	}
	return true
}

// allowsAll reports whether a program with these words runs what further words say.
func allowsAll(program string, words []string) bool {
	name := strings.TrimSuffix(path.Base(program), ".exe")
	onlyOptions := !slices.ContainsFunc(words, func(word string) bool { return !strings.HasPrefix(word, "-") })
	pair := len(words) == 1 && slices.Contains(bannedPairs, name+" "+words[0])
	switch {
	case bannedShells[name]:
		script, _ := shellScript(words) // past the values of options: bash -o pipefail -c
		return script == ""
	case bannedInterpreters[strings.TrimRight(name, "0123456789.")]:
		return onlyOptions || pair || codeFollows[words[len(words)-1]]
	case bannedWindows[strings.ToLower(name)]:
		return onlyOptions || len(words) == 1 && strings.HasPrefix(words[0], "/")
	case bannedOthers[name]:
		return onlyOptions
	}
	return pair
}
