package command

import (
	"path"
	"slices"
	"strings"
)

// These programs run anything that their arguments say. A rule for one of them alone, or with nothing but options,
// would allow everything. A longer prefix narrows it down.
var (
	bannedInterpreters = wordSet(`python pythonw py pyw pypy ipython node nodejs bun deno perl php ruby lua julia Rscript osascript
		tclsh wish expect`)
	bannedWindows = wordSet(`cmd powershell pwsh`)
	bannedOthers  = wordSet(`env git sudo rm eval find ssh su watch npx bunx pnpx uvx awk gawk mawk`)
	codeFollows   = wordSet(`-c -e -E -r --eval`) // to interpreters
	bannedVerbs   = map[string]map[string]bool{   // by program, the first words that make it such a program
		"bun": wordSet("run x"), "deno": wordSet("eval run"), "docker": wordSet("exec run"), "go": wordSet("run"),
		"npm": wordSet("exec run"), "pnpm": wordSet("dlx exec run"), "podman": wordSet("exec run"), "uv": wordSet("run"),
		"yarn": wordSet("dlx run"),
	}
)

// RunsAnything reports whether a rule that allows a prefix would allow everything, or close to it. Paths that end in such a
// name count too, a version in the name makes no difference (python3.13), and neither does another program that runs it
// (sudo bash -c).
func RunsAnything(prefix []string) bool {
	if len(prefix) == 0 {
		return false
	}
	for range maxWrapped {
		name := path.Base(prefix[0])
		carrier, found := carrierOf(name)
		known := bannedOthers[name] || bannedVerbs[name] != nil
		if _, user := users[name]; user || carrier.strict && !known && carrier.runs(prefix[1:]) {
			return true
		}
		if !found || carrier.strict {
			return allowsAll(prefix[0], prefix[1:])
		}
		prefix = carrier.carried(prefix[1:])
		if list := slices.IndexFunc(prefix, func(word string) bool { return strings.HasPrefix(word, ":::") }); carrier.text && list >= 0 {
			prefix = prefix[:list] // the rest are words for the command
		}
		if len(prefix) == 0 {
			return true
		}
	}
	return true
}

// allowsAll reports whether a program that is followed by these words runs anything that comes after them.
func allowsAll(program string, words []string) bool {
	name := strings.TrimSuffix(path.Base(program), ".exe")
	verbs, hasVerbs := bannedVerbs[name]
	verb := len(words) > 0 && verbs[words[0]]
	if verb {
		words = words[1:]
	}
	onlyOptions := !slices.ContainsFunc(words, func(word string) bool { return !strings.HasPrefix(word, "-") })
	switch {
	case hasVerbs && (verb || len(words) == 0):
		return onlyOptions
	case isShell(name):
		call := readShell(name, words) // past the values of options: bash -o pipefail -c
		return len(call.scripts) == 0 && call.file == ""
	case bannedInterpreters[strings.TrimRight(name, "0123456789.")]:
		return onlyOptions || codeFollows[words[len(words)-1]]
	case bannedWindows[strings.ToLower(name)]:
		return onlyOptions || len(words) == 1 && strings.HasPrefix(words[0], "/")
	case name == "git" && configures(words):
		return true
	case bannedOthers[name]:
		return onlyOptions
	}
	return false
}

// configures reports whether git gets settings for one command: git -c core.sshCommand=… runs any program.
func configures(words []string) bool {
	options := words[:len(words)-len(globals["git"].operandsOf(words))]
	return slices.ContainsFunc(options, func(word string) bool {
		return strings.HasPrefix(word, "-c") || option(word, "--config-env") || option(word, "--exec-path")
	})
}
