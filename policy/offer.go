package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// amendment is the prefix that an approval could turn into an allow rule; nil if none should be offered: where rules
// would not hold for the command, where one matches already, and where the prefix would allow far more than this.
func (m *maker) amendment(plan Plan) []string {
	if m.altered || m.understood.Complex || m.request.SandboxPermissions == messages.WithAdditionalPermissions {
		return nil
	}
	if m.covers(m.request.PrefixRule) {
		return slices.Clone(m.request.PrefixRule)
	}
	wanted := fine
	if plan.Decision == Ask {
		wanted = ask
	}
	var proposal []string
	for i := range m.segments {
		s := &m.segments[i]
		if s.rule != nil && s.verdict == ask || s.matched && plan.Decision == Run {
			return nil
		}
		if proposal == nil && !s.matched && s.verdict == wanted {
			proposal = m.commands[i]
		}
	}
	if banned(proposal) || checkPrefix(proposal) != nil {
		return nil
	}
	return slices.Clone(proposal)
}

// covers reports whether a prefix that the caller suggests can be offered: no rule matches yet, and with it everything
// would be allowed.
func (m *maker) covers(prefix []string) bool {
	if len(prefix) == 0 || banned(prefix) {
		return false
	}
	if slices.ContainsFunc(m.segments, func(s segment) bool { return s.matched }) {
		return false
	}
	with, err := m.rules.With(prefix)
	if err != nil {
		return false
	}
	for _, command := range m.commands {
		if !slices.ContainsFunc(with.Match(command), Match.allows) {
			return false
		}
	}
	return true
}

// Programs that run whatever their arguments say, with the flags that make them do it. A rule for one of these prefixes
// alone would allow everything; longer prefixes say something.
var (
	bannedShells       = []string{"bash", "sh", "zsh", "dash", "fish", "ksh"}
	bannedInterpreters = []string{"python", "python3", "pythonw", "py", "pyw", "pypy", "pypy3", "node", "nodejs", "bun", "deno",
		"perl", "php", "ruby", "lua", "julia", "Rscript", "osascript"}
	bannedWindows = []string{"cmd", "powershell", "pwsh"}
	bannedOthers  = []string{"env", "git", "sudo", "rm"}
	bannedPairs   = []string{"npm run", "pnpm run", "yarn run", "bun run", "deno eval"}
)

// banned reports whether a prefix allows everything, or close to it. Besides the names themselves, paths that end in them
// count, and programs whose name carries a version.
func banned(prefix []string) bool {
	if len(prefix) == 0 || len(prefix) > 2 {
		return false
	}
	name := strings.TrimSuffix(path.Base(prefix[0]), ".exe")
	plain := strings.TrimRight(name, "0123456789.")
	shell := slices.Contains(bannedShells, name)
	windows := slices.Contains(bannedWindows, strings.ToLower(name))
	interpreter := slices.Contains(bannedInterpreters, name) || slices.Contains(bannedInterpreters, plain)
	if len(prefix) == 1 {
		return shell || windows || interpreter || slices.Contains(bannedOthers, name) || slices.Contains(wrappers, name)
	}
	flag := strings.HasPrefix(prefix[1], "-")
	return (shell || interpreter) && flag || windows && (flag || strings.HasPrefix(prefix[1], "/")) ||
		slices.Contains(bannedPairs, name+" "+prefix[1])
}

// wrappers run the command that their arguments name.
var wrappers = []string{"busybox", "command", "doas", "exec", "eval", "find", "nice", "nohup", "setsid", "ssh", "stdbuf", "su",
	"time", "timeout", "toybox", "watch", "xargs"}
