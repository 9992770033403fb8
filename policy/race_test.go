//go:build race

package policy

// smaller is how much smaller monsters are for the race detector.
const smaller = 16
