package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
)

// settings holds the policies for commands such as "mcp" that run other programs.
type settings struct {
	dir      string
	approval messages.ApprovalPolicy
	sandbox  messages.SandboxPolicy
	rules    []string // files and directories, by absolute paths; none: the user's own
}

// settingsUsage explains the flags.
const settingsUsage = `  --dir DIR             where commands run if they name no other directory; the current one by default
  --approval POLICY     when to ask before a command runs: untrusted, on-failure, on-request (the default), never,
                        granular, or a policy in JSON
  --sandbox POLICY      what commands may do: danger-full-access (the default), external-sandbox if something else
                        confines them, read-only, workspace-write, or a policy in JSON such as
                        {"type":"workspace-write","writable_roots":["/data"],"network_access":true}
  --rules FILE          which commands are allowed, asked about or forbidden: a file, or a directory of which the files
                        *.rules are read; may be given many times. The default is execbus/rules in your
                        configuration directory
`

// settingsFlags adds the flags to a set.
func settingsFlags(flags *flag.FlagSet) *settings {
	s := &settings{sandbox: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}}
	flags.StringVar(&s.dir, "dir", "", "")
	flags.Func("approval", "", s.setApproval)
	flags.Func("sandbox", "", s.setSandbox)
	flags.Func("rules", "", s.addRules)
	return s
}

// setApproval understands the name of a mode, or a policy in JSON.
func (s *settings) setApproval(text string) error {
	if strings.HasPrefix(text, "{") {
		return json.Unmarshal([]byte(text), &s.approval)
	}
	s.approval = messages.ApprovalPolicy{Mode: messages.ApprovalMode(text)}
	if s.approval.Mode == messages.ApproveGranular {
		s.approval.Granular = messages.GranularApproval{SandboxApproval: true, Rules: true}
	}
	if text == "" {
		return errors.New("it is empty")
	}
	return s.approval.Check()
}

// setSandbox understands the name of a type, or a policy in JSON.
func (s *settings) setSandbox(text string) error {
	s.sandbox = messages.SandboxPolicy{Type: messages.SandboxType(text)}
	if strings.HasPrefix(text, "{") {
		s.sandbox.Type = ""
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s.sandbox); err != nil {
			return err
		}
	}
	if s.sandbox.Type == "" {
		return errors.New("it names no type")
	}
	return s.sandbox.Check()
}

func (s *settings) addRules(file string) error {
	full, err := filepath.Abs(file)
	if err == nil {
		_, err = os.Stat(full)
	}
	s.rules = append(s.rules, full)
	return err
}

// runtime returns the options of the runtime. Rules that people make by their answers are written to the last named file, or to
// the user's own.
func (s *settings) runtime() execbus.Options {
	if len(s.rules) > 0 {
		last := s.rules[len(s.rules)-1]
		if info, err := os.Stat(last); err == nil && info.IsDir() {
			last = filepath.Join(last, "default.rules")
		}
		return execbus.Options{Rules: layers(s.rules), AmendmentFile: last}
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return execbus.Options{}
	}
	own := filepath.Join(dir, "execbus", "rules")
	return execbus.Options{Rules: []execbus.RuleLayer{{Dir: own, Trusted: true}}, AmendmentFile: filepath.Join(own, "default.rules")}
}

// session returns the options of sessions.
func (s *settings) session() execbus.SessionOptions {
	return execbus.SessionOptions{Dir: s.dir, Approval: s.approval, Sandbox: &s.sandbox}
}

// start starts a runtime. A named rule file that cannot be used is an error, because it may forbid something. For one of the
// user's own files there is only a warning.
func (s *settings) start(std streams) (*execbus.Runtime, error) {
	rt, err := execbus.Start(s.runtime())
	if err != nil {
		return nil, err
	}
	wrong := errors.Join(rt.RuleErrors()...)
	if wrong == nil {
		return rt, nil
	}
	if len(s.rules) > 0 {
		return nil, errors.Join(wrong, shutdown(rt))
	}
	fmt.Fprintln(std.err, "execbus: a rule file is ignored because of an error:", policy.Visible(wrong.Error()))
	return rt, nil
}
