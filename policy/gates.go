package policy

import (
	"fmt"
	"strings"

	"github.com/execbus/execbus/messages"
)

// override reports whether a request asks for more than the session's sandbox allows.
func override(p messages.CommandPolicy) bool {
	return p.SandboxPermissions != "" && p.SandboxPermissions != messages.PermissionsUseDefault
}

// CheckCommand finds errors in the policy part of a command, before anything is decided about it. The plan rejects a
// request that is well formed but not allowed under the approval policy.
func CheckCommand(command messages.CommandPolicy, approval messages.ApprovalPolicy) error {
	switch command.SandboxPermissions {
	case "", messages.PermissionsUseDefault, messages.PermissionsRequireEscalated, messages.PermissionsWithAdditional:
	default:
		return invalid("sandboxPermissions", fmt.Sprintf("there are no permissions %q; use %q, %q or %q", command.SandboxPermissions, messages.PermissionsUseDefault,
			messages.PermissionsRequireEscalated, messages.PermissionsWithAdditional), "")
	}
	if gate(command, approval) != "" {
		return nil
	}
	asks := command.SandboxPermissions == messages.PermissionsWithAdditional
	switch additional := command.AdditionalPermissions; {
	case asks && additional == nil:
		return invalid("additionalPermissions", "additional permissions are requested, but none are named; ask for the network, or name paths",
			"set AdditionalPermissions")
	case asks && additional.Empty():
		return invalid("additionalPermissions", "nothing is asked for; ask for the network, or name paths", "set Network or FileSystem")
	case !asks && additional != nil:
		return invalid("additionalPermissions", "additional permissions are named, but not requested; request them, or leave them out",
			"set SandboxPermissions to WithAdditionalPermissions")
	case asks:
		return checkPaths(additional.FileSystem)
	}
	return nil
}

// checkPaths refuses patterns, because a path stands for a single place.
func checkPaths(files *messages.FileSystemPermissions) error {
	if files == nil {
		return nil
	}
	for _, path := range append(append([]string(nil), files.Read...), files.Write...) {
		if path == "" || strings.ContainsAny(path, "*?\x00") {
			return invalid("additionalPermissions", fmt.Sprintf("%q is not a path; name files or directories, not patterns", path), "")
		}
	}
	return nil
}

func invalid(subject, detail, hint string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "exec", Subject: subject, Detail: detail, Hint: hint}
}

// gate returns why a request for more than the sandbox allows is rejected without a question, or nothing if it is not. Only
// under on-request may a person be asked for a wider sandbox. Wherever the policy allows questions, a person may be asked to run
// the command without one.
func gate(command messages.CommandPolicy, approval messages.ApprovalPolicy) string {
	mode := messages.ApprovalMode(approval.String())
	switch {
	case !override(command) || mode == messages.ApproveOnRequest:
		return ""
	case command.SandboxPermissions == messages.PermissionsWithAdditional:
		return fmt.Sprintf("rejected: you cannot request additional permissions, because the approval policy is %s, not on-request; "+
			"run the command without them", approval)
	case mode == messages.ApproveGranular && !approval.Granular.SandboxApproval:
		return "rejected: you cannot ask to run it without a sandbox, because the approval policy is granular and its setting " +
			"sandbox_approval is off; run the command without them"
	case mode == messages.ApproveUntrusted || mode == messages.ApproveGranular:
		return ""
	}
	return fmt.Sprintf("reject command: you cannot ask for escalated permissions, because the approval policy is %s; run the "+
		"command without them", approval)
}

// refuse returns why a command is rejected before it is judged, or nothing if it is not. It rejects malformed commands, too, for
// callers that did not use CheckCommand.
func refuse(command messages.CommandPolicy, approval messages.ApprovalPolicy) string {
	if reason := gate(command, approval); reason != "" {
		return reason
	}
	if err := CheckCommand(command, approval); err != nil {
		return "rejected: " + err.Error()
	}
	if err := approval.Check(); err != nil {
		return "rejected: " + err.Error()
	}
	return ""
}
