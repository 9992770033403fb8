package ask

import "strings"

// Reset undoes what a command may have done to the terminal, without erasing what it has shown. The cursor may stand in a line that
// the command has begun.
func Reset() string { return strings.Join(reset, "") }

// freshLine stands behind the reset before a question, with nothing below it.
const freshLine = "\n\x1b[J"

// reset does not contain RIS, which would erase. Terminals ignore sequences that they do not know.
var reset = []string{
	"\x18",         // CAN ends an unfinished sequence
	"\x1b\\",       // ST ends an unfinished string
	"\x1b<",        // from VT52 sequences back to ANSI's
	"\x1b[?2026l",  // no more withheld updates
	"\x1b7",        // 1049 restores a saved position on some terminals even on the first screen: it is this one
	"\x1b[?1049l",  // the first screen
	"\x1b[?1047l",  // the same by its older names
	"\x1b[?47l",    //
	"\x1b7",        // the margins' sequence moves the cursor
	"\x1b[?69l",    // no left and right margins
	"\x1b[r",       // no scroll region
	"\x1b8",        //
	"\x1b[4l",      // no insert mode
	"\x1b[2l",      // the keyboard is not locked
	"\x1b[?7h",     // DECAWM: long lines wrap
	"\x1b[?5l",     // DECSCNM: no reverse screen
	"\x1b[?25h",    // the cursor is visible
	"\x1b(B",       // G0 to G3 are ASCII
	"\x1b)B",       //
	"\x1b*B",       //
	"\x1b+B",       //
	"\x0f",         // and G0 is used
	"\x1b[?9l",     // no mouse reports
	"\x1b[?1000l",  //
	"\x1b[?1001l",  //
	"\x1b[?1002l",  //
	"\x1b[?1003l",  //
	"\x1b[?1005l",  //
	"\x1b[?1006l",  //
	"\x1b[?1015l",  //
	"\x1b[?1016l",  //
	"\x1b[?1004l",  // no focus reports
	"\x1b[?2004l",  // no marks around pasted text
	"\x1b[?1l",     // usual cursor keys
	"\x1b>",        // usual keypad
	"\x1b[<99u",    // kitty's keyboard: no modes on its stack
	"\x1b[=0;1u",   // and none at its bottom
	"\x1b[>4;0m",   // xterm's modified keys
	"\x1b]104\x07", // OSC 4: the palette
	"\x1b]110\x07", // OSC 10: the text's colour
	"\x1b]111\x07", // OSC 11: the background's
	"\x1b]112\x07", // OSC 12: the cursor's
	"\x1b[0m",      // SGR: neither concealed nor coloured
}
