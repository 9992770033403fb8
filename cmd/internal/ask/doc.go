// Package ask puts a question to the person at a terminal, for programs that run commands on the same terminal.
//
//	t := &ask.Terminal{Name: "execbus", Keys: keys, Out: tty, Size: size}
//	decision, err := t.Ask(ctx, question)
//
// # What a command cannot do to a question
//
// The command has drawn on this terminal before. So a question begins with a reset: see the list of sequences in reset.go. It stands
// on fresh lines below everything else, it names the program that asks, and it fits into the window: long facts are cut in the middle,
// with their length, and one key shows all of it. No character in it is invisible, moves or covers others.
//
// An answer is one key. Input before the question is dropped. A key counts if nothing was typed for half a second before it
// and nothing follows in the 100 ms behind it, and if it is no part of an escape sequence, since the command may have made the
// terminal send some. Only Ctrl-C counts at once. It means no.
//
// # What you must not assume
//
// That other programs are silent: the caller of Ask must keep other output off the terminal until it returns. The terminal must pass on
// single keys; see [Single]. What stands above the question may be a forgery, up to the line that names the program.
package ask
