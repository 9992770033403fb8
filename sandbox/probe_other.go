//go:build !linux

package sandbox

import "github.com/execbus/execbus/messages"

// Probe says what can be enforced here. It is safe for concurrent use.
func Probe() Probed {
	return Probed{Level: messages.AssuranceConfined, Mechanisms: []Mechanism{{Name: "seatbelt",
		Enforces: "which files can be written and read, the network, signals to other processes", Works: true,
		Why: "its profile has never been tried on such a system", Change: "try it before you rely on it"},
		{Name: "namespaces", Enforces: "named hosts: commands talk to these and to no other", Why: "it takes the namespaces of Linux", Change: "run such commands on Linux"}}}
}
