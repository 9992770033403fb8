package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// policies holds the policies that the flags set.
type policies struct {
	approval messages.ApprovalPolicy
	sandbox  messages.SandboxPolicy
	rules    []string // files, by absolute paths; none: the user's own
}

// policyFlags adds the flags to a set.
func policyFlags(flags *flag.FlagSet) *policies {
	p := &policies{sandbox: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}}
	flags.Func("approval", "", func(text string) (err error) {
		p.approval, err = messages.ParseApprovalPolicy(text)
		return err
	})
	flags.Func("sandbox", "", func(text string) (err error) {
		p.sandbox, err = messages.ParseSandboxPolicy(text)
		return err
	})
	flags.Func("rules", "", func(file string) error {
		full, err := filepath.Abs(file)
		if err == nil {
			_, err = os.Stat(full)
		}
		p.rules = append(p.rules, full)
		return err
	})
	return p
}

// amendments returns the file for rules that people make by their answers: the last file that a flag named, or the user's
// own. It is empty if there is no place for one.
func (p *policies) amendments() string {
	if len(p.rules) > 0 {
		return p.rules[len(p.rules)-1]
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "execbus", "rules", "default.rules")
}

// start starts a runtime with a session. With a nil approver, nobody can be asked. A broken file that a flag named is an error,
// because it may forbid something.
func (p *policies) start(approver execbus.Approver, environment messages.EnvironmentPolicy) (*execbus.Runtime, *execbus.Session, error) {
	options := execbus.Options{AmendmentFile: p.amendments()}
	if len(p.rules) > 0 {
		options.Rules = []execbus.RuleLayer{{Files: p.rules, Trusted: true}}
	} else if options.AmendmentFile != "" {
		options.Rules = []execbus.RuleLayer{{Dir: filepath.Dir(options.AmendmentFile), Trusted: true}}
	}
	rt, err := execbus.Start(options)
	if err != nil {
		return nil, nil, err
	}
	if broken := rt.RuleErrors(); len(p.rules) > 0 && len(broken) > 0 {
		return nil, nil, errors.Join(usageError(errors.Join(broken...).Error()), shutdown(rt))
	}
	for _, err := range rt.RuleErrors() {
		fmt.Fprintln(os.Stderr, "demo: a rule file is ignored because of an error:", err)
	}
	session, err := rt.OpenSession(execbus.SessionOptions{Approval: p.approval, Sandbox: &p.sandbox, Approver: approver, Environment: environment})
	if err != nil {
		return nil, nil, errors.Join(err, shutdown(rt))
	}
	return rt, session, nil
}

// makeRoom makes the directories for the user's own rules. Errors are reported when the rule is written.
func (p *policies) makeRoom() {
	if file := p.amendments(); file != "" {
		_ = os.MkdirAll(filepath.Dir(file), 0o700)
	}
}
