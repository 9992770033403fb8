// Package tools has the tools for language models, as values for any host: their schemas, arguments and texts.
//
//	options := tools.Options{Session: sessionOptions}
//	for _, tool := range tools.List(options) {
//		offer(tool.Name, tool.Description, tool.Input)
//	}
//	set := tools.New(session, options)
//	call := set.Begin(ctx, tools.Request{Name: "exec_command", Arguments: []byte(`{"cmd": "make test", "yield_time_ms": 30000}`)})
//	tell(call.Answer().Text)
//
// There are exec_command and write_stdin, with the names, arguments, defaults and texts that models know, apply_patch, and read_output,
// list_processes, wait_processes, terminate_process, send_signal and resize. An exec_command that is nothing but a call of apply_patch is one, and has the
// answer that models know of it. A door such as package mcp adds a protocol and nothing else.
//
// # Arguments
//
// A wrong type and a repeated name are errors that name the argument. An unknown argument is ignored, and the answer says so.
// Null means that an argument is left out. Times are in milliseconds. A number outside of its bounds, zero included, is brought to
// the nearest bound; a negative number is an error.
//
// A call about a command with tty that does not say until ends early, as in a session whose SessionOptions.AnswerEarly is set: see
// [messages.Until]. The text then says what the program waits for, in a line such as "Waiting for input: a line".
//
// # Order
//
// [Set.Begin] returns when the call has its place. A host begins calls one after the other, in the order in which the model made
// them, and may wait for the answers in any order. What is done to one process is then done in that order, and questions are put in
// that order. Commands of several calls start side by side: a command that needs another's result has to wait for its answer.
//
// # Answers
//
// [Answer.Text] is for the model. For exec_command and write_stdin it is lines of labels, "Output:", and the output. An
// error has two sentences: what happened, and what to do about it. [Answer.Structured] says everything that the text of a result
// says, and fits the schema in [Tool.Output]: some clients show their model nothing else. The output in both is cut to what the call
// and the session allow; [Options.WholeOutput] is for programs that want all of it. Standard output and standard error of a command
// on pipes are one pipe, so a model reads them in the order in which they were written; see [Options.SeparateStreams].
//
// The argument view says how output is shown: raw, text or screen, see [messages.View]; the session's SessionOptions.View is the default.
// Offsets, and the original token count, are those of the bytes whatever is shown.
//
// # What you must not assume
//
// That an error means that nothing ran: one that matches messages.ErrCancelled says that the call was cancelled.
//
// That a command goes on when its call is cancelled: the command of an exec_command is ended, because no answer has named it yet.
// A process that an answer has named goes on.
package tools
