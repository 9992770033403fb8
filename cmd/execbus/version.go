package main

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

const versionUsage = `Usage:
  execbus version

Prints one line: the version, the commit if it is known, the version of Go, and the platform.

Exit codes: 0, or 2 for wrong usage.

Example:
  $ execbus version
  execbus (devel) go1.26.8 linux/amd64
`

// version runs "version".
func version(args []string, std streams) int {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	if code, done := parse(flags, args, versionUsage, std); done {
		return code
	}
	if flags.NArg() > 0 {
		return misused(std, fmt.Sprintf("version takes no arguments; leave out %q", flags.Arg(0)), versionUsage)
	}
	number, commit := build()
	if commit != "" {
		number += " " + commit
	}
	fmt.Fprintf(std.out, "execbus %s %s %s/%s\n", number, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return 0
}

// build returns the version and the commit, as far as the linker knew them.
func build() (number, commit string) {
	number = "(devel)"
	info, known := debug.ReadBuildInfo()
	if !known {
		return number, ""
	}
	if info.Main.Version != "" {
		number = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value[:min(len(setting.Value), 12)] + commit
		case setting.Key == "vcs.modified" && setting.Value == "true":
			commit += "+changes"
		}
	}
	return number, commit
}
