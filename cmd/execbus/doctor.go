package main

import (
	"encoding/json"
	"flag"
	"fmt"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

const doctorUsage = `Usage:
  execbus doctor [--json]

Shows the protections that this machine can and cannot enforce, why, and what to change. It tries each kernel mechanism.

Exit codes: 0 if commands can be confined, 1 if not, 2 for wrong usage.

Example:
  $ execbus doctor
`

// doctor runs "doctor".
func doctor(args []string, std streams) int {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	if code, done := parse(flags, args, doctorUsage, std); done {
		return code
	}
	if flags.NArg() > 0 {
		return misused(std, fmt.Sprintf("doctor takes no arguments; leave out %q", flags.Arg(0)), doctorUsage)
	}
	found := sandbox.Probe()
	if *asJSON {
		encoder := json.NewEncoder(std.out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(found); err != nil {
			return failed(std, err)
		}
	} else {
		describe(found, std)
	}
	if found.Level == messages.AssuranceNone {
		return exitFailed
	}
	return 0
}

// describe prints the findings for a person.
func describe(found sandbox.Probed, std streams) {
	fmt.Fprintf(std.out, "The strongest level here: %s\n", found.Level)
	for _, m := range found.Mechanisms {
		works := "no "
		if m.Works {
			works = "yes"
		}
		fmt.Fprintf(std.out, "%s  %-14s  %s\n", works, m.Name, m.Enforces)
		if m.Why != "" {
			fmt.Fprintf(std.out, "       why: %s\n", m.Why)
		}
		if m.Change != "" {
			fmt.Fprintf(std.out, "       what to change: %s\n", m.Change)
		}
	}
}
