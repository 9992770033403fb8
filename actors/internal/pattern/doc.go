// Package pattern finds a pattern in the output of a process, however the output is cut into pieces.
//
//	m, err := pattern.New(`listening on \d+`, typed, at) // what was typed into the terminal at an offset, and may be shown
//	end, found := m.Push(offset, bytes)             // the offset behind the match
//
// The pattern is compared with text: without escape sequences and other control characters, and with \n at the end of a line. A Matcher keeps
// the end of the text, because a match may have begun there: as much as the longest match, or the last line where a match can have no
// \n, and at most messages.MaxPatternMatch bytes; a longer match may be missed. Assertions such as ^
// and \b see what came before, also where that is not kept. The end of the text is the end of what has come so far.
//
// The text is not that of package view: there a character may still be overwritten, and has no offset. Here each has the offset of its byte, and
// what a program has printed is found even if it is overwritten at once.
//
// # What you must not assume
//
// That a text for the terminal, such as the name of a window, hides all that follows if a program does not finish it: a command (OSC) ends
// with its line at the latest, and every text after 64 KiB.
//
// That the echo is always known: it is left out only if the output begins with it, behind blanks and ends of lines, as the terminal shows it
// in line mode, and as line editors that show what they get.
package pattern
