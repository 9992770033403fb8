//go:build !race

package policy

const slower = 1
