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

import "strings"

// Text is what the link says. Git shows it to a person who wants to make a repository there.
const Text = "execbus protects this name while a sandboxed command runs here"

// On returns the place of the first placeholder on a path, so that the rest of the path leads nowhere; empty if there is none.
func On(path string) string {
	for at := 1; at > 0 && at <= len(path); {
		end := at + strings.IndexByte(path[at:]+"/", '/')
		if Is(path[:end]) {
			return path[:end]
		}
		at = end + 1
	}
	return ""
}
