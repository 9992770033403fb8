// Package nofile knows how many files this process was allowed to open when it began. Go's package syscall raises the soft
// limit when it is initialised. It restores the old limit in the processes that it starts, but does not export it.
//
// Packages are initialised in the order of their paths as soon as their imports have been. This one imports nothing, so it
// is initialised before package syscall.
package nofile

// Limit is a soft and a hard limit.
type Limit struct{ Soft, Hard uint64 }
