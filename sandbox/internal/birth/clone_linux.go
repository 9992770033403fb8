//go:build amd64 || arm64

package birth

// clone clones this thread with all signals blocked. The child makes the steps from h.at onwards and does not return.
//
//go:noescape
func clone(h *header) (pid, errno uintptr)

// code returns the address of clone.
func code() uintptr
