package messages

// Inherit says which variables of the host a child starts from.
type Inherit string

// The choices. The zero value means InheritAll.
const (
	InheritAll  Inherit = "all"
	InheritCore Inherit = "core" // PATH, SHELL, TMPDIR, TEMP, TMP, HOME, LANG, LC_ALL, LC_CTYPE, LOGNAME, USER
	InheritNone Inherit = "none"
)

// EnvironmentPolicy says how a child's environment is built from the host's. Names are compared without regard to case;
// patterns are globs with * and ?.
type EnvironmentPolicy struct {
	Inherit Inherit `json:"inherit,omitempty"`
	// DropSecrets removes inherited names that match *KEY*, *SECRET* or *TOKEN*.
	DropSecrets bool `json:"dropSecrets,omitempty"`
	// Exclude removes matching names, inherited ones only.
	Exclude []string `json:"exclude,omitempty"`
	// Set adds or replaces variables.
	Set map[string]string `json:"set,omitempty"`
	// Exact makes Set the whole environment: nothing is inherited, and nothing of ours is added; only to a session's that sets
	// no pager, what keeps programs from paging.
	Exact bool `json:"exact,omitempty"`
	// IncludeOnly, when not empty, keeps only matching names, including those from Set.
	IncludeOnly []string `json:"includeOnly,omitempty"`
}
