package command

import (
	"path/filepath"
	"slices"
	"strings"
)

// carrier is a program that runs the command in its words.
type carrier struct {
	valued   string   // short options with a value
	long     []string // long options with a value
	assigns  bool     // NAME=value may stand before the command
	operands int      // other words before the command
	text     bool     // a shell gets the words, joined
}

var carriers = map[string]carrier{
	"builtin": {}, "busybox": {}, "command": {}, "nocorrect": {}, "noglob": {}, "nohup": {}, "setsid": {}, "toybox": {},
	"chroot": {long: []string{"--groups", "--userspec"}, operands: 1},
	"doas":   {valued: "Cu"},
	"env":    {valued: "CPau", long: []string{"--argv0", "--chdir", "--unset"}, assigns: true},
	"exec":   {valued: "a"},
	"flock":  {valued: "Ew", long: []string{"--conflict-exit-code", "--timeout", "--wait"}, operands: 1},
	"ionice": {valued: "cn", long: []string{"--class", "--classdata"}},
	"nice":   {valued: "n", long: []string{"--adjustment"}},
	"ld.so": {long: []string{"--argv0", "--audit", "--glibc-hwcaps-mask", "--glibc-hwcaps-prepend", "--inhibit-rpath", "--library-path",
		"--preload"}},
	"nsenter": {valued: "GSt", long: []string{"--setgid", "--setuid", "--target"}},
	"parallel": {valued: "CEIJLNPSadjns", text: true, long: []string{"--arg-file", "--basefile", "--colsep", "--delay", "--delimiter", "--env",
		"--jobs", "--joblog", "--load", "--max-args", "--max-procs", "--memfree", "--nice", "--profile", "--results", "--retries", "--shebang",
		"--sshlogin", "--tagstring", "--timeout", "--tmpdir", "--workdir"}},
	"pkexec": {long: []string{"--user"}},
	"setpriv": {long: []string{"--ambient-caps", "--apparmor-profile", "--bounding-set", "--egid", "--euid", "--groups", "--inh-caps",
		"--landlock-access", "--landlock-rule", "--pdeathsig", "--regid", "--reuid", "--rgid", "--ruid", "--securebits", "--selinux-label"}},
	"stdbuf": {valued: "eio", long: []string{"--error", "--input", "--output"}},
	"sudo": {valued: "CDRTUghprtu", assigns: true, long: []string{"--chdir", "--chroot", "--close-from", "--command-timeout",
		"--group", "--host", "--other-user", "--prompt", "--role", "--type", "--user"}},
	"time":    {valued: "fo", long: []string{"--format", "--output"}},
	"timeout": {valued: "ks", long: []string{"--kill-after", "--signal"}, operands: 1},
	"unshare": {valued: "GRSlw", long: []string{"--boottime", "--load-interp", "--map-group", "--map-groups", "--map-user", "--map-users",
		"--monotonic", "--propagation", "--root", "--setgid", "--setgroups", "--setuid", "--wd"}},
	"xargs": {valued: "EIJLPRSadns", long: []string{"--arg-file", "--delimiter", "--max-args", "--max-chars", "--max-procs",
		"--process-slot-var"}},
}

// carrierOf returns how a program of this name runs the command in its words, if it runs one. The dynamic loader has
// many names.
func carrierOf(name string) (carrier, bool) {
	if strings.HasPrefix(name, "ld") && strings.Contains(name, ".so") {
		name = "ld.so"
	}
	found, known := carriers[name]
	return found, known
}

// carried is the command among the words of a carrier.
func (c carrier) carried(args []string) []string {
	ended := false
	for len(args) > 0 && (!ended && strings.HasPrefix(args[0], "-") || c.assigns && strings.Contains(args[0], "=")) {
		skip := 1
		if !ended && c.takesNext(args[0]) {
			skip = 2
		}
		ended = ended || args[0] == "--"
		args = args[min(skip, len(args)):]
	}
	args = args[min(c.operands, len(args)):]
	if list := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, ":::") }); c.text && list >= 0 {
		return args[:list] // the rest are words for the command
	}
	return args
}

// takesNext reports whether the value of an option is the next word.
func (c carrier) takesNext(word string) bool {
	if !strings.HasPrefix(word, "-") {
		return false
	}
	if strings.HasPrefix(word, "--") {
		return !strings.Contains(word, "=") && slices.ContainsFunc(c.long, func(long string) bool { return option(word, long) })
	}
	return strings.IndexAny(word, c.valued) == len(word)-1 && len(word) > 1
}

// splitString is the text that env -S splits into a command.
func splitString(args []string) (line string, found bool) {
	env := carriers["env"]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		arg, rest, skip := args[0], args[1:], 1
		name, value, _ := strings.Cut(arg, "=")
		letter := strings.IndexAny(arg, env.valued+"S") // the rest of the word is its value
		switch {
		case option(name, "--split-string"):
			return strings.Join(append([]string{value}, rest...), " "), true
		case !strings.HasPrefix(arg, "--") && letter >= 0 && arg[letter] == 'S':
			return strings.Join(append([]string{arg[letter+1:]}, rest...), " "), true
		case env.takesNext(arg):
			skip = 2
		}
		args = args[min(skip, len(args)):]
	}
	return "", false
}

func isShell(program string) bool {
	switch filepath.Base(program) {
	case "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh":
		return true
	}
	return false
}

// shellScript is the script among the words of a shell: the first word that is not an option, if there is a -c.
func shellScript(args []string) (script string, found bool) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--" || arg == "-":
			i++
			if found && i < len(args) {
				return args[i], true
			}
			return "", false
		case strings.HasPrefix(arg, "--"):
			if arg == "--rcfile" || arg == "--init-file" || arg == "--emulate" {
				i++
			}
		case strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "+"):
			found = found || arg[0] == '-' && strings.Contains(arg, "c")
			if strings.HasSuffix(arg, "o") || strings.HasSuffix(arg, "O") {
				i++
			}
		default:
			return arg, found
		}
	}
	return "", false
}
