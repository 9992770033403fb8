package command

import (
	"slices"
	"strings"
)

var (
	// gitGlobals are the options before the sub-command that lead to no other repository and no other program.
	gitGlobals = wordSet(`-P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs
		--glob-pathspecs --noglob-pathspecs --icase-pathspecs`)
	gitActs    = []string{"--exec", "--ext-diff", "--help", "--output", "--show-signature", "--textconv"}
	gitSigned  = []string{"%G", "%+G", "%-G", "% G", "%(signature", "%(*signature"} // these formats have fields for which git runs gpg
	gitLooks   = wordSet(`status log diff show branch blame rev-parse ls-files`)
	gitDiffers = wordSet(`diff blame show`) // these run a program that is configured for the kind of file, unless told not to
	// gitLogs are the options with which git log shows no differences.
	gitLogs = wordSet(`--oneline --graph --all --branches --tags --remotes --reverse --first-parent --merges --no-merges --follow --stat --shortstat
		--numstat --name-only --name-status --summary --decorate --no-decorate --abbrev-commit --no-abbrev-commit --topo-order --date-order
		--author-date-order --no-patch -s -i -z --no-color --color --relative-date --no-textconv --no-ext-diff --left-right --cherry-pick --cherry
		--text --no-renames -E -F -n --simplify-by-decoration`)
	gitLogValues = wordSet(`--author --committer --since --until --after --before --grep --format --pretty --date --max-count --skip --decorate
		--color --abbrev --branches --tags --remotes --max-parents --min-parents --decorate-refs --stat`)
	gitBranches = wordSet(`--list -l --show-current -a --all -r --remotes -v -vv --verbose`)
)

// safeGit knows the subcommands that only read. Even they run programs that the repository configures, such as
// core.fsmonitor.
func safeGit(args []string) bool {
	for len(args) > 0 && gitGlobals[args[0]] {
		args = args[1:]
	}
	if len(args) == 0 || !gitLooks[args[0]] {
		return false
	}
	options := args
	if end := slices.Index(args, "--"); end >= 0 {
		options = args[:end]
	}
	if differs(args[0], options[1:]) && !(slices.Contains(options, "--no-textconv") && slices.Contains(options, "--no-ext-diff")) {
		return false
	}
	return !slices.ContainsFunc(args[1:], func(arg string) bool {
		if slices.ContainsFunc(gitSigned, func(field string) bool { return strings.Contains(arg, field) }) {
			return true
		}
		if args[0] == "branch" {
			return !gitBranches[arg] && !strings.HasPrefix(arg, "--format=")
		}
		isArg := func(long string) bool { return option(arg, long) }
		return arg != "--text" && slices.ContainsFunc(gitActs, isArg)
	})
}

// differs reports whether a subcommand shows differences with these options.
func differs(subcommand string, options []string) bool {
	switch subcommand {
	case "log":
		return slices.ContainsFunc(options, func(word string) bool {
			name, _, valued := strings.Cut(word, "=")
			return strings.HasPrefix(word, "-") && !gitLogs[word] && !(valued && gitLogValues[name]) && strings.Trim(word, "-n"+digits) != ""
		})
	case "status":
		return has(options, "v", "--verbose")
	}
	return gitDiffers[subcommand]
}
