//go:build !race

package policy

const (
	slower  = 1
	smaller = 1
)
