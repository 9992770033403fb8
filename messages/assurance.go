package messages

import (
	"fmt"
	"slices"
	"strings"
)

// Assurance says how much of a sandbox policy is enforced.
type Assurance string

// The assurances, the weakest first. In a request the zero value means AssuranceIsolated if the policy protects a name inside of
// a writable root or denies reads, and otherwise AssuranceConfined.
const (
	// AssuranceNone enforces nothing.
	AssuranceNone Assurance = "none"
	// AssuranceConfined enforces what Landlock and seccomp can: files, network and signals. It protects nothing inside of a writable
	// root, and other processes are visible.
	AssuranceConfined Assurance = "confined"
	// AssuranceIsolated enforces all of the policy, with namespaces.
	AssuranceIsolated Assurance = "isolated"
)

var assurances = []Assurance{AssuranceNone, AssuranceConfined, AssuranceIsolated}

// AtLeast reports whether an assurance is at least as strong as another. An unknown one counts as AssuranceNone.
func (a Assurance) AtLeast(other Assurance) bool {
	return slices.Index(assurances, a) >= max(0, slices.Index(assurances, other))
}

// Check returns an error for an unknown assurance.
func (a Assurance) Check() error {
	if a == "" || slices.Contains(assurances, a) {
		return nil
	}
	return &Error{Code: ErrInvalidRequest, Op: "configure", Subject: "assurance",
		Detail: fmt.Sprintf("there is no %q; use none, confined or isolated", string(a))}
}

// Enforcement is what is enforced for one attempt to run a command. It is a value and is never changed.
type Enforcement struct {
	Level Assurance `json:"level"`
	// Mechanisms are the parts of the kernel that enforce it: "landlock", "seccomp", "no_new_privs", "capabilities", and others.
	Mechanisms  []string `json:"mechanisms,omitempty"`
	LandlockABI int      `json:"landlockAbi,omitempty"` // zero without Landlock
	// Executions says that the launch asked for its executions to be seen, and that they are. If they cannot be, the reason is among
	// Missing.
	Executions bool `json:"executions,omitempty"`
	// Missing lists the parts of the policy that are not enforced.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing is a part of a policy that is not enforced.
type Missing struct {
	What string `json:"what"` // such as "signals to other processes"
	Why  string `json:"why"`
	// Step and Errno say which step failed, and how, if one did.
	Step  string `json:"step,omitempty"`
	Errno int    `json:"errno,omitempty"`
}

// String is one phrase: "signals to other processes (needs Landlock ABI 6)".
func (m Missing) String() string { return m.What + " (" + m.Why + ")" }

// String is one phrase: "confined by landlock, seccomp; missing: signals to other processes (needs Landlock ABI 6)".
func (e Enforcement) String() string {
	text := string(e.Level)
	if len(e.Mechanisms) > 0 {
		text += " by " + strings.Join(e.Mechanisms, ", ")
	}
	for i, m := range e.Missing {
		text += []string{"; missing: ", ", "}[min(i, 1)] + m.String()
	}
	return text
}
