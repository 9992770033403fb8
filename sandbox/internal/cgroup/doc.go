// Package cgroup bounds what a tree of processes may use, with the kernel's control groups.
//
//	group, err := cgroup.Make(cgroup.Limits{Processes: 64, Memory: 1 << 30})
//	... each newborn writes "0" to the files of group.Join() ...
//	reached, which := group.Reached()
//	group.Remove()
//
// A group of version 2 is made where that is delegated: beside this process, or below it, where controllers are handed down
// already. Else groups of version 1 are made below those that this process is in, one for each controller, where it may. Nothing
// that exists is changed, and this process is not moved.
//
// The name of a group says which host made it, so that the next host removes what a dead one has left.
package cgroup
