package seatbelt

import "github.com/execbus/execbus/sandbox/internal/confine"

// Rules are a plan in the order in which a profile states it.
type Rules struct {
	Write []Root
	// Reading are the paths that cannot be read and those inside of them that can. The later one counts.
	Reading []confine.Rule
	Network bool
	// Sockets are unix sockets outside the roots that commands can connect to.
	Sockets []string
}

// Root can be written, except for the protected paths below it. Those that do not exist cannot be created.
type Root struct {
	Path      string
	Protected []string
}

// RulesOf returns the rules of a plan. Its paths are as the kernel sees them: /private/tmp, not /tmp.
func RulesOf(plan *confine.Plan) Rules {
	rules := Rules{Network: plan.Network}
	for i, rule := range plan.Rules {
		if rule.Access == confine.Nothing || confine.AccessAmong(plan.Rules[:i], rule.Path) == confine.Nothing {
			rules.Reading = append(rules.Reading, rule)
		}
		if rule.Access == confine.Write {
			rules.Write = append(rules.Write, Root{rule.Path, protected(plan, rule.Path)})
		}
	}
	for _, socket := range plan.Sockets {
		rules.Sockets = append(rules.Sockets, socket.Path)
	}
	return rules
}

// protected returns the paths below a root that cannot be written.
func protected(plan *confine.Plan, root string) (paths []string) {
	for _, rule := range plan.Rules {
		if rule.Access == confine.Read && rule.Path != root && confine.Within(rule.Path, root) {
			paths = append(paths, rule.Path)
		}
	}
	return paths
}
