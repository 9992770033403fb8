package main

import (
	"encoding/json"
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
	flags.Func("approval", "", p.setApproval)
	flags.Func("sandbox", "", p.setSandbox)
	flags.Func("rules", "", p.addRules)
	return p
}

func (p *policies) setApproval(text string) (err error) {
	p.approval, err = messages.ParseApprovalPolicy(text)
	return err
}

func (p *policies) setSandbox(text string) (err error) {
	p.sandbox, err = messages.ParseSandboxPolicy(text)
	return err
}

func (p *policies) addRules(file string) error {
	full, err := filepath.Abs(file)
	if err == nil {
		_, err = os.Stat(full)
	}
	p.rules = append(p.rules, full)
	return err
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

// options returns the options of the runtime.
func (p *policies) options() execbus.Options {
	options := execbus.Options{AmendmentFile: p.amendments()}
	if len(p.rules) > 0 {
		options.Rules = []execbus.RuleLayer{{Files: p.rules, Trusted: true}}
	} else if options.AmendmentFile != "" {
		options.Rules = []execbus.RuleLayer{{Dir: filepath.Dir(options.AmendmentFile), Trusted: true}}
	}
	return options
}

// check reads the named files. A broken file is an error, because it may forbid something.
func (p *policies) check() error {
	if len(p.rules) == 0 {
		return nil
	}
	rt, err := execbus.Start(p.options())
	if err != nil {
		return err
	}
	return errors.Join(append(rt.RuleErrors(), shutdown(rt))...)
}

// start starts a runtime with a session. With a nil approver, nobody can be asked.
func (p *policies) start(approver execbus.Approver, environment messages.EnvironmentPolicy) (*execbus.Runtime, *execbus.Session, error) {
	rt, err := execbus.Start(p.options())
	if err != nil {
		return nil, nil, err
	}
	for _, err := range rt.RuleErrors() {
		fmt.Fprintln(os.Stderr, "demo: a rule file is ignored because of an error:", err)
	}
	session, err := rt.OpenSession(execbus.SessionOptions{Approval: p.approval, Sandbox: &p.sandbox, Approver: approver, Environment: environment})
	return rt, session, err
}

// makeRoom makes the directories for the user's own rules. Errors are reported when the rule is written.
func (p *policies) makeRoom() {
	if file := p.amendments(); file != "" {
		_ = os.MkdirAll(filepath.Dir(file), 0o700)
	}
}

// String returns the text that :policy shows.
func (p *policies) String() string {
	approval := p.approval.String()
	if p.approval.Mode == messages.ApproveGranular {
		text, _ := json.Marshal(p.approval) // a struct of booleans
		approval = string(text)
	}
	text := fmt.Sprintf("approval: %s\nsandbox: %s\n", approval, p.sandbox)
	for _, file := range p.rules {
		text += "rules: " + messages.Visible(file) + "\n"
	}
	file := p.amendments()
	switch {
	case file == "":
		return text + "new rules: last as long as the demo, because there is no directory for the user's configuration\n"
	case len(p.rules) == 0:
		text += "rules: " + messages.Visible(filepath.Join(filepath.Dir(file), "*.rules")) + "\n"
	}
	return text + "new rules: written to " + messages.Visible(file) + "\n"
}
