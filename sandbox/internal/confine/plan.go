package confine

import "strings"

// Level is how much of a plan is enforced. A stronger one is greater.
type Level int

// The levels.
const (
	None Level = iota
	Confined
	Isolated
)

// Access is what a command may do with a path and everything below it.
type Access int

// The accesses. The rule for a more specific path overrides that for a less specific one.
const (
	Nothing Access = iota // it cannot be read
	Read
	Write
)

// Rule says what a command may do with a path, as that was when the policy was set, and with everything below it.
type Rule struct {
	Path   string // absolute and without symbolic links
	Access Access
	// Device and Inode identify what was found there. They are zero for a path that did not exist: it must not be created (Read and
	// Nothing), or may be although its name is protected (Write).
	Device, Inode uint64
	Directory     bool
	Link          string // where it leads; empty if it is no symbolic link
	// IfThere says that nothing stands for the path while it is missing.
	IfThere bool
	// File is the position of its descriptor (O_PATH) among those of the plan. -1 means that it is opened by its path, below the
	// last earlier path that contains it and has a descriptor.
	File int
}

// Missing reports whether nothing was found there.
func (p Rule) Missing() bool { return p.Inode == 0 }

// Plan is a policy with its paths looked up. Everything can be read unless a rule says otherwise. A plan does not change.
type Plan struct {
	Network bool
	// Proxied says that a proxy listens in the network of the commands, on 127.0.0.1 and ProxyPort. It means nothing with Network.
	Proxied bool
	// ByName are ports on which the proxy also listens there, on every address, for programs that connect by name. With any, a
	// resolver of ours answers on port 53, and the commands' configuration of resolvers names it.
	ByName []int
	// Resolvers is the path of that configuration, without symbolic links; empty if there is none.
	Resolvers string
	Rules     []Rule // the more specific ones later
	Sockets   []Rule // unix sockets that stay within reach
}

// ProxyPort is above the ports that programs get without naming one.
const ProxyPort = 61080

// MaxByName bounds Plan.ByName.
const MaxByName = 32

// Writes reports whether anything can be written.
func (p *Plan) Writes() bool {
	for _, rule := range p.Rules {
		if rule.Access == Write {
			return true
		}
	}
	return false
}

// Access returns what may be done with a path: what its most specific rule says.
func (p *Plan) Access(path string) Access { return AccessAmong(p.Rules, path) }

// AccessAmong returns what the most specific of some rules says about a path.
func AccessAmong(rules []Rule, path string) Access {
	access, best := Read, -1
	for _, rule := range rules {
		if d := Depth(rule.Path); Within(path, rule.Path) && d >= best {
			access, best = rule.Access, d
		}
	}
	return access
}

// Depth is the number of names in a clean path.
func Depth(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// Within reports whether a clean path is a directory or lies below it.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
