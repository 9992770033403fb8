//go:build linux && !race

package hostile_test

const raceStep = 1
