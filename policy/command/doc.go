// Package command finds the commands that a command line runs, and has the facts about them.
//
//	u := command.Understand(command.Line{Argv: []string{"/bin/bash", "-lc", "git status && rm -rf build"}})
//	u.Commands                        // [[git status] [rm -rf build]]
//	u.Plain                           // true: this is all that runs
//	command.Dangerous(u.Commands[1])  // true: it removes by force
//	command.Safe(u.Commands[0], command.Setting{Confined: true}) // true: it only looks at things
//	command.RunsAnything([]string{"bash", "-c"})                 // true: a rule for this would allow everything
//
// Nothing here reads a file, starts a program or remembers anything: equal arguments have equal answers. All functions may be
// called at the same time.
//
// # Three ways to look at a script
//
// [Understand] is strict. It takes a script apart only where it is certain that the shell runs these commands with these
// words and no others. Anything it does not know makes the script one opaque command. Code that allows something must use
// it.
//
// [Search] is broad, and so is [Dangerous]. It looks for commands everywhere: in loops, substitutions, functions and aliases, in
// texts that a shell gets in any other way, and through programs that run their words. It says so if a shell runs something that
// it cannot read. Code that stops something uses it, and no other code may.
//
// [Split] is simple. It splits the text of an example in a rule file, which is never run.
//
// # Bounds
//
// A script is parsed up to 64 KiB and 4,096 brackets, taken apart into at most 256 commands, and searched through eight
// wrappers. Functions and aliases are followed 32 deep, and the output of echo, printf and cat through eight substitutions. A list of
// words becomes at most 256 commands. Beyond these bounds the answers err on the side of caution: not understood, not readable, and
// dangerous where it looks so.
//
// # What you must not assume
//
// That a name is the program you know. A name is taken for the program that usually has it; the caller that runs it has to
// check where the name leads.
//
// That a shell still reads a script as we do after it has read its start files: we do not see their aliases, functions and hooks.
//
// That a search finds every command. It does not follow the values of variables, does not know what is in files, and knows only some of
// the programs that run their words. A copy of a shell under another name is a program like any other.
//
// That a command which is not dangerous is harmless. The search finds accidents, not intent.
package command
