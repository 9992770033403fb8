// Package approval is the actor that puts the questions of one session to a person, one at a time, and remembers the answers. Its
// session brings consults and takes verdicts; each consult has exactly one verdict.
//
//	Consult ──▶ in the queue ──▶ planned again, with the newest rules and grants, in a goroutine
//	                                │ the plan needs nobody, or nobody listens ──────────────▶ Verdict
//	                                ▼ an equal question waits: joined to it
//	                             numbered ── first in the queue ──▶ put: ApprovalRequested, and the approver is called
//	                                │ rules or grants have changed: planned again                │
//	                                │ Withdraw by all who asked                                  │ Decide, the approver,
//	                                ▼                                                            ▼ or the deadline
//	                             forgotten ◀── ApprovalResolved, once for each that was put ── answered ──▶ Verdict
//
// An answer that allows a prefix goes through the rulebook first (Amend, Amended), so that the rule holds before the command runs. One
// that aborts rejects all questions of the owner. The approver is code of the host: it is asked one question at a time, and if it does
// not return, questions go on without it.
//
// A question about a host or an execution has an asker of its own, the connection or the process that waits: it is an inquiry. What is
// approved about hosts is in the list of grants, for a process or for the session, and each change of it goes to the session (HostGrants)
// before the verdicts that rest on it.
package approval
