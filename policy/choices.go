package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
)

// Choices are the answers that a person is offered when a plan asks, each with exactly what it would remember. Rules
// are written to file; if it is empty, they are kept in memory only. If the question is about a second attempt, after a denial, the
// plan's FirstAttempt says how that one would run.
func Choices(request Request, plan Plan, file string) []messages.Choice {
	if request.Host != nil {
		return request.Host.choices(plan, file)
	}
	if request.Execution != nil {
		return request.Execution.choices()
	}
	choices := []messages.Choice{choice(messages.DecisionApproved, ""), choice(messages.DecisionApprovedForSession, remembered(request, plan))}
	if len(plan.Amendment) > 0 {
		choices = append(choices, choice(messages.DecisionApprovedWithRule, RuleRemembers(plan.Amendment, file)))
	}
	choices = append(choices, choice(messages.DecisionDenied, ""), choice(messages.DecisionAborted, ""))
	if request.Patch != nil {
		for i, c := range choices {
			choices[i].Sentence = patchSentences[c.Kind]
		}
	}
	return choices
}

// patchSentences describe the effects of the answers about a patch.
var patchSentences = map[messages.DecisionKind]string{
	messages.DecisionApproved:           "Apply it this once.",
	messages.DecisionApprovedForSession: "Apply it, and do not ask about patches of these files again in this session.",
	messages.DecisionDenied:             "Do not apply it, and tell the model why.",
	messages.DecisionAborted:            "Do not apply it, and stop the turn.",
}

// sentences describe them about a command.
var sentences = map[messages.DecisionKind]string{
	messages.DecisionApproved:           "Run it this once.",
	messages.DecisionApprovedForSession: "Run it, and do not ask about it again in this session.",
	messages.DecisionApprovedWithRule:   "Run it, and allow whatever begins with the same words from now on.",
	messages.DecisionDenied:             "Do not run it, and tell the model why.",
	messages.DecisionAborted:            "Do not run it, and stop the turn.",
}

func choice(kind messages.DecisionKind, remembers string) messages.Choice {
	return messages.Choice{Kind: kind, Sentence: sentences[kind], Remembers: remembers}
}

// RuleRemembers says what an allow rule for a prefix does. It holds in sessions that enforce rules at executions and in others.
func RuleRemembers(prefix []string, file string) string {
	where, long := "in every session", "until the runtime ends"
	if len(prefix) > 0 && strings.Contains(prefix[0], "/") && !strings.HasPrefix(prefix[0], "/") {
		where = "in every directory that has such a program, " + where
	}
	if file != "" {
		long = "written to " + messages.Visible(file)
	}
	return fmt.Sprintf("every command that begins with the words %s, whatever follows them, runs without a question, and without a sandbox "+
		"except where rules are enforced at executions, %s; %s", messages.Display(prefix), where, long)
}

// remembered says what an approval for the session covers.
func remembered(request Request, plan Plan) string {
	if request.Patch != nil {
		return request.Patch.remembered()
	}
	parts := []string{"this command", "in " + messages.Visible(request.Dir), "with its input closed"}
	if request.OpenInput {
		parts[2] = "whatever is written to it while it runs"
	}
	if changes(request.Environment) {
		parts = append(parts, "with the same environment")
	}
	switch {
	case plan.FirstAttempt != Unsandboxed:
		parts = append(parts, permissions(request))
	case plan.OnDenial == Return:
		parts = append(parts, "without a sandbox")
	default:
		parts = append(parts, "without a sandbox whenever its sandbox stops it")
	}
	return strings.Join(parts, ", ") + ", until the session ends"
}

// maxRemembered bounds the files that a choice names.
const maxRemembered = 16

// remembered says which patches an approval for the session covers.
func (p *Patch) remembered() string {
	var names []string
	touched := p.touched()
	for _, path := range touched[:min(len(touched), maxRemembered)] {
		names = append(names, messages.Visible(path))
	}
	text := strings.Join(names, ", ")
	if more := len(touched) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "every patch that changes exactly these files, whatever it writes: " + text + ", until the session ends"
}

// permissions says what a confined attempt may do.
func permissions(request Request) string {
	additional := request.AdditionalPermissions
	if request.SandboxPermissions != messages.PermissionsWithAdditional || additional.Empty() {
		return "with the permissions that the session's commands have"
	}
	var more []string
	if additional.Network != nil && additional.Network.Enabled {
		more = append(more, "the network")
	}
	if files := additional.FileSystem; files != nil {
		for _, path := range files.Read {
			more = append(more, "reading "+request.leading(path))
		}
		for _, path := range files.Write {
			more = append(more, "writing "+request.leading(path))
		}
	}
	return "with these permissions besides the session's: " + strings.Join(more, ", ")
}

// leading is a path for a person, with what it leads to if that is something else, or if it is not known.
func (r Request) leading(path string) string {
	at, known := r.Located[path]
	full := path
	if !filepath.IsAbs(path) {
		full = r.Dir + "/" + path
	}
	switch {
	case !known:
		return messages.Visible(path) + " (wherever that leads)"
	case tidy(full) != at.Path:
		return messages.Visible(path) + " (which leads to " + messages.Visible(at.Path) + ")"
	}
	return messages.Visible(path)
}

// Leads says, a line for each path of the additional permissions that is not what it says, where the path leads.
func Leads(request Request) (lines []string) {
	if more := request.AdditionalPermissions; more != nil && more.FileSystem != nil {
		for _, path := range slices.Concat(more.FileSystem.Read, more.FileSystem.Write) {
			at, known := request.Located[path]
			switch text := request.leading(path); {
			case !known:
				lines = append(lines, messages.Visible(path)+": it is not known where this path leads; an approval covers the path as it is written")
			case text != messages.Visible(path):
				lines = append(lines, messages.Visible(path)+" leads to "+messages.Visible(at.Path))
			}
		}
	}
	return lines
}
