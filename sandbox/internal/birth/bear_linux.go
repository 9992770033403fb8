//go:build amd64 || arm64

package birth

// bear clones this thread with all signals blocked. The newborn makes the steps from h.at onwards and does not return.
//
//go:noescape
func bear(h *header) (pid, errno uintptr)

// code returns the address of bear.
func code() uintptr
