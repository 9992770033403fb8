// Package tree starts a leader and ends its tree: the leader with all its descendants. The warden uses it for every
// command and the direct spawner inside the host.
//
// A leader's exit is learnt with WNOWAIT, and the leader is reaped only when nothing of its tree is left: its zombie pins
// pid, process group and session until then. Every other signal goes through a pidfd: that of a process which was compared with the
// one that the walk saw, or that of a group in which such a process still is. So no signal can hit a stranger.
//
// An orphan must be matched to its tree. A daemon that called setsid and whose parent died shares neither parent, group nor
// session with its leader, and its environment may have been cleared. It does keep its resource limits. So a warden gives every
// tree a Mark: two huge hard limits, which restrict no program and which programs leave alone. A process without privileges
// cannot set those of another tree. An orphan whose limits name no tree is a stray: it counts as part of a tree only if it can
// belong to no other tree, and is named as a survivor otherwise. A stray is killed when all trees that it may belong to have ended.
package tree
