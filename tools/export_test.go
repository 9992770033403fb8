package tools

import "github.com/execbus/execbus/messages"

// Advice is the sentence that a model gets about an error code.
func Advice(code string) string { return advice[messages.ErrorCode(code)] }

// Parse reads the arguments of a tool.
func Parse(name string, raw []byte) (map[string]any, error) {
	for _, t := range all(Options{}) {
		if t.Name == name {
			said, err := parse(name, t.parameters, raw)
			return said.values, err
		}
	}
	panic(name)
}

// OutcomeOf is the structured answer of a call with a result.
func OutcomeOf(r *messages.Result) Outcome {
	return (&Set{}).outcome(r, arguments{}).Structured.(Outcome)
}
