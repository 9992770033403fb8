package messages

import (
	"encoding/json"
	"errors"
	"strings"
)

var errEmptyPolicy = errors.New("it is empty; name a policy")

// ParseApprovalPolicy understands what a person writes for an approval policy: the name of a mode, or a policy in JSON. The name
// "granular" alone lets requests for more than the sandbox allows, and rules, lead to questions.
func ParseApprovalPolicy(text string) (ApprovalPolicy, error) {
	var p ApprovalPolicy
	switch {
	case text == "":
		return p, errEmptyPolicy
	case strings.HasPrefix(text, "{"):
		return p, json.Unmarshal([]byte(text), &p)
	}
	if p.Mode = ApprovalMode(text); p.Mode == ApproveGranular {
		p.Granular = GranularApproval{SandboxApproval: true, Rules: true}
	}
	return p, p.Check()
}

// ParseSandboxPolicy understands what a person writes for a sandbox policy: the name of a type, or a policy in JSON. An unknown
// field is an error.
func ParseSandboxPolicy(text string) (SandboxPolicy, error) {
	if text == "" {
		return SandboxPolicy{}, errEmptyPolicy
	}
	p := SandboxPolicy{Type: SandboxType(text)}
	if strings.HasPrefix(text, "{") {
		p.Type = ""
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&p); err != nil {
			return p, err
		}
		if decoder.More() {
			return p, errors.New("there is something behind the policy; remove it")
		}
	}
	if p.Type == "" {
		return p, errors.New("it names no type; use danger-full-access, read-only, workspace-write or external-sandbox")
	}
	return p, p.Check()
}
