package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
)

func patchUsage() string {
	return `Usage:
  execbus patch [SETTING]... < PATCH

Applies a patch from "*** Begin Patch" to "*** End Patch", all of it or nothing. Files are read and written in a sandbox. If a
patch needs an approval, because it changes files elsewhere, patch asks on the terminal. Without a terminal it rejects the patch.

` + settingsHelp("patch") + `
Exit codes: 0 if all was done, 1 if nothing was changed or the error names what is, 2 for wrong usage or settings and for an empty input.

Examples:
  execbus patch --check < change.patch
  execbus patch --dir ../project < change.patch
`
}

// applyPatch runs "patch".
func applyPatch(args []string, std streams) int {
	c := &config{sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}
	rest, code, done := configure("patch", patchUsage(), c, args, std)
	if done {
		return code
	}
	if len(rest) > 0 {
		return misused(std, fmt.Sprintf("the patch comes from standard input; leave out %q", rest[0]), patchUsage())
	}
	if err := c.settle("--dir", c.dir, std); err != nil {
		return failed(std, err)
	}
	text, err := io.ReadAll(io.LimitReader(std.in, patch.MaxPatch+1))
	if err != nil {
		return failed(std, err)
	}
	if len(text) == 0 {
		return misused(std, "the input is empty; send a patch", patchUsage())
	}
	rt, err := c.start(std)
	if err != nil {
		return failed(std, err)
	}
	defer func() { _ = shutdown(rt) }()
	options := c.session()
	if person := findPerson(nil); person != nil {
		defer person.leave()
		options.Approver = person
	}
	session, err := rt.OpenSession(options)
	if err != nil {
		return failed(std, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	result, err := session.ApplyPatch(ctx, messages.ApplyPatch{Text: string(text), CheckOnly: c.check})
	switch {
	case err != nil:
		adviseAssurance(err, std)
		return failed(std, err)
	case c.json:
		_ = json.NewEncoder(std.out).Encode(result)
	case c.check:
		fmt.Fprint(std.out, "It can be applied. It would say:\n", shownOn(std.out, result.Summary))
	default:
		fmt.Fprint(std.out, shownOn(std.out, result.Summary))
	}
	return 0
}

const recoverUsage = `Usage:
  execbus patch recover

Settles what programs that were killed have left of patches: all files of a patch are as before it, or as after it. What somebody
else has changed since is left alone, and named. Every patch does this first.

Exit codes: 0, 1 if a patch could not be settled or execbus failed, 2 for wrong usage.

Example:
  execbus patch recover
`

// recoverPatches runs "patch recover".
func recoverPatches(args []string, std streams) int {
	flags := flag.NewFlagSet("patch recover", flag.ContinueOnError)
	if code, done := parse(flags, args, recoverUsage, std); done {
		return code
	}
	if flags.NArg() > 0 {
		return misused(std, fmt.Sprintf("patch recover takes no arguments; leave out %q", flags.Arg(0)), recoverUsage)
	}
	rt, err := (&config{}).start(std)
	if err != nil {
		return failed(std, err)
	}
	defer func() { _ = shutdown(rt) }()
	all, err := rt.RecoverPatches(context.Background())
	for _, text := range all {
		fmt.Fprintln(std.out, shownOn(std.out, text))
	}
	if err != nil {
		return failed(std, err)
	}
	if len(all) == 0 {
		fmt.Fprintln(std.out, "there is nothing to settle")
	}
	return 0
}
