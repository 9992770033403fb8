// Package confine is what a sandbox policy has become once its paths have been looked up, and how a newborn is confined by
// Landlock, seccomp and the loss of its capabilities.
//
//	ruleset, err := confine.Ruleset(confine.Kernel().ABI, plan.Network, rules)   // once, by who has the descriptors
//	nursery, err := confine.NewNursery(confine.KindOf(plan))                     // once for each kind of filter
//	steps := confine.Born(ruleset)                                               // of what the nursery bears
//
// A plan is not changed, and says nothing about how much of it is enforced: that is a Level. A warden imports this package, so
// it imports next to nothing.
package confine
