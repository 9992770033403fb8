// Package messages is the vocabulary of execbus: every request, reply, event and error that crosses a room's wall.
//
//	result, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"make", "test"}, Yield: new(30 * time.Second)})
//	if errors.Is(err, messages.ErrNoSuchProgram) {
//		return installMake()
//	}
//	fmt.Println(result.OutputText()) // as a model reads it
//
// All types are plain values with JSON tags. They are never changed after they are sent, so a receiver may keep them and
// read them from any goroutine; a sender that wants to change one makes a new one. Clone copies a request for a receiver whose sender
// may go on to use its lists, maps and pointers.
//
// One family of messages lives in one file, named by its verb or noun:
//
//	error.go        *Error and its codes, which errors.Is finds
//	standard.go     errors of the standard library that an *Error is as well
//	ids.go          session, process and call ids; terminal size
//	exitstatus.go   how a leader exited
//	status.go       why a process ended, what became of its tree
//	environment.go  how a child's environment is built
//	exec.go         starting a command, and the result of a call that waited
//	run.go          running a command to its end with a timeout
//	patch.go        applying a patch, and what it changes
//	numbers.go      how long calls wait, and which numbers are refused
//	ending.go       how a process ended, in words
//	truncate.go     output that is too long
//	lossy.go        output that is not UTF-8
//	input.go        writing to a process, polling, closing its input, resizing
//	signal.go       signals and their names
//	control.go      terminating, listing, reading remembered output, session-wide changes
//	wait.go         waiting for exits
//	questiontext.go a question and its choices as a person reads them
//	parsepolicy.go  policies as a person writes them
//	network.go      rules about hosts, and the record of a connection
//	clone.go        deep copies of requests
//	event.go        what is published on the bus
//	eventjson.go    events in JSON, with their kind
//	weight.go       how much memory an event keeps alive
//
// # In JSON
//
// An event has its kind: {"kind":"output_delta","session":...}, and [UnmarshalEvent] reads an event of any kind. A signal is its
// name: "SIGTERM". A duration is a number of nanoseconds, and the name of its field ends in Ns.
//
// # What you must not assume
//
// That JSON keeps every byte: byte slices (output, input) cross it unchanged, but in strings (arguments, paths, variables)
// every byte that is not part of a UTF-8 character becomes U+FFFD. Empty and nil are the same on the other side, and a time loses
// its monotonic clock.
//
// That the zero value of a request is valid: the receiver validates requests, and answers a wrong one
// with an *Error that names the field.
//
// That zero means "not said": where a request has a pointer to a number, nil means the default, and zero is zero, except for
// the timeout of a run. A number above its bound is brought down to the bound, and a negative one is refused.
//
// That Error.Hint reaches the reader of an error: it is for the embedder, in terms of Go. The sentence is complete without it.
package messages
