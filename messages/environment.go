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
// patterns are globs with * and ?. In place of inherited values, a command gets these variables, unless Set has them or
// Exact is true:
//
//	TERM=dumb  NO_COLOR=1  COLORTERM=                     no colours, and nothing for a screen
//	PAGER=cat  GIT_PAGER=cat  GH_PAGER=cat                no program waits for a key
//	LANG=C.UTF-8  LC_CTYPE=C.UTF-8  LC_ALL=C.UTF-8        UTF-8
//	EXECBUS=1                                             a program can see that it runs under execbus
//
// For a terminal that a person looks at, use a real type: Set: map[string]string{"TERM": "xterm-256color"}.
type EnvironmentPolicy struct {
	Inherit Inherit `json:"inherit,omitempty"`
	// DropSecrets removes inherited names that match *KEY*, *SECRET* or *TOKEN*.
	DropSecrets bool `json:"dropSecrets,omitempty"`
	// Exclude removes matching names, inherited ones only.
	Exclude []string `json:"exclude,omitempty"`
	// Set adds or replaces variables; it takes precedence over all others.
	Set map[string]string `json:"set,omitempty"`
	// Exact makes Set the whole environment: nothing is inherited, and none of the variables above is added. One exception: an
	// exact environment of a session that sets no pager gets the variables that keep programs from paging.
	Exact bool `json:"exact,omitempty"`
	// IncludeOnly, when not empty, keeps only matching names, including those from Set.
	IncludeOnly []string `json:"includeOnly,omitempty"`
}
