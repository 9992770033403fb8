package ptyio

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxLine is how many bytes of one line, without its end, a terminal in line mode can hold; the kernel (N_TTY_BUF_SIZE)
// silently drops the rest.
const MaxLine = 4095

// discipline is how a terminal cuts input into lines.
type discipline struct {
	on      bool
	eof     byte   // 0 if there is none
	endings []byte // characters that end a line, or empty it
	ignored []byte // characters that are not kept
	quote   byte   // the character that quotes the next one; 0 if there is none
	marking bool   // PARMRK: 0xff is kept as two bytes, and the kernel keeps room for three
}

// unfinished is the line in a terminal that has no end yet.
type unfinished struct {
	length int
	quoted bool // the last character quotes the next
}

// after returns the line after p was written, and whether every line in between fits into MaxLine. Characters that erase
// others count as if they were kept.
func (m discipline) after(l unfinished, p []byte) (next unfinished, fits bool) {
	if !m.on {
		return unfinished{}, true
	}
	fits = true
	longest := MaxLine
	if m.marking {
		longest -= 3
	}
	for _, b := range p {
		switch {
		case l.quoted:
			l.quoted = false
			l.length++
		case b == m.quote && b != 0:
			l.quoted = true
		case bytes.IndexByte(m.ignored, b) >= 0:
		case bytes.IndexByte(m.endings, b) >= 0:
			l.length = 0
		case b == 0xff && m.marking:
			l.length += 2
		default:
			l.length++
		}
		fits = fits && l.length <= longest
	}
	return l, fits
}

// readDiscipline reads the mode from the master, which shares it with the slave.
func readDiscipline(file syscall.Conn) (mode discipline, err error) {
	err = control(file, func(fd int) error {
		state, err := unix.IoctlGetTermios(fd, getTermios)
		if err == nil {
			mode = disciplineOf(state)
		}
		return err
	})
	return mode, err
}

func disciplineOf(state *unix.Termios) discipline {
	mode := discipline{on: state.Lflag&unix.ICANON != 0, eof: state.Cc[unix.VEOF]}
	if !mode.on {
		return mode
	}
	if state.Lflag&unix.IEXTEN != 0 {
		mode.quote = state.Cc[unix.VLNEXT]
	}
	mode.marking = state.Iflag&unix.PARMRK != 0
	mode.endings = terminators(state)
	if state.Iflag&unix.INLCR == 0 {
		mode.endings = append(mode.endings, '\n')
	}
	switch {
	case state.Iflag&unix.IGNCR != 0:
		mode.ignored = []byte{'\r'}
	case state.Iflag&unix.ICRNL != 0:
		mode.endings = append(mode.endings, '\r')
	}
	return mode
}

// terminators returns the characters after which the terminal's line is empty: those that end a line, the kill character,
// and those that raise a signal and flush the input.
func terminators(state *unix.Termios) []byte {
	indexes := []int{unix.VEOL, unix.VEOF, unix.VKILL}
	if state.Lflag&unix.IEXTEN != 0 {
		indexes = append(indexes, unix.VEOL2)
	}
	if state.Lflag&unix.ISIG != 0 && state.Lflag&unix.NOFLSH == 0 {
		indexes = append(indexes, unix.VINTR, unix.VQUIT, unix.VSUSP)
	}
	var found []byte
	for _, i := range indexes {
		if state.Cc[i] != noCharacter {
			found = append(found, state.Cc[i])
		}
	}
	return found
}
