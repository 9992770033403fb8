//go:build linux && !amd64

package attack

// legacyCall needs a processor that has two kinds of system calls.
func legacyCall() error { return errHeld }
