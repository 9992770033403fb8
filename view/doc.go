// Package view shows output in the form that a reader needs: as text, or as the screen of a terminal. A view is a fold over
// the bytes that a process has printed; it keeps no more than a screen of the terminal's size, does nothing on its own, and
// is made when somebody asks.
//
//	text := view.TextOf(output, size)            // of output that is complete
//
//	t := view.NewText(size)                      // of output that goes on
//	shown = t.Append(shown, output)              // lines that have become final
//	shown = t.AppendRest(shown)                  // and those that may still be written again
//
//	s := view.NewScreen(size)
//	s.Write(output)
//	s.Text(); s.ANSI(); s.HTML(); s.SVG()        // s.Cursor(), s.Title(), s.FullScreen(), s.Modes()
//
// Output may be given in pieces of any size, also cut within a character or a sequence: the result is the same.
//
// # Text
//
// A text is what a person would find scrolling back through the terminal, from the first line to the last: without colours
// and other sequences, with what was overwritten, erased or inserted in its place, so that a progress bar is its last state.
// A line that is wrapped at the edge is one line. A row may be written again as long as it is on the screen; then it is
// final, as it is in a terminal: the cursor cannot get there. A screen that is cleared stays in the text. What full-screen
// programs show on the alternate screen does not; while one runs, the rows of its screen stand behind the text.
//
// A title that the program does not finish hides the rest of its line only, and another text for the terminal, such as an
// image, the next 64 KiB.
//
// Tabs stay tabs where nothing else was there. Blanks at the ends of lines are left out. The bytes of an unfinished sequence
// are not shown. What is no UTF-8 is U+FFFD, one for each byte. The result is valid UTF-8 with no control characters but \n
// and \t.
//
// Output of pipes, which have no size, is read as if the terminal were 2,000 columns wide, and with \n at the beginning of
// the next line.
//
// # Screen
//
// A screen is what a terminal with TERM=xterm-256color shows: characters with colours (16, 256 and 24-bit), attributes and
// kinds of underlines, wide and combining characters, line graphics, margins, tab stops, insert mode, origin mode, the
// alternate screen, saved cursors, REP, the title. Questions to the terminal are not answered. The modes of keyboard and
// mouse are only remembered.
//
// It is compared with tmux 3.3a: recordings of vim, less, top, htop, python, node, mc, dialog, tmux and a Bubble Tea program
// at three sizes and after resizes, and random streams of all the sequences of xterm-256color for output. Where xterm and
// tmux differ it does as tmux: behind a character in the last column the cursor is one further, so that a backspace goes to
// the last column and not to the one before; a backspace at the beginning of a row goes to the end of one that was wrapped;
// RIS stays in the alternate screen; DECSTR does nothing; SGR 38;2 with a wrong colour is skipped and its numbers are read on
// their own; C1 characters begin no sequences, not even in UTF-8, because text in a wrong encoding has them. Unlike tmux, ICH
// of more than half of the row's rest leaves nothing of the old characters there, IL and DL do nothing outside of the
// margins, REP repeats also characters beyond ASCII, a text for the terminal ends with any ESC, what is no UTF-8 is shown as
// U+FFFD, and a resize neither makes lines flow nor brings back rows that have left the screen: rows below the cursor go
// first, then those at the top.
//
// It is compared with xterm.js (@xterm/headless 6.0.0), too, where that is installed: the recordings look the same, and random
// streams without that in which it differs from tmux, which the test lists.
//
// HTML and SVG are complete elements with styles inside. The output cannot put markup into them: all text is escaped, and
// bidirectional controls are shown as U+FFFD there. A picture or a page loads nothing.
//
// # Why an emulator of its own
//
// Measured with 4 MiB of plain lines and of cursor movements, on a busy machine: the parser of charmbracelet/x/ansi v0.11.9
// alone 76 and 45 MB/s, x/vt v0.1.0, the emulator on it, 0.7 and 12 MB/s, hinshun/vt10x 7 and 8 MB/s; this package 88 to 190,
// in processor time on a machine that was busier still, by text and screen alike (go test -bench Views). The parser of x/ansi
// ends a title at the byte 0x9c, which is part of ✓ and others, and shows the rest of it; x/vt panics on a reverse index
// after a resize with margins; vt10x breaks characters that are cut by a write. A grid has to be written anyway, and a parser
// that keeps runs of ASCII together is shorter than what joins another to it.
//
// Both views are one terminal: a text is the rows that leave its screen. So there is one meaning of each sequence. The widths
// of characters come from golang.org/x/text.
//
// # What you must not assume
//
// That a view of another size than the terminal's is right: a program that draws by columns and rows looks wrong in it. That
// a view that begins in the middle of the output knows what was set before. That a text has the bytes of the output: offsets
// are those of the output, never of a view. That a text is safe to be followed as instructions, or free of characters that
// look like others: it is what the program printed. That wide characters are as wide as every terminal shows them: they are
// as wide as Unicode says, ambiguous ones narrow.
package view
