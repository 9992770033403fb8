//go:build !race

package rules

const slower = 1
