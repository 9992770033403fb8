package rules

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
	"github.com/execbus/execbus/policy/rules/internal/bounded"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// ruleFile is one file while it is evaluated, with the results of its calls so far.
type ruleFile struct {
	*bounded.File
	name   string
	set    Set
	count  int
	claims []claim
}

// maxRules bounds the rules of one file.
const maxRules = 10_000

// Parse reads one rule file. Errors contain the name, the line and the column. The package documentation has the bounds
// on the time and memory that a file may use.
func Parse(name string, source []byte) (*Set, error) {
	f := &ruleFile{File: bounded.New(name), name: name}
	err := f.Run(source, starlark.StringDict{
		"prefix_rule":     starlark.NewBuiltin("prefix_rule", f.prefixRule),
		"network_rule":    starlark.NewBuiltin("network_rule", f.networkRule),
		"host_executable": starlark.NewBuiltin("host_executable", f.hostExecutable),
	})
	if wrong, ok := errors.AsType[syntax.Error](err); ok {
		return nil, ruleError(name, wrong.Pos, wrong.Msg)
	}
	for _, claim := range f.claims {
		if err := claim.check(f.set.executables); err != nil {
			return nil, ruleError(name, claim.place, err.Error())
		}
	}
	return &f.set, nil
}

// maxDetail bounds how much of a file an error repeats, in bytes.
const maxDetail = 500

func ruleError(name string, at syntax.Position, detail string) error {
	subject := name
	if at.Line > 0 {
		subject = fmt.Sprintf("%s:%d:%d", name, at.Line, at.Col)
	}
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + "…"
	}
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "load rules", Subject: subject, Detail: detail}
}

// rulePlace is the place of a rule, as a match reports it.
func (f *ruleFile) rulePlace(at syntax.Position) string { return fmt.Sprintf("%s:%d", f.name, at.Line) }

func (f *ruleFile) prefixRule(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var pattern, match, notMatch, justification starlark.Value
	decision := string(Allow)
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "pattern", &pattern, "decision?", &decision, "match?", &match,
		"not_match?", &notMatch, "justification?", &justification); err != nil {
		return nil, err
	}
	words, err := parsePattern(pattern)
	if err != nil {
		return nil, err
	}
	d := Decision(decision)
	if d.strictness() < 0 {
		return nil, fmt.Errorf("invalid decision: %q: use allow, prompt or forbidden", decision)
	}
	why, err := parseJustification(justification)
	if err != nil {
		return nil, err
	}
	at := f.Here(thread.CallStack())
	c := claim{place: at}
	for _, first := range words[0] {
		added := &rule{first: first, rest: words[1:], decision: d, justification: why, place: f.rulePlace(at)}
		f.set.add(added)
		c.rules = append(c.rules, added)
	}
	if c.matching, err = parseExamples(match); err != nil {
		return nil, err
	}
	if c.opposite, err = parseExamples(notMatch); err != nil {
		return nil, err
	}
	f.claims = append(f.claims, c)
	if err := f.counted(len(c.rules)); err != nil {
		return nil, err
	}
	return starlark.None, f.Charge(c.cost())
}

// counted bounds the rules of a file.
func (f *ruleFile) counted(n int) error {
	if f.count += n; f.count > maxRules {
		return fmt.Errorf("invalid rule: the file has more than %d rules", maxRules)
	}
	return nil
}

// parsePattern makes alternatives of each element.
func parsePattern(value starlark.Value) ([][]string, error) {
	list, ok := value.(starlark.Indexable)
	if _, text := value.(starlark.String); !ok || text {
		return nil, fmt.Errorf("invalid pattern element: the pattern is a list, not %s", value.Type())
	}
	if list.Len() == 0 {
		return nil, errors.New("invalid pattern element: an empty pattern would match every command")
	}
	var words [][]string
	for i := range list.Len() {
		element := list.Index(i)
		if text, ok := starlark.AsString(element); ok {
			words = append(words, []string{text})
			continue
		}
		alternatives, err := stringList(element)
		if err == nil && len(alternatives) == 0 {
			err = errors.New("an empty list of alternatives matches nothing")
		}
		if err != nil {
			return nil, fmt.Errorf("invalid pattern element: number %d: %w", i+1, err)
		}
		words = append(words, unique(alternatives))
	}
	return words, nil
}

// unique drops repeated words, because the first word of a pattern must make one rule for each alternative.
func unique(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(text string) bool {
		before := seen[text]
		seen[text] = true
		return before
	})
}

func parseJustification(value starlark.Value) (string, error) {
	if value == nil || value == starlark.None {
		return "", nil
	}
	text, ok := starlark.AsString(value)
	if !ok || strings.TrimSpace(text) == "" {
		return "", errors.New("invalid rule: a justification is a string that is not blank")
	}
	return text, nil
}

func (f *ruleFile) networkRule(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var host, protocol, decision string
	var justification starlark.Value
	var hiddenName bool
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "host", &host, "protocol", &protocol, "decision", &decision,
		"justification?", &justification, "hidden_name?", &hiddenName); err != nil {
		return nil, err
	}
	added := messages.HostRule{Host: strings.TrimSpace(host), HiddenName: hiddenName, Origin: f.rulePlace(f.Here(thread.CallStack()))}
	var known bool
	if added.Decision, known = networkDecisions[decision]; !known {
		return nil, fmt.Errorf("invalid decision: %q: use allow, prompt, deny or forbidden", decision)
	}
	if added.Protocol, known = networkProtocols[protocol]; !known {
		return nil, fmt.Errorf("invalid rule: there is no protocol %q: use any, http, https or tcp", protocol)
	}
	var err error
	if added.Justification, err = parseJustification(justification); err != nil {
		return nil, err
	}
	if err := hosts.Check(added); err != nil {
		return nil, fmt.Errorf("invalid rule: host %q: %w", host, err)
	}
	f.set.network = append(f.set.network, added)
	return starlark.None, f.counted(1)
}

func (f *ruleFile) hostExecutable(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var name string
	var list starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name, "paths", &list); err != nil {
		return nil, err
	}
	if strings.TrimSpace(name) == "" || strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return nil, fmt.Errorf("invalid rule: %q is not the name of a program", name)
	}
	given, err := stringList(list)
	if err != nil {
		return nil, fmt.Errorf("invalid rule: paths: %w", err)
	}
	paths := []string{}
	for _, path := range given {
		if !filepath.IsAbs(path) || filepath.Base(path) != name {
			return nil, fmt.Errorf("invalid rule: %q is not an absolute path of %q", path, name)
		}
		paths = append(paths, filepath.Clean(path))
	}
	if f.set.executables == nil {
		f.set.executables = map[string][]string{}
	}
	f.set.executables[name] = unique(paths)
	return starlark.None, f.counted(1)
}

// plainText reports whether text means the same in a rule file and on a command line.
func plainText(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
