// Package rulebook is the actor that owns a runtime's rules. There is one; sessions have snapshots, which are never changed.
//
//	an approval actor: Amend ──▶ rulebook ── the file, in a goroutine, because its lock may block
//	                                │ appended, or there is no file
//	                                ▼
//	          the runtime's actor: Distribute ──▶ every session: NewRules ──▶ its approval actor
//	                                └──▶ Amended, to the one that asked
//
// If the rule cannot be made or written, Amended says so at once, and nothing is distributed. A crash ends the rulebook for good: the
// rules that there are still hold, and its watchers, the approval actors, go on without it.
package rulebook
