// Package placeholder knows what stands for a protected name that does not exist, so that no command can create it.
//
//	err := placeholder.Make("/ws/.git", placeholder.Link)
//	...
//	if placeholder.Is("/ws/.git") { // nothing that anybody has made there
//
// No program may take a placeholder for the real thing: git takes an empty file for a broken repository, go does the same with an
// empty directory, and newer versions of git stop at anything that is neither. So at .git it is a symbolic link that leads nowhere.
// All other names get a socket that nobody listens on, because git lists new links but no sockets.
package placeholder

// Text is what the link says. Git shows it to a person who wants to make a repository there.
const Text = "execbus protects this name while a sandboxed command runs here"
