package shared

import (
	"slices"
	"strings"

	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// MaxRejection bounds, in tokens, a person's text for the model.
const MaxRejection = 900

// Rejected is the error for a command that was not allowed.
func Rejected(reason string) *messages.Error {
	return &messages.Error{Code: messages.ErrRejected, Op: "exec", Detail: messages.Truncate(reason, MaxRejection)}
}

// BadField is the error for a request that cannot be carried out as it is.
func BadField(field, detail, hint string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "exec", Subject: field, Detail: detail, Hint: hint}
}

// NotEnded names a leader whose end was not reported.
func NotEnded(pid int, argv []string) messages.TreeReport {
	survivor := messages.Survivor{PID: pid, Why: "its spawner never reported its end"}
	if len(argv) > 0 {
		survivor.Name = argv[0][:min(len(argv[0]), 15)]
	}
	return messages.TreeReport{Survivors: []messages.Survivor{survivor}}
}

// Abandon abandons a child. It may be called anywhere: nothing depends on what a host's own child does later.
func Abandon(child ptyio.Child) {
	if ptyio.IsPrompt(child) {
		child.Abandon()
		return
	}
	hostcode.Run(child.Abandon) // nobody is left to tell
}

// Variable is the value of an environment variable.
func Variable(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}
