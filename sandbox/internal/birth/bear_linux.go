//go:build amd64 || arm64

package birth

// bear clones this thread with all signals blocked. The newborn makes the steps from h.at on and does not return.
//
//go:noescape
func bear(h *header) (pid, errno uintptr)

// code is where bear is.
func code() uintptr
