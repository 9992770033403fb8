// Package browser tests package window in a real browser: Debian's chromium, where it is installed. It is a module of its own, so that nobody
// who uses execbus gets a browser's protocol with it.
//
//	go test ./...                        # says which tests were skipped, and why
//	WINDOW_PICTURES=/tmp/pictures go test ./...   # also writes a picture of each state to look at
//	WINDOW_AXE=/…/axe-core/axe.min.js go test ./...   # also looks for faults of access, where axe-core is installed
//	WINDOW_PROCESSES=1000 go test -v -run Hundred ./...   # an overview of more processes
//
// # What you must not assume
//
// That other browsers behave alike: none has been tried.
package browser
