// Package confine describes a sandbox policy whose paths have been looked up, and confines a child by Landlock, seccomp and
// the loss of its capabilities.
//
//	ruleset, err := confine.Ruleset(confine.Kernel().ABI, plan.Network, rules)   // once, in the process that has the descriptors
//	secret, err := confine.Filter(confine.KindOf(plan))                          // once, on a thread for this kind of filter
//	steps := confine.Born(ruleset)                                               // of each child of that thread
//
// A plan does not change, and does not say how much of it is enforced: a Level does. A warden imports this package, so it
// imports next to nothing.
package confine
