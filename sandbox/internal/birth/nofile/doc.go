// Package nofile knows how many files this process was allowed to open when it began. Go's package syscall raises the soft
// limit when it is initialised, gives what it starts the old one back, and tells nobody else what that was.
//
// Packages are initialised in the order of their paths as soon as what they import has been, so this one, which imports
// nothing, goes before package syscall.
package nofile

// Limit is a soft and a hard limit.
type Limit struct{ Soft, Hard uint64 }
