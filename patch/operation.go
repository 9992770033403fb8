package patch

// Kind says what an operation does to a file.
type Kind string

// The kinds.
const (
	Add    Kind = "add"    // write a whole file
	Delete Kind = "delete" // remove a file, or a symbolic link itself
	Update Kind = "update" // change lines of a file, and perhaps move it
)

// Patch is a list of operations. They are done one after the other, and each sees what the one before did.
type Patch struct {
	Operations    []Operation
	EnvironmentID string // from the optional second line; it means nothing here
}

// Operation is what a patch does to one file.
type Operation struct {
	Kind   Kind
	Path   string // as it is written in the patch
	MoveTo string // Update: the new path, as it is written; empty: it stays
	Line   int    // of the patch, where it begins; the first line is 1
}

// Paths are all files to look at before the patch can be planned: dir itself first, then the paths of the operations, each
// once. They are absolute, and joined to dir as text: "nope/../x" is "x", whatever nope is.
func (p *Patch) Paths(dir string) []string { return nil }
