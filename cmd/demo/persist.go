package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Each line has a shell of its own, so a change of the directory or the environment would end with the line. A line that
// only makes such changes runs in a shell that reports the new values, and the session adopts them. If a change does not
// last, the host explains why.

// change is what a line changes for the lines after it.
type change struct {
	dir     bool
	exports []string
	unsets  []string
}

// changes finds the changes in a line. only reports that the line does nothing else. In a line that cannot be parsed it
// finds none.
func changes(script string) (c change, only bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return change{}, false
	}
	only = len(file.Stmts) > 0
	for _, statement := range file.Stmts {
		only = c.read(statement) && only
	}
	return c, only
}

// read adds the changes of a statement, and reports whether the statement does nothing else.
func (c *change) read(s *syntax.Stmt) bool {
	plain := !s.Negated && !s.Background && !s.Coprocess && len(s.Redirs) == 0
	switch command := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		if command.Op != syntax.AndStmt {
			return false
		}
		left, right := c.read(command.X), c.read(command.Y)
		return left && right && plain
	case *syntax.DeclClause:
		return command.Variant.Value == "export" && c.export(command.Args) && plain
	case *syntax.CallExpr:
		return len(command.Assigns) == 0 && c.call(command.Args) && plain
	default:
		return false
	}
}

func (c *change) export(arguments []*syntax.Assign) bool {
	for _, a := range arguments {
		if a.Name == nil || a.Array != nil || a.Index != nil {
			return false
		}
		c.exports = append(c.exports, a.Name.Value)
	}
	return len(arguments) > 0
}

func (c *change) call(words []*syntax.Word) bool {
	if len(words) == 0 {
		return false
	}
	switch words[0].Lit() {
	case "cd":
		c.dir = true
		return true
	case "unset":
		for _, word := range words[1:] {
			if !syntax.ValidName(word.Lit()) {
				return false
			}
			c.unsets = append(c.unsets, word.Lit())
		}
		return len(words) > 1
	default:
		return false
	}
}

// begin runs a line, and handles its changes.
func (h *host) begin(script string, done func(code int)) {
	c, only := changes(script)
	switch {
	case only:
		ctx, cancel := context.WithCancel(context.Background())
		h.changing = cancel
		lasting := h.lasting(script, c)
		go func() {
			text, err := lasting(ctx)
			h.tell(func() {
				cancel()
				h.changing = nil
				h.reply(text, err, done)
				h.next()
			})
		}()
		return
	case c.dir:
		h.hint("cd", "cd holds for this line only: each line has a shell of its own. On a line by itself it lasts.")
	case len(c.exports)+len(c.unsets) > 0:
		h.hint("export", "export and unset hold for this line only: each line has a shell of its own. On a line by themselves they last.")
	}
	h.start(script, done)
}

// hint shows a hint once.
func (h *host) hint(name, text string) {
	if !h.told[name] {
		h.told[name] = true
		h.view.note(text)
	}
}

// report returns a script that prints the working directory and some variables, each after a NUL.
func report(names []string) string {
	text := `printf '\0%s' "$PWD"`
	for _, name := range names {
		text += ` "$` + name + `"`
	}
	return text
}

// lasting runs a line that only makes changes, and makes them last for the session.
func (h *host) lasting(script string, c change) question {
	policy, before := h.variables.Clone(), h.dir
	return func(ctx context.Context) (said string, err error) {
		names := slices.Compact(slices.Sorted(slices.Values(c.exports)))
		values, err := h.runReport(ctx, script+"\n[ $? = 0 ] && "+report(names), len(names)+1)
		if err != nil {
			return "", err
		}
		c.apply(&policy, names, values[1:])
		update := messages.UpdateEnvironment{Environment: &policy}
		if c.dir {
			update.Dir = &values[0]
			policy.Set["OLDPWD"] = before // cd - needs it
			if h.terminal != nil {
				said = "in " + messages.Visible(values[0]) + "\n"
			}
		}
		if err := h.session.UpdateEnvironment(ctx, update); err != nil {
			return "", err
		}
		h.tell(func() {
			h.variables = policy
			if c.dir {
				h.dir = values[0]
				h.reprompt()
			}
		})
		return said + h.verify(ctx, names, values[1:]), nil
	}
}

// apply sets variables for later commands.
func (c *change) apply(policy *messages.EnvironmentPolicy, names, values []string) {
	if policy.Set == nil {
		policy.Set = map[string]string{}
	}
	for i, name := range names {
		policy.Set[name] = values[i]
		policy.Exclude = slices.DeleteFunc(policy.Exclude, func(excluded string) bool { return excluded == name })
	}
	for _, name := range c.unsets {
		delete(policy.Set, name)
		policy.Exclude = append(policy.Exclude, name)
	}
}

// verify reports which variables a new shell has changed again, as a profile may do.
func (h *host) verify(ctx context.Context, names, want []string) (said string) {
	if len(names) == 0 {
		return ""
	}
	values, err := h.runReport(ctx, report(names), len(names)+1)
	if err != nil {
		return ""
	}
	for i, name := range names {
		if values[i+1] != want[i] {
			said += fmt.Sprintf("%s does not last: the profile of your shell, which each line's shell reads, sets it to %s.\n", name,
				messages.Visible(short(values[i+1], 60)))
		}
	}
	return said
}

// runReport runs a script that ends with a report, and splits the report.
func (h *host) runReport(ctx context.Context, script string, count int) ([]string, error) {
	result, err := h.session.Run(ctx, messages.RunCommand{Script: script, Login: new(true), Timeout: new(10 * time.Second)})
	if err != nil {
		return nil, err
	}
	_, report, _ := strings.Cut(string(result.Stdout), "\x00")
	if values := strings.Split(report, "\x00"); len(values) == count && result.ExitCode == 0 {
		return values, nil
	}
	why := execbus.CleanLine(toMarks(strings.TrimSpace(string(result.Stderr))), false)
	return nil, errors.New(cmp.Or(why, fmt.Sprintf("the line exited with %d, and nothing was changed", result.ExitCode)))
}
