package policy

// RuleDecision is what a rule says about commands that match it.
type RuleDecision string

// The decisions of rules, from the weakest to the strictest.
const (
	Allow     RuleDecision = "allow"
	Prompt    RuleDecision = "prompt"
	Forbidden RuleDecision = "forbidden"
)

// Match is a rule that a command matches.
type Match struct {
	Prefix        []string // the words that matched
	Decision      RuleDecision
	Program       string // the absolute path that was resolved to its base name; empty if the first word matched as it is
	Justification string
}

// Rules are what rule files say. They are never changed; With makes new ones. A nil *Rules has none.
type Rules struct{}

// Match finds every rule that a command matches.
func (r *Rules) Match(command []string) []Match { return nil }
