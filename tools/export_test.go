package tools

import "github.com/execbus/execbus/messages"

// Advice is the sentence that a model gets about an error code.
func Advice(code string) string { return advice[messages.ErrorCode(code)] }

// Parse reads the arguments of a tool.
func Parse(name string, raw []byte) (map[string]any, error) {
	for _, t := range all(Options{}) {
		if t.Name == name {
			return parse(name, t.parameters, raw)
		}
	}
	panic(name)
}
