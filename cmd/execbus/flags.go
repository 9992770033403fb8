package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// parse parses flags; done reports that there is nothing more to do.
func parse(flags *flag.FlagSet, args []string, usage string, std streams) (code int, done bool) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(std.out, usage)
		return 0, true
	case err != nil:
		return misused(std, explain(flags, err), usage), true
	}
	return 0, false
}

// explain suggests a similar flag for an unknown one. Package flag has no type for that error.
func explain(flags *flag.FlagSet, err error) string {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err.Error()
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return fmt.Sprintf("there is no flag --%s%s", name, didYouMean(name, "--", names))
}

// misused explains wrong usage.
func misused(std streams, why, usage string) int {
	fmt.Fprintf(std.err, "execbus: %s\n\n%s", why, usage)
	return exitMisused
}

// failed reports an error.
func failed(std streams, err error) int {
	fmt.Fprintln(std.err, "execbus:", err)
	return exitFailed
}
