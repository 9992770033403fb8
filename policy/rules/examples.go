package rules

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/policy/command"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// example is a command that a rule claims to match, or not to match.
type example struct {
	words []string
	text  string // as it is shown to people
}

// parseExamples takes lists of words, and strings that are split as a shell would.
func parseExamples(value starlark.Value) ([]example, error) {
	if value == nil || value == starlark.None {
		return nil, nil
	}
	list, ok := value.(starlark.Indexable)
	if _, text := value.(starlark.String); !ok || text {
		return nil, fmt.Errorf("invalid example: want a list of examples, not %s", value.Type())
	}
	var examples []example
	for i := range list.Len() {
		var words []string
		var err error
		switch v := list.Index(i).(type) {
		case starlark.String:
			words, err = command.Split(string(v))
		default:
			words, err = stringList(v)
		}
		if err == nil && len(words) == 0 {
			err = errors.New("it has no words")
		}
		if err != nil {
			return nil, fmt.Errorf("invalid example: number %d: %w", i+1, err)
		}
		examples = append(examples, example{words, strings.Join(words, " ")})
	}
	return examples, nil
}

// stringList takes a list or tuple of strings.
func stringList(value starlark.Value) ([]string, error) {
	list, ok := value.(starlark.Indexable)
	if _, text := value.(starlark.String); !ok || text {
		return nil, fmt.Errorf("want a string or a list of strings, not %s", value.Type())
	}
	var all []string
	for i := range list.Len() {
		text, ok := starlark.AsString(list.Index(i))
		if !ok {
			return nil, fmt.Errorf("want strings in the list, not %s", list.Index(i).Type())
		}
		all = append(all, text)
	}
	return all, nil
}

// claim is what one prefix_rule says about examples. It is checked once its whole file has been read, because a
// host_executable may come later.
type claim struct {
	rules              []*rule
	matching, opposite []example
	place              syntax.Position
}

// check finds an example that contradicts the rule.
//
// An example is about the pattern, so the result does not depend on the decision: a path stands for its base name if a
// host_executable lists it, or if there is none. Set.Match is stricter for allow rules, and less strict for the others.
func (c claim) check(executables map[string][]string) error {
	for _, example := range c.opposite {
		if c.matches(example, executables) {
			return fmt.Errorf("expected example to not match rule `%s`: %s", c, example.text)
		}
	}
	var unmatched []string
	for _, example := range c.matching {
		if !c.matches(example, executables) {
			unmatched = append(unmatched, example.text)
		}
	}
	if len(unmatched) > 0 {
		return fmt.Errorf("expected every example to match at least one rule. rules: %s; unmatched examples: %q", c, unmatched)
	}
	return nil
}

// cost is how much work a check is: each alternative is compared with each example, and comparing text is quick.
func (c claim) cost() (alternatives, bytes int) {
	alternatives = len(c.rules)
	for _, words := range c.rules[0].rest {
		alternatives += len(words)
	}
	for _, example := range slices.Concat(c.matching, c.opposite) {
		bytes += 1 + len(example.text)/16
	}
	return alternatives, bytes
}

func (c claim) matches(example example, executables map[string][]string) bool {
	first, arguments := example.words[0], example.words[1:]
	name := ""
	if filepath.IsAbs(first) {
		paths, listed := executables[filepath.Base(first)]
		if !listed || slices.Contains(paths, first) {
			name = filepath.Base(first)
		}
	}
	return slices.ContainsFunc(c.rules, func(r *rule) bool {
		return (r.first == first || r.first == name) && r.matches(arguments)
	})
}

// String is the rule's pattern: "git|hg, push|pull".
func (c claim) String() string {
	var first []string
	for _, rule := range c.rules {
		first = append(first, rule.first)
	}
	words := []string{strings.Join(first, "|")}
	for _, alternatives := range c.rules[0].rest {
		words = append(words, strings.Join(alternatives, "|"))
	}
	return strings.Join(words, " ")
}
