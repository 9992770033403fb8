package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/execbus/execbus/messages"
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
	fmt.Fprintln(std.err, "execbus:", shownOn(std.err, err.Error()))
	return exitFailed
}

// shownOn is a text as it is for a program that reads it, but on a terminal every character of it can be seen: the author of a patch may have
// chosen a path in it.
func shownOn(w io.Writer, text string) string {
	if other, waits := w.(quiet); waits {
		w = other.Writer
	}
	if file, isFile := w.(*os.File); !isFile || !term.IsTerminal(int(file.Fd())) {
		return text
	}
	var shown strings.Builder
	for line := range strings.Lines(text) {
		rest, ends := strings.CutSuffix(line, "\n")
		shown.WriteString(messages.Visible(rest))
		if ends {
			shown.WriteByte('\n')
		}
	}
	return shown.String()
}

// maxEdits is how many letters a suggestion may differ by.
const maxEdits = 2

// didYouMean returns a suggestion of the name nearest to a wrong one, or nothing.
func didYouMean(wrong, prefix string, names []string) string {
	best, least := "", maxEdits+1
	for _, name := range names {
		if n := edits(wrong, name); n < least && n < len(name) {
			best, least = name, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// edits counts the letters to insert, remove or replace (Levenshtein's distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
