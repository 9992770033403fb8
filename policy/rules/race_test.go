//go:build race

package rules

// slower is how much the race detector costs.
const slower = 20
