// Package protocol has the messages between the actors, by pair, and those with which package execbus asks a session. They are
// not changed after they were sent. A message from an actor to itself is a type of that actor's own package.
//
//	door.go      a host      ──▶ a session          (besides the requests of package messages)
//	calls.go     who waits for an answer, and the answers that are errors
//	process.go   a session   ◀─▶ a process
//	patch.go     a session   ──▶ a patch
//	approval.go  a process   ◀─▶ the approval actor, by way of the session
//	runtime.go   a session   ◀─▶ the runtime's actor
//	rules.go     the approval actor ──▶ the rules' actor ──▶ the runtime's actor ──▶ every session
//
// A message that carries an obligation (a child to end, an end to publish, credit to give back) is a Discarder: it meets the
// obligation if no actor can take the message.
package protocol
