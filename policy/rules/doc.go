// Package rules reads rule files, and finds the rules that a command matches.
//
//	set, errors := rules.Load([]rules.Layer{{Dir: "/home/me/rules", Trusted: true}})
//	decision, found := rules.Strictest(set.Match([]string{"git", "push"}))
//
// A [Set] is never changed, so it can be shared; [Set.With] makes a new one. What a decision leads to, and which commands a
// script consists of, is not known here.
//
// # Rule files
//
// A rule file is Starlark. It calls three functions; what it says besides that is only to build their arguments.
//
//	prefix_rule(
//		pattern = ["git", ["push", "pull"]],  # words; a list of words is a choice
//		decision = "prompt",                  # allow (the default), prompt or forbidden
//		justification = "talks to a server",  # told to the person who is asked, or the caller that is refused
//		match = ["git push origin", ["git", "pull"]],
//		not_match = ["git status"],
//	)
//	host_executable(name = "git", paths = ["/usr/bin/git", "/opt/git/bin/git"])
//	network_rule(host = "example.com", protocol = "https", decision = "deny")
//
// A command matches a rule if its first words are the pattern's. All rules that match count, and the strictest decides. The
// examples are checked when the file is read, so that a rule which does not say what its author meant is noticed.
//
// A command that is named by a path is also tried under its base name. Forbidden rules for the name always hold, and prompt
// rules unless a rule matches the path as it is written. Allow rules hold only for the paths that a host_executable lists, for
// none if its list is empty; and if there is none for the name, for paths directly in /bin, /usr/bin, /usr/local/bin, their
// sbin, and /opt/homebrew/bin. So ./git is not what git is, unless somebody says so. The last host_executable of a name counts.
// Examples are checked with the pattern alone: there, a path stands for its base name unless a list says otherwise.
//
// Network rules are checked and kept for an enforcer; nothing here does. Protocols are http, https (also
// https_connect and http-connect), socks5_tcp and socks5_udp; deny is another word for forbidden.
//
// The language has if, for, def, comprehensions and f-strings with names, as in f"{tool}-lint". It has no load, while,
// recursion or type annotations, only those built-in functions that build values, and += only for names. A file has at most
// 256 KiB and 10,000 rules, and runs for a small fraction of a second in a few MiB; what wants more is an error. [Load] reads
// layers of directories and files. A file with an error says nothing, the error names file, line and column, and all other
// files stay in force. [Append] adds an allow rule to a file.
//
// # What you may not assume
//
// That a forbidden rule for a name stops a program: it stops the name. A copy, a link with another name, or, where the file
// system does not mind, GIT for git is another name.
//
// That words are all that matters to a program: what it does with its configuration and environment is out of sight.
package rules
