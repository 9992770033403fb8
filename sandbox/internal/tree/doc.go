// Package tree starts a leader and ends its tree: the leader with all its descendants. The warden uses it for every
// command and the direct spawner inside the host.
//
// A leader's exit is learnt with WNOWAIT and the leader is reaped only when nothing of its tree is left: its zombie pins
// pid, process group and session until then. Every signal goes through a pidfd whose process was compared with what the
// walk had seen, so none can hit a stranger.
//
// Which orphan belongs to which tree? A daemon that called setsid and whose parent died keeps neither parent, group nor
// session of its leader, and a cleaned environment keeps no marker. It does keep its resource limits. So a warden gives
// every tree a Mark: two huge hard limits, which restrict no program and which programs leave alone. A process without
// rights cannot set those of another tree. An orphan whose limits name no tree is a stray: it counts as part of a tree only
// if no other tree could have begotten it, and is named as a survivor otherwise. A stray is killed when all trees that it
// may belong to have ended.
package tree
