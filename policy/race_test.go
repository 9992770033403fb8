//go:build race

package policy

// slower is how much the race detector costs.
const slower = 20
