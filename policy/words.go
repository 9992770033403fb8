package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// plainProgram reports whether the first word of a command names a program, or a builtin command that can neither run
// something nor change what later names mean.
func plainProgram(name string) bool {
	if inert[name] {
		return true
	}
	return name != "" && strings.Trim(name, letters+digits+"_./+@-") == "" && !shellWords[name] &&
		name[0] != '-' && name[0] != '+' // to bash -c, a script that begins so is another option
}

// plainWord is the text of a word as the program gets it. For a pattern, or a path that starts with ~, it is the word
// itself, and pattern is true.
func plainWord(word *syntax.Word) (text string, pattern, ok bool) {
	switch word.Lit() {
	case "{}", "!": // special to find, not to a shell that is past the first word
		return word.Lit(), false, true
	}
	var b strings.Builder
	for i, part := range word.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			wild, ok := unescapeBare(&b, part.Value, i == 0)
			if !ok {
				return "", false, false
			}
			pattern = pattern || wild
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false, false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			inner, literal := innerText(part)
			if !literal || part.Dollar || !unescapeQuoted(&b, inner) {
				return "", false, false
			}
		default:
			return "", false, false
		}
	}
	return b.String(), pattern, true
}

// unescapeBare writes what a part of a word without quotes stands for; first says that the word begins with it. Only
// characters that mean themselves in every shell are known.
func unescapeBare(b *strings.Builder, raw string, first bool) (pattern, ok bool) {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '\\':
			i++
			if i == len(raw) || raw[i] < ' ' || raw[i] > '~' {
				return false, false
			}
			c = raw[i]
		case strings.IndexByte(letters+digits+"_-./:,+@%^", c) >= 0:
		case c == '=' && b.Len() > 0: // zsh replaces =name by the program's path, even after ""
		case c == '#' && i > 0:
		case c == '~' && i > 0 && strings.IndexByte(letters+digits+"^~", raw[i-1]) >= 0: // HEAD~1
		case c == '~' && i == 0 && first, strings.IndexByte("*?[]", c) >= 0:
			pattern = true
		default:
			return false, false
		}
		b.WriteByte(c)
	}
	return pattern, true
}

// innerText joins the parts between double quotes.
func innerText(quoted *syntax.DblQuoted) (text string, ok bool) {
	for _, part := range quoted.Parts {
		lit, literal := part.(*syntax.Lit)
		if !literal {
			return "", false
		}
		text += lit.Value
	}
	return text, true
}

// unescapeQuoted writes what a text between double quotes stands for. A dollar sign is only known at the end and before a
// blank.
func unescapeQuoted(b *strings.Builder, raw string) bool {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '\\' && i+1 < len(raw) && raw[i+1] == '\n':
			i++
			continue
		case c == '\\' && i+1 < len(raw) && strings.IndexByte("$`\"\\", raw[i+1]) >= 0:
			i++
			c = raw[i]
		case c == '`', c == '$' && i+1 < len(raw) && raw[i+1] != ' ':
			return false
		}
		b.WriteByte(c)
	}
	return true
}

// inert are the builtin commands of shells that do nothing to the commands after them, whatever their words. After cd
// relative programs are not known any more.
var inert = wordSet(`: cd echo false pwd true`)

// shellWords are the other builtin commands and the reserved words of bash, zsh, dash and ksh. A script with one of them
// as a program is not plain: they run their words (eval, exec, command, trap), change what a name means (alias, hash,
// enable, set), assign to PATH (read, printf -v, printf %n), or run what is hidden in a subscript (test -v, let, unset).
var shellWords = wordSet(`
	! . - [ [[ ]] { } ]
	alias always autoload bg bind bindkey break builtin bye caller cap case chdir clone command comparguments compcall compctl
	compdescribe compfiles compgen compgroups complete compopt compquote compset comptags comptry compvalues continue coproc
	declare dirs disable disown do done echotc echoti elif else emulate enable end esac eval exec exit export fc fg fi float
	for foreach function functions getcap getconf getln getopts hash help hist history if in integer jobs kill let limit local
	log logout mapfile namespace nameref nocorrect noglob pcre_compile pcre_match pcre_study popd print printf private
	privileges prompt pushd pushln r read readarray readonly rehash repeat return sched select set setcap setopt shift shopt
	sleep source stop strftime suspend sysopen sysread sysseek syswrite syserror test then time times trap ttyctl type typeset
	ulimit umask unalias unfunction unhash unlimit unset unsetopt until vared wait whence where while xtrace zcompile zcurses
	zformat zftp zle zmodload zmv zparseopts zprof zpty zregexparse zselect zsocket zstat zstyle zsystem ztcp
`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}
