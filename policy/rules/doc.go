// Package rules reads rule files, and finds the rules that a command matches.
//
//	set, errors := rules.Load([]rules.Layer{{Dir: "/home/me/rules", Trusted: true}})
//	decision, found := rules.Strictest(set.Match([]string{"git", "push"}))
//
// A [Set] is never changed, so it can be shared; [Set.With] makes a new one. This package knows neither the consequence
// of a decision nor the commands that a script consists of.
//
// # Rule files
//
// A rule file is Starlark. It calls three functions; everything else in it only builds their arguments.
//
//	prefix_rule(
//		pattern = ["git", ["push", "pull"]],  # words; a list of words is a choice
//		decision = "prompt",                  # allow (the default), prompt or forbidden
//		justification = "talks to a server",  # shown to the person who is asked, or to the caller that is refused
//		match = ["git push origin", ["git", "pull"]],
//		not_match = ["git status"],
//	)
//	host_executable(name = "git", paths = ["/usr/bin/git", "/opt/git/bin/git"])
//	network_rule(host = "example.com", protocol = "https", decision = "deny")
//
// A command matches a rule if its first words are the pattern's. All rules that match count, and the strictest decides.
// The examples are checked when the file is read, so a mistake in a pattern is noticed.
//
// A command that is named by a path is also tried under its base name. Forbidden rules for the name always hold. Prompt
// rules hold unless a rule matches the path as it is written. Allow rules hold only for the paths that a host_executable
// for the name lists, which may be none; without a host_executable they hold for paths directly in /bin, /usr/bin,
// /usr/local/bin, their sbin, and /opt/homebrew/bin. So a rule for git does not allow ./git, unless a host_executable lists
// it. The last host_executable of a name counts. Examples are checked with the pattern alone: there, a path stands for its
// base name unless a list says otherwise.
//
// Network rules are about the hosts that a confined command talks to; package hosts, which decides, says what a host may be.
// Protocols are any (http and https, and for rules that do not allow every one), http, https (also https_connect and
// http-connect), and tcp (also socks5_tcp), which needs a port. UDP never leaves, so rules about socks5_udp have no effect. Deny is
// another word for forbidden. With hidden_name = True, TLS may hide the host's name.
//
// The language has if, for, def, comprehensions and f-strings with names, as in f"{tool}-lint". It has no load, while,
// recursion or type annotations, no strings of bytes such as b"x", no numbers of more than 64 bits, no functions as arguments
// of built-in ones, and += only for names. A file has at most 256 KiB and 10,000 rules, and may use a small fraction of a
// second and a few MiB; a file that needs more is an error.
// [Load] reads layers of directories and files. A file with an error contributes no rules; the error names file, line and
// column, and all other files stay in force. [Append] adds an allow rule to a file, and [AppendHost] a network rule.
//
// # What you must not assume
//
// That a forbidden rule for a name stops a program. It stops the name. A copy or a link has another name, and so does GIT
// where the file system ignores case.
//
// That only words matter to a program. Rules do not see its configuration and environment.
package rules
