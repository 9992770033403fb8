// Package warden attacks what starts and confines commands, the host and its warden, while they start some and when they die: a
// command reaches neither, stops no start, and outlives neither of them.
//
//	go test -v ./tests/attack/warden
package warden
