//go:build race

package policy

// How much the race detector costs, and how much smaller monsters are for it.
const (
	slower  = 20
	smaller = 16
)
