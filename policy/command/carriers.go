package command

import (
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
	code     []string // options whose value a shell gets: "-c", "--command"
	shell    bool     // without a command it starts a shell
	verbs    string   // it runs a command only after one of these words
	optional bool     // the other words may be missing
	strict   bool     // it is looked through only to forbid and to ask: no rule is offered for what begins with it
}

var carriers = map[string]carrier{
	"busybox": {}, "command": {}, "builtin": {}, "nocorrect": {}, "noglob": {}, "nohup": {}, "setsid": {}, "toybox": {},
	"chroot": {long: []string{"--groups", "--userspec"}, operands: 1},
	"doas":   {valued: "Cu"},
	"env":    {valued: "CPau", long: []string{"--argv0", "--chdir", "--unset"}, assigns: true},
	"exec":   {valued: "a"},
	"flock":  {valued: "Ew", long: []string{"--conflict-exit-code", "--timeout", "--wait"}, operands: 1, code: []string{"-c", "--command"}},
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

	"and": {strict: true}, "or": {strict: true}, "not": {strict: true}, // of fish
	"bunx": {strict: true}, "catatonit": {strict: true}, "chronic": {strict: true}, "cpulimit": {valued: "elpP", strict: true},
	"cttyhack": {strict: true}, "dbus-run-session": {long: []string{"--config-file", "--dbus-daemon"}, strict: true},
	"dumb-init": {valued: "r", strict: true}, "eatmydata": {strict: true}, "fakeroot": {valued: "bils", strict: true},
	"linux32": {strict: true}, "linux64": {strict: true}, "i386": {strict: true}, "x86_64": {strict: true},
	"proxychains": {valued: "f", strict: true}, "proxychains4": {valued: "f", strict: true}, "rlwrap": {valued: "bCDfHlOopPqsStw", strict: true},
	"tini": {valued: "pe", strict: true}, "torsocks": {strict: true}, "unbuffer": {strict: true},
	"bundle":      {verbs: "exec", strict: true},
	"chpst":       {valued: "/bcdeflmnoprtuU", strict: true},
	"chrt":        {valued: "DPT", operands: 1, strict: true},
	"direnv":      {verbs: "exec", operands: 1, strict: true},
	"envdir":      {operands: 1, strict: true},
	"envuidgid":   {operands: 1, strict: true},
	"faketime":    {operands: 1, strict: true},
	"ltrace":      {valued: "AaDeFlnopsuwXx", strict: true},
	"mise":        {verbs: "exec x", strict: true},
	"npm":         {verbs: "exec x", valued: "wp", code: []string{"-c", "--call"}, long: []string{"--package", "--workspace", "--prefix"}, strict: true},
	"npx":         {valued: "wp", code: []string{"-c", "--call"}, long: []string{"--package", "--workspace", "--prefix"}, strict: true},
	"perf":        {verbs: "record stat trace", valued: "CDFIMRSWcejmopruxt", strict: true},
	"pipenv":      {verbs: "run", strict: true},
	"pnpm":        {verbs: "dlx exec", valued: "C", strict: true},
	"poetry":      {verbs: "run", strict: true},
	"prlimit":     {valued: "op", long: []string{"--output", "--pid"}, strict: true},
	"repeat":      {operands: 1, strict: true}, // of zsh
	"script":      {valued: "BEIOTmo", code: []string{"-c", "--command"}, operands: 1, shell: true, strict: true, long: []string{"--echo", "--log-in", "--log-io", "--log-out", "--log-timing", "--logging-format", "--output-limit"}},
	"setarch":     {operands: 1, optional: true, strict: true},
	"setuidgid":   {operands: 1, strict: true},
	"softlimit":   {valued: "acdflmnoprst", strict: true},
	"strace":      {valued: "EIOPSUXabeopsu", strict: true, long: []string{"--attach", "--columns", "--env", "--output", "--string-limit", "--trace", "--user"}},
	"systemd-run": {valued: "EHMptu", strict: true, long: []string{"--description", "--machine", "--on-active", "--on-calendar", "--property", "--setenv", "--slice", "--uid", "--gid", "--unit", "--working-directory"}},
	"taskset":     {operands: 1, strict: true},
	"uv":          {verbs: "run", valued: "p", long: []string{"--directory", "--extra", "--group", "--package", "--project", "--python", "--with"}, strict: true},
	"valgrind":    {strict: true},
	"watch":       {valued: "nqs", text: true, strict: true, long: []string{"--interval", "--equexit", "--shotsdir"}},
	"xvfb-run":    {valued: "efnps", strict: true},
	"yarn":        {verbs: "dlx exec", strict: true},
}

// users are programs that start another user's shell.
var users = map[string]carrier{
	"su":      {valued: "GTgsw", long: []string{"--group", "--shell", "--supp-group", "--whitelist-environment"}},
	"runuser": {valued: "GTgsuw", long: []string{"--group", "--shell", "--supp-group", "--user", "--whitelist-environment"}},
}

// carrierOf returns how a program of this name runs the command in its words, if it runs one. The dynamic loader has
// many names.
func carrierOf(name string) (carrier, bool) {
	switch {
	case strings.HasPrefix(name, "ld") && strings.Contains(name, ".so"):
		name = "ld.so"
	case strings.HasPrefix(name, MultiShell+"."):
		name = MultiShell
	}
	found, known := carriers[name]
	return found, known
}

// runs reports whether the words make it run a command.
func (c carrier) runs(args []string) bool {
	args = c.operandsOf(args)
	return c.verbs == "" || len(args) > 0 && slices.Contains(strings.Fields(c.verbs), args[0])
}

// carried is the command among the words of a carrier.
func (c carrier) carried(args []string) []string {
	if !c.runs(args) {
		return nil
	}
	if args = c.operandsOf(args); c.verbs != "" {
		args = c.operandsOf(args[1:])
	}
	args = args[min(c.operands, len(args)):]
	if c.strict && c.operands > 0 && !c.text { // setarch x86_64 -R, script file -- ls
		return c.operandsOf(args)
	}
	return args
}

// operandsOf are the words behind the options.
func (c carrier) operandsOf(args []string) []string {
	ended := false
	for len(args) > 0 && (!ended && strings.HasPrefix(args[0], "-") || c.assigns && strings.Contains(args[0], "=")) {
		skip := 1
		if !ended && c.takesNext(args[0]) {
			skip = 2
		}
		ended = ended || args[0] == "--"
		args = args[min(skip, len(args)):]
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

// scriptIn is the script that a shell gets from the value of an option, which may stand anywhere before "--". Options with a
// value of their own are skipped.
func (c carrier) scriptIn(args []string) (script string, found bool) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		arg := args[i]
		for _, name := range c.code {
			long := strings.HasPrefix(name, "--")
			value, glued := "", false
			if long && option(arg, name) {
				_, value, glued = strings.Cut(arg, "=")
			} else if letter := strings.IndexAny(arg, c.valued+name[1:]); !long && strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") &&
				letter > 0 && arg[letter] == name[1] {
				value, glued = arg[letter+1:], letter+1 < len(arg)
			} else {
				continue
			}
			if !glued && i+1 < len(args) {
				value, glued = args[i+1], true
			}
			return value, glued
		}
		if c.takesNext(arg) {
			i++
		}
	}
	return "", false
}

// splitString is the command line that env has after -S, and whether there is one.
func splitString(args []string) (line []string, found bool) {
	env := carriers["env"]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		arg, rest, skip := args[0], args[1:], 1
		name, value, glued := strings.Cut(arg, "=")
		letter := strings.IndexAny(arg, env.valued+"S") // the rest of the word is its value
		is := option(name, "--split-string")
		if !is && !strings.HasPrefix(arg, "--") && letter >= 0 && arg[letter] == 'S' {
			is, value, glued = true, arg[letter+1:], letter+1 < len(arg)
		}
		switch {
		case is:
			if !glued && len(rest) > 0 {
				value, rest = rest[0], rest[1:]
			}
			words, err := Split(strings.NewReplacer(`\_`, " ", `\c`, "", `\t`, "\t", `\n`, "\n", `\v`, " ", `\f`, " ", `\r`, " ").Replace(value))
			if err != nil {
				return []string{unknown}, true
			}
			return append(words, rest...), true
		case env.takesNext(arg):
			skip = 2
		}
		args = args[min(skip, len(args)):]
	}
	return nil, false
}

// globals are the options of programs with subcommands that may stand between the name and the subcommand.
var globals = map[string]carrier{
	"docker": {valued: "cHl", long: []string{"--config", "--context", "--host", "--log-level", "--tlscacert", "--tlscert", "--tlskey"}},
	"git":    {valued: "Cc", long: []string{"--attr-source", "--config-env", "--git-dir", "--namespace", "--super-prefix", "--work-tree"}},
	"kubectl": {valued: "nsv", long: []string{"--as", "--as-group", "--as-uid", "--as-user-extra", "--cache-dir", "--certificate-authority", "--client-certificate",
		"--client-key", "--cluster", "--context", "--kubeconfig", "--kuberc", "--log-flush-frequency", "--namespace", "--password", "--profile",
		"--profile-output", "--request-timeout", "--server", "--tls-server-name", "--token", "--user", "--username", "--v", "--vmodule"}},
	"podman": {valued: "cHl", long: []string{"--config", "--connection", "--context", "--host", "--identity", "--log-level", "--root", "--runroot",
		"--storage-driver", "--storage-opt", "--url"}},
}
