//go:build linux && race

package hostile_test

// Every process with the race detector, wardens included, takes a second to exit: a sample then has every third case.
const raceStep = 3
