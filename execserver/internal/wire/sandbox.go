package wire

import (
	"slices"

	"github.com/execbus/execbus/messages"
)

// Sandbox is a confinement that the server must enforce, or refuse. The fields from Least on are extensions.
type Sandbox struct {
	Permissions Permissions `json:"permissions" strict:""`
	// Cwd and WorkspaceRoots are file: URIs or absolute paths. Without roots, the project is in Cwd.
	Cwd            *string  `json:"cwd,omitempty"`
	WorkspaceRoots []string `json:"workspaceRoots,omitempty"`
	// TemporaryDirectories are what SpecialTmpdir means; without them it means the server's TMPDIR.
	TemporaryDirectories []string `json:"temporaryDirectories,omitempty"`

	Least      messages.Assurance              `json:"least,omitempty"`
	Sockets    []string                        `json:"sockets,omitempty"`              // see messages.SandboxPolicy
	Additional *messages.AdditionalPermissions `json:"additional,omitempty" strict:""` // relative to Cwd
}

// Permissions say what a sandbox allows.
type Permissions struct {
	Type       PermissionsType `json:"type"`
	FileSystem *FileSystem     `json:"file_system,omitempty"` // with PermissionsManaged
	Network    *Network        `json:"network,omitempty"`     // nil means NetworkRestricted
}

// PermissionsType says who confines a command.
type PermissionsType string

// The types.
const (
	PermissionsManaged  PermissionsType = "managed"
	PermissionsDisabled PermissionsType = "disabled" // nobody
	PermissionsExternal PermissionsType = "external" // somebody else
)

// Network says whether a command may use the network.
type Network string

// The values.
const (
	NetworkRestricted Network = "restricted"
	NetworkEnabled    Network = "enabled"
)

// FileSystem says what a command may read and write. Without an entry a path is out of reach; the most specific entry counts.
type FileSystem struct {
	Type             FileSystemType    `json:"type"`
	Entries          []FileSystemEntry `json:"entries,omitempty"`
	GlobScanMaxDepth *uint64           `json:"glob_scan_max_depth,omitempty"` // for patterns, which a server of execbus refuses
}

// FileSystemType is the kind of a FileSystem.
type FileSystemType string

// The types.
const (
	FileSystemRestricted   FileSystemType = "restricted"
	FileSystemUnrestricted FileSystemType = "unrestricted" // everything may be written; there are no entries
)

// FileSystemEntry is the access to a path and everything below it.
type FileSystemEntry struct {
	Path                FileSystemPath   `json:"path"`
	Access              FileSystemAccess `json:"access"`
	MissingPathBehavior *string          `json:"missing_path_behavior,omitempty"` // MissingSkip
}

// MissingSkip says that an entry has no effect if nothing is at its path.
const MissingSkip = "skip"

// FileSystemAccess is what a command may do with a path.
type FileSystemAccess string

// The accesses.
const (
	AccessRead  FileSystemAccess = "read"
	AccessWrite FileSystemAccess = "write"
	AccessDeny  FileSystemAccess = "deny"
	AccessNone  FileSystemAccess = "none" // an older name of AccessDeny
)

// FileSystemPath names paths.
type FileSystemPath struct {
	Type    PathType     `json:"type"`
	Path    *string      `json:"path,omitempty"`    // with PathPlain: a file: URI or an absolute path
	Pattern *string      `json:"pattern,omitempty"` // with PathPattern
	Value   *SpecialPath `json:"value,omitempty"`   // with PathSpecial
}

// PathType is the kind of a FileSystemPath.
type PathType string

// The types.
const (
	PathPlain   PathType = "path"
	PathPattern PathType = "glob_pattern"
	PathSpecial PathType = "special"
)

// SpecialPath is a place that has a name.
type SpecialPath struct {
	Kind    SpecialKind `json:"kind"`
	Subpath *string     `json:"subpath,omitempty"` // below SpecialProjectRoots
}

// SpecialKind is the name of a place.
type SpecialKind string

// The names.
const (
	SpecialRoot         SpecialKind = "root"
	SpecialProjectRoots SpecialKind = "project_roots"
	SpecialSlashTmp     SpecialKind = "slash_tmp"
	SpecialTmpdir       SpecialKind = "tmpdir"
)

// SandboxType says what confines a process.
type SandboxType string

// The types.
const (
	SandboxNone              SandboxType = "none"
	SandboxMacOSSeatbelt     SandboxType = "macosSeatbelt"
	SandboxLinuxSeccomp      SandboxType = "linuxSeccomp"
	SandboxWindowsRestricted SandboxType = "windowsRestrictedToken"
)

// SandboxOf writes a policy as the protocol has it, for a working directory and a temporary directory; empty means none.
func SandboxOf(p messages.SandboxPolicy, dir, temp string) (s Sandbox) {
	if p.NetworkAccess {
		s.Permissions.Network = new(NetworkEnabled)
	}
	switch p.Type {
	case messages.SandboxDangerFullAccess:
		s.Permissions = Permissions{Type: PermissionsDisabled}
		return s
	case messages.SandboxExternal:
		s.Permissions.Type = PermissionsExternal
		return s
	}
	s.Sockets = p.Sockets
	if dir != "" {
		s.Cwd, s.WorkspaceRoots = new(FileURI(dir)), []string{FileURI(dir)}
	}
	entries := []FileSystemEntry{special(SpecialRoot, AccessRead)}
	if p.Type == messages.SandboxWorkspaceWrite {
		entries = append(entries, writable(p)...)
		if temp != "" && !p.ExcludeTmpdirEnvVar {
			s.TemporaryDirectories = []string{FileURI(temp)}
			entries = append(entries, special(SpecialTmpdir, AccessWrite))
		}
	}
	for _, path := range p.DeniedReads {
		entries = append(entries, absolute(path, AccessDeny))
	}
	s.Permissions.Type, s.Permissions.FileSystem = PermissionsManaged, &FileSystem{Type: FileSystemRestricted, Entries: entries}
	return s
}

// writable returns the entries of workspace-write, except the one for the temporary directory.
func writable(p messages.SandboxPolicy) []FileSystemEntry {
	entries := []FileSystemEntry{special(SpecialProjectRoots, AccessWrite)}
	for _, path := range p.WritableRoots {
		entries = append(entries, absolute(path, AccessWrite))
	}
	if !p.ExcludeSlashTmp {
		entries = append(entries, special(SpecialSlashTmp, AccessWrite))
	}
	for _, name := range append(slices.Clone(AlwaysProtected), p.ProtectedNames...) {
		protected := special(SpecialProjectRoots, AccessRead)
		protected.Path.Value.Subpath, protected.MissingPathBehavior = &name, new(MissingSkip)
		entries = append(entries, protected)
	}
	return entries
}

// AlwaysProtected are the names that stay as they are at the top of writable directories even if no entry protects them.
var AlwaysProtected = []string{".git", ".agents", ".codex"}

func special(kind SpecialKind, access FileSystemAccess) FileSystemEntry {
	return FileSystemEntry{Path: FileSystemPath{Type: PathSpecial, Value: &SpecialPath{Kind: kind}}, Access: access}
}

func absolute(path string, access FileSystemAccess) FileSystemEntry {
	return FileSystemEntry{Path: FileSystemPath{Type: PathPlain, Path: new(FileURI(path))}, Access: access}
}
