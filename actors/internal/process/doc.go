// Package process is the actor of one command. It is a state machine, with each state a type in a file of its own, and it only
// moves forward:
//
//	planning ──▶ awaitingApproval ──▶ starting ──▶ running ──▶ exited ──▶ closed
//	   │  the plan allows it  ───────▶    ▲          │ ▲
//	   │                                  │ Slot     │ │ another attempt, after one that the sandbox has stopped
//	   ▼ the plan, in a goroutine         │          ▼ │
//	                       session: WantSlot     attempts are values in it: a child, the facts about it, the calls to it
//
// Starting waits for a slot and then for the spawner. Exited waits for the tree, the output and the input; closed has sent Ended,
// and the session, which has the record, handles later requests.
//
// Each call that waits here has its own clock and answers at its yield, independently of the others; the first to answer
// takes the unread output. Only a waiting write first waits for the waiting writes before it. A question holds the clock of
// the call that is asked about, and no other. A call may also have a condition: looks at the child and comparisons with a
// pattern are made in goroutines while such a call waits, and report by message; the looks are the rarer, the longer nothing
// happens, and the more of them have failed. A child of a host's own has a bounded time for each; after one that it does not
// answer it is not asked again. An actor that crashes hands its obligations over to its session.
package process
