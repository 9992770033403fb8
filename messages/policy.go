package messages

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ApprovalMode says when a person is asked before a command runs.
type ApprovalMode string

// The modes. The zero value means ApproveOnRequest.
const (
	ApproveUntrusted ApprovalMode = "untrusted"  // before every command that is not known to be safe
	ApproveOnFailure ApprovalMode = "on-failure" // after the sandbox has stopped a command, before it runs again without one
	ApproveOnRequest ApprovalMode = "on-request" // before a command that asks for more than the sandbox allows
	ApproveGranular  ApprovalMode = "granular"   // as on-request, but each reason to ask can be switched off
	ApproveNever     ApprovalMode = "never"      // never; a command that would need an answer is refused
)

// RulesUnreadable says what happens to a command that runs something which its text does not say, so that rules which forbid or ask
// cannot be applied to it, where the approval policy does not let anybody be asked, or nobody is there.
type RulesUnreadable string

// The answers. The zero value means UnreadableRun.
const (
	UnreadableRun    RulesUnreadable = "run"    // it runs, and ToolDecision.Unread says why the rules could not be applied
	UnreadableReject RulesUnreadable = "reject" // it is rejected
)

// Check returns an error for an unknown answer.
func (u RulesUnreadable) Check() error {
	switch u {
	case "", UnreadableRun, UnreadableReject:
		return nil
	}
	return &Error{Code: ErrInvalidRequest, Op: "configure", Subject: "unreadable commands", Detail: fmt.Sprintf("there is no answer %q; use run or reject", string(u))}
}

// GranularApproval says, for the mode ApproveGranular, which reasons may lead to a question. For any other reason the command is
// refused.
type GranularApproval struct {
	SandboxApproval    bool `json:"sandbox_approval"`    // a request for more than the sandbox allows
	Rules              bool `json:"rules"`               // a rule that asks
	SkillApproval      bool `json:"skill_approval"`      // stored, but without effect
	RequestPermissions bool `json:"request_permissions"` // stored, but without effect
	MCPElicitations    bool `json:"mcp_elicitations"`    // stored, but without effect
}

// ApprovalPolicy is a mode with its details. In JSON it is the mode's name, or {"granular": {…}}.
type ApprovalPolicy struct {
	Mode     ApprovalMode
	Granular GranularApproval // for ApproveGranular only
}

// MarshalJSON implements json.Marshaler.
func (p ApprovalPolicy) MarshalJSON() ([]byte, error) {
	if p.Mode == ApproveGranular {
		return json.Marshal(map[ApprovalMode]GranularApproval{ApproveGranular: p.Granular})
	}
	return json.Marshal(p.String())
}

// UnmarshalJSON implements json.Unmarshaler. Unknown modes are errors.
func (p *ApprovalPolicy) UnmarshalJSON(text []byte) error {
	var mode ApprovalMode
	if json.Unmarshal(text, &mode) == nil {
		policy := ApprovalPolicy{Mode: mode}
		if err := policy.Check(); err != nil || mode == ApproveGranular {
			return fmt.Errorf("approval policy %q: use untrusted, on-failure, on-request, never or {\"granular\": {…}}", mode)
		}
		*p = policy
		return nil
	}
	var object struct {
		Granular *GranularApproval `json:"granular"`
	}
	if err := json.Unmarshal(text, &object); err != nil || object.Granular == nil {
		return fmt.Errorf("an approval policy is the name of a mode or {\"granular\": {…}}, not %.60s", text)
	}
	*p = ApprovalPolicy{Mode: ApproveGranular, Granular: *object.Granular}
	return nil
}

// Check returns an error for an unknown mode.
func (p ApprovalPolicy) Check() error {
	switch p.Mode {
	case "", ApproveUntrusted, ApproveOnFailure, ApproveOnRequest, ApproveGranular, ApproveNever:
		return nil
	}
	return &Error{Code: ErrInvalidRequest, Op: "configure", Subject: "approval policy",
		Detail: fmt.Sprintf("there is no mode %q; use untrusted, on-failure, on-request, granular or never", p.Mode)}
}

// String is the mode.
func (p ApprovalPolicy) String() string {
	if p.Mode == "" {
		return string(ApproveOnRequest)
	}
	return string(p.Mode)
}

// SandboxType names a sandbox policy.
type SandboxType string

// The types. The zero value means SandboxReadOnly.
const (
	SandboxDangerFullAccess SandboxType = "danger-full-access"
	SandboxReadOnly         SandboxType = "read-only"
	SandboxWorkspaceWrite   SandboxType = "workspace-write"
	SandboxExternal         SandboxType = "external-sandbox" // something other than execbus confines the command
)

// SandboxPolicy says what a confined command may do. It is a value and is never changed.
type SandboxPolicy struct {
	Type SandboxType `json:"type"`
	// NetworkAccess lets a read-only, workspace-write or external-sandbox command use the network.
	NetworkAccess bool `json:"network_access,omitempty"`
	// Network lets a read-only or workspace-write command talk to some hosts and to no other: those that its rules and the network
	// rules of rule files allow, and those that a person allows where they or the default ask. Only an isolated command can be
	// held to that. It cannot be set with NetworkAccess.
	Network *NetworkPolicy `json:"network,omitempty"`
	// For workspace-write: the writable directories besides the working directory, and whether $TMPDIR and /tmp are not writable.
	WritableRoots       []string `json:"writable_roots,omitempty"`
	ExcludeTmpdirEnvVar bool     `json:"exclude_tmpdir_env_var,omitempty"`
	ExcludeSlashTmp     bool     `json:"exclude_slash_tmp,omitempty"`
	// ProtectedNames are file names besides .git, .agents and .codex that stay read-only at the top of each writable root, unless
	// WritableRoots names that very file. Missing ones cannot be made, but for those in $TMPDIR and /tmp.
	ProtectedNames []string `json:"protected_names,omitempty"`
	// DeniedReads are absolute paths that cannot be read, with everything below them.
	DeniedReads []string `json:"denied_reads,omitempty"`
	// Sockets are absolute paths of unix sockets outside of the writable roots that a command can still reach.
	Sockets []string `json:"sockets,omitempty"`
}

// MaxPolicyPaths bounds each of the lists of a SandboxPolicy.
const MaxPolicyPaths = 16

// Confined reports whether execbus must confine a command under this policy.
func (p SandboxPolicy) Confined() bool {
	return p.Type != SandboxDangerFullAccess && p.Type != SandboxExternal
}

// Check returns an error for an unknown type, a path that is not absolute, and a name that is a path.
func (p SandboxPolicy) Check() error {
	switch p.Type {
	case "", SandboxDangerFullAccess, SandboxReadOnly, SandboxWorkspaceWrite, SandboxExternal:
	default:
		return badPolicy("there is no type %q; use danger-full-access, read-only, workspace-write or external-sandbox", p.Type)
	}
	for _, list := range []struct {
		field string
		paths []string
	}{{"writable_roots", p.WritableRoots}, {"denied_reads", p.DeniedReads}, {"sockets", p.Sockets}, {"protected_names", p.ProtectedNames}} {
		if len(list.paths) > MaxPolicyPaths {
			return badPolicy("%s has %d entries; name at most %d", list.field, len(list.paths), MaxPolicyPaths)
		}
		for _, path := range list.paths {
			switch {
			case strings.ContainsRune(path, 0):
				return badPolicy("%q in %s contains a NUL byte; remove it", path, list.field)
			case list.field == "protected_names":
				if path == "" || path == "." || path == ".." || strings.Contains(path, "/") {
					return badPolicy("%q in protected_names is not the name of a file; leave directories out", path)
				}
			case !strings.HasPrefix(path, "/"):
				return badPolicy("%q in %s is not absolute; use an absolute path", path, list.field)
			}
		}
	}
	switch {
	case p.Network == nil:
		return nil
	case !p.Confined():
		return badPolicy("%s confines nothing, so it cannot let commands talk to some hosts only; use workspace-write or read-only", p.Type)
	case p.NetworkAccess:
		return badPolicy("it lets commands use all of the network, and some hosts only; choose one")
	}
	return p.Network.Check()
}

func badPolicy(format string, args ...any) error {
	return &Error{Code: ErrInvalidRequest, Op: "configure", Subject: "sandbox policy", Detail: fmt.Sprintf(format, args...)}
}

// String is the policy as a person reads it: "workspace-write, also /data, no network".
func (p SandboxPolicy) String() string {
	kind := p.Type
	if kind == "" {
		kind = SandboxReadOnly
	}
	if kind == SandboxDangerFullAccess {
		return string(kind)
	}
	words := []string{string(kind)}
	if kind == SandboxWorkspaceWrite && len(p.WritableRoots) > 0 {
		words = append(words, "also "+strings.Join(p.WritableRoots, " "))
	}
	switch {
	case p.NetworkAccess:
		words = append(words, "network")
	case p.Network != nil:
		words = append(words, p.Network.String())
	default:
		words = append(words, "no network")
	}
	return strings.Join(words, ", ")
}

// SandboxPermissions is what a request asks for beyond the session's sandbox.
type SandboxPermissions string

// The permissions. The zero value means PermissionsUseDefault.
const (
	PermissionsUseDefault       SandboxPermissions = "use_default"
	PermissionsRequireEscalated SandboxPermissions = "require_escalated"           // run without a sandbox
	PermissionsWithAdditional   SandboxPermissions = "with_additional_permissions" // run in a wider sandbox
)

// AdditionalPermissions is what a request with PermissionsWithAdditional asks for.
type AdditionalPermissions struct {
	Network    *NetworkPermissions    `json:"network,omitempty"`
	FileSystem *FileSystemPermissions `json:"file_system,omitempty"`
}

// Location is where a path led when it was looked up, on the machine on which commands run.
type Location struct {
	// Path has no symbolic links. It is a directory, and below that names that belong to a file or to nothing.
	Path string `json:"path"`
	// Device, Inode and Born identify the directory. Born is the time of its birth in nanoseconds since 1970; 0 where the file system
	// knows none.
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Born   int64  `json:"born,omitempty"`
	// Below are the names below the directory, with slashes between them.
	Below string `json:"below,omitempty"`
}

// NetworkPermissions are about the network.
type NetworkPermissions struct {
	Enabled bool `json:"enabled"`
}

// FileSystemPermissions are paths; relative ones are relative to the command's working directory.
type FileSystemPermissions struct {
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
}

// Empty reports whether nothing is asked for.
func (p *AdditionalPermissions) Empty() bool {
	return p == nil || (p.Network == nil || !p.Network.Enabled) &&
		(p.FileSystem == nil || len(p.FileSystem.Read)+len(p.FileSystem.Write) == 0)
}

// String is one phrase: "network, read /a /b, write /c"; empty if nothing is asked for.
func (p *AdditionalPermissions) String() string {
	if p.Empty() {
		return ""
	}
	var words []string
	if p.Network != nil && p.Network.Enabled {
		words = append(words, "network")
	}
	if files := p.FileSystem; files != nil {
		for _, access := range []struct {
			name  string
			paths []string
		}{{"read", files.Read}, {"write", files.Write}} {
			if len(access.paths) > 0 {
				words = append(words, access.name+" "+strings.Join(access.paths, " "))
			}
		}
	}
	return strings.Join(words, ", ")
}

// CommandPolicy is the part of a command that says what it may do; ExecCommand and RunCommand share it.
type CommandPolicy struct {
	// SandboxPermissions asks for more than the session's sandbox allows. Justification tells the person who is asked, if one is,
	// why the command is needed.
	SandboxPermissions SandboxPermissions `json:"sandboxPermissions,omitempty"`
	Justification      string             `json:"justification,omitempty"`
	// AdditionalPermissions belongs to PermissionsWithAdditional.
	AdditionalPermissions *AdditionalPermissions `json:"additionalPermissions,omitempty"`
	// PrefixRule is the prefix that the caller suggests for a rule about commands like this one.
	PrefixRule []string `json:"prefixRule,omitempty"`
}
