// Package cgroup bounds the resources of a tree of processes with the kernel's control groups.
//
//	group, err := cgroup.Make(messages.Limits{Processes: 64, MemoryBytes: 1 << 30})
//	... each child writes "0" to the files of group.Join() ...
//	limit := group.Reached()
//	group.Remove()
//
// If a group of version 2 is delegated to this process, a group is made beside the process's own, or below it if it already
// hands controllers down. Otherwise groups of version 1 are made below those of this process, one for each controller, where
// permitted. Existing groups are not changed, and this process is not moved.
//
// The name of a group says which host made it, so that the next host can remove the groups of a dead one.
package cgroup
