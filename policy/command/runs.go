package command

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// command looks at one command inside of others.
func (s *search) command(words []string, c place) {
	if len(words) == 0 || !s.spend(len(words), c.level) {
		return
	}
	s.found.Commands = append(s.found.Commands, words)
	if stripped, found := withoutGlobals(words); found {
		s.found.Commands = append(s.found.Commands, stripped)
	}
	if s.defined(words, c) {
		return
	}
	name, args := filepath.Base(words[0]), words[1:]
	switch {
	case strings.Contains(words[0], unknown):
		s.unread(hiddenName)
		if words[0] == unknown { // $SUDO git push
			s.command(args, c)
		}
	case name == "rm":
		s.found.Dangerous = s.found.Dangerous || removesByForce(args)
	case name == "--" || name == "-": // of time, and of zsh
		s.command(carrier{assigns: true}.operandsOf(args), c)
	case strings.HasPrefix(words[0], "=") && len(words[0]) > 1: // zsh looks the name up in PATH
		s.command(append([]string{words[0][1:]}, args...), c.deeper())
	case name == "find":
		s.find(args, c)
	case name == "xargs":
		s.xargs(args, c)
	case name == "parallel":
		s.parallel(args, c)
	case name == "git":
		s.git(args, c)
	case name == "command" && len(args) > 0 && strings.HasPrefix(args[0], "-") && strings.ContainsAny(args[0], "vV"): // says what it is
	case isShell(name):
		s.shell(name, args, c.deeper())
	case name == "at" || name == "batch":
		s.feed(c.deeper(), nil)
	case isForeignShell(name) && slices.Contains(args, "-c"):
		s.unread(otherShell)
	default:
		if !s.builtin(name, args, c) {
			s.carrier(name, args, c)
		}
	}
}

// removesByForce looks for -f among the words of rm.
func removesByForce(args []string) bool {
	for _, arg := range args {
		switch {
		case arg == "--":
			return false
		case strings.HasPrefix(arg, "--"):
			if option(arg, "--force") {
				return true
			}
		case strings.HasPrefix(arg, "-") && strings.Contains(arg, "f"):
			return true
		}
	}
	return false
}

// withoutGlobals is a command without the options before its subcommand.
func withoutGlobals(words []string) (stripped []string, found bool) {
	options, known := globals[filepath.Base(words[0])]
	if !known || len(words) < 2 || !strings.HasPrefix(words[1], "-") {
		return nil, false
	}
	return append([]string{words[0]}, options.operandsOf(words[1:])...), true
}

// defined looks at the function or alias that a command is.
func (s *search) defined(words []string, c place) bool {
	name := words[0]
	text, alias := c.scope.aliases[name]
	f, function := c.scope.functions[name]
	if !alias && !function || c.scope.active[name] {
		return false
	}
	if len(c.scope.active) >= maxCalled {
		s.unread(endlessText)
		return true
	}
	c.scope.active[name] = true
	defer delete(c.scope.active, name)
	if alias {
		s.script(text+" "+quoted(words[1:]), c.deeper())
		return true
	}
	c.scope.called[f] = true
	params := c.scope.params
	c.scope.params = words
	s.statement(f.Body, c)
	c.scope.params = params
	return true
}

// quoted is a text that a shell splits into these words.
func quoted(words []string) string {
	var all []string
	for _, word := range words {
		all = append(all, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return strings.Join(all, " ")
}

// builtin looks at the commands of shells that run a text, or change what a later name means.
func (s *search) builtin(name string, args []string, c place) bool {
	bare := args
	if len(args) > 0 && args[0] == "--" {
		bare = args[1:]
	}
	switch name {
	case "eval":
		s.script(strings.Join(bare, " "), c.deeper())
	case "trap":
		if len(bare) > 0 {
			s.script(bare[0], c.deeper())
		}
	case ".", "source":
		if len(bare) > 0 {
			c.in = s.file(bare[0], c)
			s.read(c.deeper())
		}
	case "alias":
		for _, arg := range args {
			if alias, text, found := strings.Cut(arg, "="); found {
				c.scope.aliases[alias] = text
			}
		}
	case "hash":
		if at := slices.Index(args, "-p"); at >= 0 && at+2 < len(args) {
			c.scope.aliases[args[at+2]] = args[at+1]
		}
	case "mapfile", "readarray", "compgen", "complete":
		if text, found := (carrier{valued: "AFGOPSVWXcdnostu", code: []string{"-C"}}).scriptIn(args); found {
			s.script(text, c.deeper())
		}
	case "emulate":
		if text, found := (carrier{code: []string{"-c"}}).scriptIn(args); found {
			s.script(text, c.deeper())
		}
	case "unset":
		for _, arg := range args {
			s.subscript(arg, c)
		}
	case "read", "printf":
		for _, arg := range args {
			s.assigned(arg, unknown, c)
		}
	default:
		return false
	}
	return true
}

// subscript looks at the substitutions in a text that is expanded for its subscripts.
func (s *search) subscript(text string, c place) {
	if strings.ContainsAny(text, "$`") {
		s.script(`: "`+text+`"`, c.deeper())
	}
}

// carrier looks at the command in the words of another.
func (s *search) carrier(name string, args []string, c place) {
	c = c.deeper()
	if user, found := users[name]; found {
		s.user(name, user, args, c)
		return
	}
	carrier, found := carrierOf(name)
	if !found {
		return
	}
	if carrier.assigns {
		for _, arg := range args {
			if variable, value, found := strings.Cut(arg, "="); found {
				s.assigned(variable, value, c)
			}
		}
	}
	if name == "env" {
		if line, found := splitString(args); found {
			s.command(append([]string{name}, line...), c)
			return
		}
	}
	if text, found := carrier.scriptIn(args); found {
		s.shellScript(text, c, nil)
	}
	inner := carrier.carried(args)
	switch {
	case len(inner) == 0:
		asShell := (name == "sudo" || name == "doas") && slices.ContainsFunc(args, func(arg string) bool {
			return arg == "--shell" || arg == "--login" || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.ContainsAny(arg, "si")
		})
		if asShell || carrier.shell && len(carrier.code) > 0 && !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-c") }) {
			s.feed(c, nil)
		}
	case carrier.text:
		s.shellScript(strings.Join(inner, " "), c, nil)
	default:
		s.command(inner, c)
		if carrier.optional {
			s.command(carrier.operandsOf(args), c)
		}
	}
}

// user looks at what su and runuser run: a shell with a script, with other words or with its input, or a command.
func (s *search) user(name string, u carrier, args []string, c place) {
	u.code = []string{"-c", "--command", "--session-command"}
	if text, found := u.scriptIn(args); found {
		s.shellScript(text, c, nil)
		return
	}
	direct := name == "runuser" && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-u") || option(arg, "--user") })
	args = u.operandsOf(args)
	if direct {
		s.command(args, c)
		return
	}
	if args = args[min(1, len(args)):]; len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	s.shell("sh", args, c)
}

// shell looks at the script of a shell: after -c, in a file that is no file, or in its input.
func (s *search) shell(name string, args []string, c place) {
	call := readShell(name, args)
	for _, file := range call.startup {
		started := c
		started.in = s.file(file, c)
		s.read(started)
	}
	params := append([]string{name}, call.words...)
	for _, script := range call.scripts {
		if call.code {
			params = call.words
			if len(params) == 0 {
				params = []string{name}
			}
		}
		s.shellScript(script, c, params)
	}
	switch {
	case len(call.scripts) > 0 || call.code:
	case call.file != "":
		c.in = s.file(call.file, c)
		if c.in.kind != ownInput || readsItself[call.file] {
			s.feed(c, params)
		}
	default:
		s.feed(c, params)
	}
}

// feed looks at a shell that runs what it reads.
func (s *search) feed(c place, params []string) {
	if c.in.kind != textInput {
		s.read(c)
		return
	}
	texts := c.in.texts()
	c.in = input{kind: textInput} // it has been read
	for _, text := range texts {
		s.shellScript(text, c, params)
	}
}

// read looks at a text that the shell reads which runs the script itself.
func (s *search) read(c place) {
	switch c.in.kind {
	case ownInput:
		s.found.ReadsInput = true
	case hiddenInput:
		s.unread(hiddenText)
	case textInput:
		for _, text := range c.in.texts() {
			s.script(text, c)
		}
	}
}

// find looks at what find would run. The paths that it finds are not known.
func (s *search) find(args []string, c place) {
	for i, arg := range args {
		switch arg {
		case "-exec", "-execdir", "-ok", "-okdir":
			rest := args[i+1:]
			if !s.spend(len(rest), c.level) {
				return
			}
			if end := slices.Index(rest, ";"); end >= 0 {
				rest = rest[:end]
			}
			s.replaced(rest, "{}", unknown, c.deeper())
		}
	}
}

// replaced looks at a command in whose words a text is replaced.
func (s *search) replaced(words []string, old, text string, c place) {
	result := slices.Clone(words)
	for i := range result {
		result[i] = s.replace(result[i], old, text, c)
	}
	s.command(result, c)
}

// replace replaces a text in a word; unknown if that becomes too long.
func (s *search) replace(word, old, text string, c place) string {
	if n := strings.Count(word, old); n > 0 && !s.spend(len(word)+n*len(text), c.level) {
		return unknown
	}
	return strings.ReplaceAll(word, old, text)
}

// maxLists bounds the commands that one xargs or parallel is taken for.
const maxLists = 256

// xargs looks at the command that gets words from its input.
func (s *search) xargs(args []string, c place) {
	xargs, in := carriers["xargs"], c.in
	inner := xargs.carried(args)
	options := args[:len(args)-len(inner)]
	if len(inner) == 0 {
		inner = []string{"echo"}
	}
	value := func(letter string, long string) string {
		text, _ := carrier{valued: strings.ReplaceAll(xargs.valued, letter, ""), code: []string{"-" + letter, long}}.scriptIn(options)
		return text
	}
	replace, number := value("I", "--replace"), value("n", "--max-args")
	if slices.Contains(options, "-i") || slices.Contains(options, "--replace") {
		replace = "{}"
	}
	c = c.deeper()
	c.in = input{kind: textInput}
	if value("a", "--arg-file") != "" || in.kind != textInput || strings.Contains(in.text, unknown) {
		if replace != "" {
			s.replaced(inner, replace, unknown, c)
		} else {
			s.command(append(slices.Clip(inner), unknown), c)
		}
		return
	}
	for _, text := range in.texts() {
		if replace != "" {
			for n, line := range strings.Split(strings.Trim(text, "\n"), "\n") {
				if n == maxLists {
					s.unread(endlessText)
					break
				}
				s.replaced(inner, replace, line, c)
			}
			continue
		}
		words, err := Split(strings.ReplaceAll(text, unknown, " "))
		if err != nil {
			words = strings.Fields(text)
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			n = max(len(words), 1)
		}
		for calls := 0; calls == 0 || len(words) > 0; calls++ {
			if calls == maxLists {
				s.unread(endlessText)
				break
			}
			s.command(slices.Concat(inner, words[:min(n, len(words))]), c)
			words = words[min(n, len(words)):]
		}
	}
}

// maxPlaces bounds the lists whose words have places of their own in what parallel runs.
const maxPlaces = 32

// parallel looks at the commands that are made of a text and lists of words. Without lists the words come from the input.
func (s *search) parallel(args []string, c place) {
	lists := [][]string{}
	inner := carriers["parallel"].carried(args)
	template := inner
	for i, word := range inner {
		switch {
		case strings.HasPrefix(word, ":::"):
			if len(lists) == 0 {
				template = inner[:i]
			}
			lists = append(lists, nil)
			if strings.HasPrefix(word, "::::") { // they are in files
				lists[len(lists)-1] = []string{unknown}
			}
		case len(lists) > 0 && !slices.Equal(lists[len(lists)-1], []string{unknown}):
			lists[len(lists)-1] = append(lists[len(lists)-1], word)
		}
	}
	if len(lists) == 0 {
		list := []string{unknown}
		if c.in.kind == textInput {
			list = strings.Split(strings.Trim(c.in.text, "\n"), "\n")
		}
		lists = append(lists, list)
	}
	c = c.deeper()
	combined := [][]string{nil}
	for _, list := range lists {
		var next [][]string
		for _, head := range combined {
			for _, word := range list {
				if len(next) < maxLists && s.spend(len(head)+1, c.level) {
					next = append(next, append(slices.Clip(head), word))
				} else {
					s.unread(endlessText)
				}
			}
		}
		combined = next
	}
	for _, words := range combined {
		text, all := strings.Join(template, " "), strings.Join(words, " ")
		switch {
		case len(template) == 0:
			text = all
		case strings.Contains(text, "{"):
			text = s.replace(text, "{}", all, c)
			if len(words) > maxPlaces {
				s.unread(endlessText)
			}
			for i, word := range words[:min(len(words), maxPlaces)] {
				text = s.replace(text, "{"+strconv.Itoa(i+1)+"}", word, c)
			}
		case slices.Contains(words, unknown):
			s.command(append(slices.Clip(template), unknown), c) // it quotes what it appends
			continue
		default:
			text += " " + all
		}
		s.shellScript(text, c, nil)
	}
}

// git looks at what git runs: an alias, and the commands of some subcommands.
func (s *search) git(args []string, c place) {
	options := globals["git"]
	rest := options.operandsOf(args)
	c = c.deeper()
	for i, arg := range args[:len(args)-len(rest)] {
		setting, found := strings.CutPrefix(arg, "alias.")
		if _, text, valued := strings.Cut(setting, "="); found && valued && i > 0 {
			if shell, run := strings.CutPrefix(text, "!"); run {
				s.shellScript(shell, c, nil)
			} else if words, err := Split(text); err == nil {
				s.command(append([]string{"git"}, words...), c)
			}
		}
	}
	if len(rest) < 2 {
		return
	}
	switch {
	case rest[0] == "bisect" && rest[1] == "run":
		s.command(rest[2:], c)
	case rest[0] == "submodule" && slices.Contains(rest, "foreach"):
		inner := carrier{}.operandsOf(rest[slices.Index(rest, "foreach")+1:])
		s.shellScript(strings.Join(inner, " "), c, nil)
	case rest[0] == "rebase":
		if text, found := (carrier{code: []string{"-x", "--exec"}}).scriptIn(rest); found {
			s.shellScript(text, c, nil)
		}
	}
}
