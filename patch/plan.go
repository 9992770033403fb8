package patch

import (
	"slices"
	"strings"
)

// Plan is what a patch does, once it is known to fit.
type Plan struct {
	Changes []Change // in the order in which they can be done

	operations  []Operation
	overwritten []string
	differences []difference
}

// Plan does the operations in memory, one after the other, and says what changes. If one does not fit, the error says which and why, and
// there is no plan: nothing is to be changed. files has what stands at each of the Paths.
func (p *Patch) Plan(dir string, files map[string]File) (*Plan, error) {
	if len(p.Operations) == 0 {
		return nil, refuse("", "it is empty: no file would be changed")
	}
	t := &tree{dir: dir, files: files, names: map[string]*name{}, steps: maxSteps}
	if err := t.read(p.Paths(dir)); err != nil {
		return nil, err
	}
	for _, operation := range p.Operations {
		if err := t.do(operation); err != nil {
			return nil, err
		}
	}
	plan := &Plan{operations: p.Operations, overwritten: t.overwritten}
	moved := map[string]bool{}
	for _, n := range t.touched {
		if n.is != nil {
			moved[n.is.from] = true
		}
	}
	planned := map[*contents]bool{}
	for _, n := range t.touched {
		if n.is == nil && n.was == nil || n.is != nil && planned[n.is] { // made and removed again, or changed under another name
			continue
		}
		planned[n.is] = true
		change, all := n.change(moved[n.place])
		plan.Changes, plan.differences = append(plan.Changes, change), append(plan.differences, all...)
	}
	return plan, nil
}

// Summary is what an applied patch answers: "Success. Updated the following files:", a line for each operation with the path as the patch
// has it, and a line for each file that was overwritten.
func (p *Plan) Summary() string {
	lines := []string{"Success. Updated the following files:"}
	for _, group := range []struct {
		kind   Kind
		letter string
	}{{Add, "A "}, {Update, "M "}, {Delete, "D "}} {
		for _, operation := range p.operations {
			switch {
			case operation.Kind != group.kind:
			case operation.MoveTo != "":
				lines = append(lines, group.letter+operation.MoveTo)
			default:
				lines = append(lines, group.letter+operation.Path)
			}
		}
	}
	return strings.Join(append(lines, p.overwritten...), "\n") + "\n"
}

// Overwritten has a sentence for each file in whose place an Add or a Move puts another. The summary has them, too.
func (p *Plan) Overwritten() []string { return slices.Clone(p.overwritten) }
