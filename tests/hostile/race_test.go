//go:build linux && race

package hostile_test

// Every process with the race detector, including wardens, takes a second to exit. So a sample then has every third case.
const raceStep = 3
