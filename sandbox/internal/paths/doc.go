// Package paths finds where the paths of a sandbox policy lead.
//
//	found, err := paths.Find(confinement)      // may block for as long as the file systems do
//	defer found.Close()
//	...
//	err = found.Check()                         // before each start: do they still lead there?
//
// Symbolic links are followed here, once. What commands may write is refused if it lies behind a link that an earlier command may have
// made, because it would then be a command that chooses what is written. From then on the policy is about the files that were found,
// by device and inode, and not about files that get the same name later. On Linux a descriptor (O_PATH) holds each path open;
// elsewhere there are only paths.
//
// The search for nested repositories is bounded (see Bounds). Found.Gaps says where it stopped.
package paths
