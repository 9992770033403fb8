package sandbox

import "github.com/execbus/execbus/messages"

// Probed is what can be enforced on this machine by this process.
type Probed struct {
	// Level is the strongest level that can be enforced.
	Level      messages.Assurance `json:"level"`
	Mechanisms []Mechanism        `json:"mechanisms"`
}

// Mechanism is something of the kernel that enforces a part of a policy or a limit.
type Mechanism struct {
	Name     string `json:"name"`
	Enforces string `json:"enforces"`
	Works    bool   `json:"works"`
	// Why says why it does not work, or which part of it does not. Change says what would help. Both are empty if nothing is
	// missing.
	Why    string `json:"why,omitempty"`
	Change string `json:"change,omitempty"`
}
