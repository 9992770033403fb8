//go:build linux

package ptyio

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// lineTerminal opens a terminal in line mode without echo. The test holds both sides.
func lineTerminal(t *testing.T, change func(*unix.Termios)) (ours *end, slave *os.File) {
	t.Helper()
	fd, slave, err := openPTY(messages.Size{}.OrDefault())
	if err != nil {
		t.Fatal(err)
	}
	ours = newEnd(fd)
	t.Cleanup(func() {
		_ = slave.Close()
		_ = ours.Close()
	})
	err = control(slave, func(fd int) error {
		state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		state.Lflag &^= unix.ECHO
		change(state)
		return unix.IoctlSetTermios(fd, unix.TCSETS, state)
	})
	if err != nil {
		t.Fatal(err)
	}
	blocking(slave)
	return ours, slave
}

// modes are ways to set up a terminal, each with the bytes that have a special meaning in it.
var modes = map[string]struct {
	change  func(*unix.Termios)
	special string
}{
	"plain":                       {func(*unix.Termios) {}, ""},
	"a quoted end of line":        {func(*unix.Termios) {}, "\x16\n"},
	"a quoted end of file":        {func(*unix.Termios) {}, "\x16\x04"},
	"nothing is quoted":           {func(s *unix.Termios) { s.Lflag &^= unix.IEXTEN }, "\x16"},
	"ignored carriage returns":    {func(s *unix.Termios) { s.Iflag |= unix.IGNCR }, "\r\r"},
	"kept carriage returns":       {func(s *unix.Termios) { s.Iflag &^= unix.ICRNL }, "\r"},
	"line feeds that are kept":    {func(s *unix.Termios) { s.Iflag |= unix.INLCR; s.Iflag &^= unix.ICRNL; s.Cc[unix.VEOL] = '!' }, "\n"},
	"marked bytes":                {func(s *unix.Termios) { s.Iflag |= unix.PARMRK }, "\xff"},
	"signals that are characters": {func(s *unix.Termios) { s.Lflag &^= unix.ISIG }, "\x03\x1c"},
}

func TestTheLongestLineThatIsAdmittedIsTheLongestThatTheKernelHolds(t *testing.T) {
	for name, m := range modes {
		t.Run(name, func(t *testing.T) {
			ours, slave := lineTerminal(t, m.change)
			mode, err := readDiscipline(ours)
			if err != nil || !mode.on {
				t.Fatalf("mode %+v, %v", mode, err)
			}
			text := append([]byte(m.special), bytes.Repeat([]byte("x"), 2*MaxLine)...)
			longest := len(m.special) + MaxLine + 2
			for fits := false; !fits; {
				longest--
				_, fits = mode.after(unfinished{}, text[:longest])
			}
			kept, _ := mode.after(unfinished{}, text[:longest])
			if got := through(t, ours, slave, text[:longest]); got != kept.length {
				t.Errorf("of %d bytes the child reads %d, want %d", longest, got, kept.length)
			}
			if got := through(t, ours, slave, text[:longest+1]); got != kept.length && !mode.marking {
				t.Errorf("of %d bytes the child reads %d, want %d", longest+1, got, kept.length)
			}
		})
	}
}

// through writes a line and returns how many of its bytes, without its end, can be read.
func through(t *testing.T, ours *end, slave *os.File, text []byte) int {
	t.Helper()
	line := append(bytes.Clone(text), "!\n"[lineEnd(slave):][0])
	if err := control(ours, func(fd int) error { _, err := unix.Write(fd, line); return err }); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4*MaxLine)
	n, err := slave.Read(got)
	if err != nil {
		t.Fatal(err)
	}
	return n - 1
}

// lineEnd is 0 if "!" ends lines, and 1 if "\n" does.
func lineEnd(slave *os.File) (which int) {
	_ = control(slave, func(fd int) error {
		state, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil && state.Cc[unix.VEOL] != '!' {
			which = 1
		}
		return err
	})
	return which
}

func TestTheCountOfALineStartsAgainWhereTheTerminalsDoes(t *testing.T) {
	ours, _ := lineTerminal(t, func(s *unix.Termios) { s.Cc[unix.VEOL], s.Cc[unix.VEOL2] = '1', '2' })
	mode, err := readDiscipline(ours)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range "\n\r\x04\x15\x03\x1c\x1a12" {
		if next, fits := mode.after(unfinished{length: MaxLine}, []byte(string(end)+"abc")); !fits || next.length != 3 {
			t.Errorf("after %q: %+v, %v", end, next, fits)
		}
	}
	next, fits := mode.after(unfinished{length: 10}, []byte("abc\x16"))
	if fmt.Sprint(next, fits) != "{13 true} true" {
		t.Errorf("a quote at the end: %+v, %v", next, fits)
	}
	if next, _ = mode.after(next, []byte("\n")); next.length != 14 {
		t.Errorf("the quoted end of line: %+v", next)
	}
	if next, fits := (discipline{}).after(unfinished{length: 10}, bytes.Repeat([]byte("x"), 3*MaxLine)); !fits || next.length != 0 {
		t.Errorf("in raw mode: %+v, %v", next, fits)
	}
}
