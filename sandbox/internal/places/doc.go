// Package places finds where the paths of a sandbox policy lead.
//
//	found, err := places.Find(confinement)      // may block for as long as the file systems do
//	defer found.Close()
//	...
//	err = found.Check()                         // before each start: do they still lead there?
//
// Symbolic links are followed here, once: what is allowed from then on is what was found, by device and inode, and not what has
// the same name later. On Linux each place is held open by a descriptor (O_PATH); elsewhere there are paths only.
//
// The search for nested repositories is bounded (see Bounds). Where it stopped is said in Found.Gaps.
package places
