package confine

// Level is how much of a plan is enforced. A stronger one is greater.
type Level int

// The levels.
const (
	None Level = iota
	Confined
	Isolated
)

// Access is what may be done with a place and all below it.
type Access int

// The accesses. A more specific place takes back or gives what a less specific one said.
const (
	Nothing Access = iota // it cannot be read
	Read
	Write
)

// Place is a path of a plan, as it was when the policy was set.
type Place struct {
	Path   string // absolute and without symbolic links
	Access Access
	// Device and Inode are what it was; zero for what did not exist, and must not come to exist (Read and Nothing only).
	Device, Inode uint64
	Directory     bool
	// File is the position of its descriptor (O_PATH) among those of the plan; -1 where it is to be opened by its path, below
	// the last place before it that has one and that is a beginning of its path.
	File int
}

// Plan is a policy with its paths looked up. Everything can be read that no place says otherwise about. It is not changed.
type Plan struct {
	Network bool
	Places  []Place // the more specific ones later
	Sockets []Place // unix sockets that stay within reach
}

// Writes reports whether anything can be written.
func (p *Plan) Writes() bool {
	for _, place := range p.Places {
		if place.Access == Write {
			return true
		}
	}
	return false
}
