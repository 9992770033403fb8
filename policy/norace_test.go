//go:build !race

package policy

const smaller = 1
