// Package cgroup bounds what a tree of processes may use, with the kernel's control groups.
//
//	group, err := cgroup.Make(cgroup.Limits{Processes: 64, Memory: 1 << 30})
//	... each newborn writes "0" to the files of group.Join() ...
//	reached, which := group.Reached()
//	group.Remove()
//
// A group of version 2 is made where one is delegated: beside this process, or below it where controllers are already
// handed down. Otherwise groups of version 1 are made below those that this process is in, one for each controller, where
// permitted. Existing groups are not changed, and this process is not moved.
//
// The name of a group says which host made it, so that the next host can remove the groups of a dead one.
package cgroup
