// Package session is the actor of one session, the supervisor of its processes. It routes every request and never waits:
//
//	exec      ──▶ an id, an entry in the table, an actor of package process as its child
//	request   ──▶ a call in the table: who asked, which process it concerns, how it is cancelled; it is answered by the process, by
//	              an actor of package wait, or here from a record
//	WantSlot  ──▶ one list of starts, in order: up to 8 run above the limit while their first calls wait; others wait for the slot of
//	              a process that is ended for them or anyway; a tree that is being ended holds one later start back
//	Consult   ──▶ on to the one actor of package approval, in the order of the calls, and the Verdict back
//	hostAsked ──▶ from the network: a Consult to the same actor; HostGrants, and behind them the answer, come back
//	Ended     ──▶ slot, ExecEnded, record: the one place where a process leaves the table
//	Crashed   ──▶ takes over: answers the process's calls, ends its tree, sends its last message; other processes do not notice
//	Stopping  ──▶ answers every call that it knows of
//
// The supervisor alone talks to other actors. What it has to decide and to remember is in types that know none: slots, teardowns,
// questions, records, terminations and calls. Each owns its part of an entry, and returns the effects of a decision; carryOut sends them.
package session
