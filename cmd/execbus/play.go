package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/execbus/execbus/record"
	"github.com/execbus/execbus/view"
)

const playUsage = `Usage:
  execbus play [FLAG]... FILE

Plays a recording that run --record or asciinema made: asciicast of version 2 or 3. FILE - is standard input. What asks the terminal for an
answer, titles and the clipboard are left out, so that a recording only draws. Ctrl-C stops, and leaves the terminal as it was.

Flags:
  --speed N             N times as fast; 0 plays without pauses. By default: 1
  --idle-limit SECONDS  make no pause longer than this. By default: what the recording says
  --svg AT              write the screen at a time as a picture instead: seconds, a time such as 1m30s, or end
  --v2                  write the recording in version 2 instead, for older players
  --out F               write to a new file instead of standard output; with --svg and --v2

Exit codes: 0 at the end, 130 after Ctrl-C, 1 if the recording cannot be read to its end or the output cannot be written, 2 for wrong usage.

Examples:
  execbus run --record build.cast -- make
  execbus play --speed 4 --idle-limit 1 build.cast
  execbus play --svg end --out build.svg build.cast
`

// exitInterrupted is 128 and the number of SIGINT.
const exitInterrupted = 130

// player is what the flags of "play" say.
type player struct {
	speed, idle float64
	svg, out    string
	v2          bool
}

// play runs "play".
func play(args []string, std streams) int {
	var p player
	flags := flag.NewFlagSet("play", flag.ContinueOnError)
	flags.Float64Var(&p.speed, "speed", 1, "")
	flags.Float64Var(&p.idle, "idle-limit", 0, "")
	flags.StringVar(&p.svg, "svg", "", "")
	flags.StringVar(&p.out, "out", "", "")
	flags.BoolVar(&p.v2, "v2", false, "")
	if code, done := parse(flags, args, playUsage, std); done {
		return code
	}
	switch {
	case flags.NArg() != 1:
		return misused(std, "name one recording", playUsage)
	case !(p.speed >= 0) || math.IsInf(p.speed, 0):
		return misused(std, "--speed: use a number from 0 on", playUsage)
	case !(p.idle >= 0) || isSet(flags, "idle-limit") && p.idle == 0:
		return misused(std, "--idle-limit: use a number of seconds above 0", playUsage)
	case p.svg != "" && p.v2:
		return misused(std, "--svg and --v2 cannot be used together", playUsage)
	case p.out != "" && p.svg == "" && !p.v2:
		return misused(std, "--out needs --svg or --v2", playUsage)
	}
	at, err := moment(p.svg)
	if err != nil {
		return misused(std, "--svg: "+err.Error(), playUsage)
	}
	name, in := flags.Arg(0), std.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return failed(std, err)
		}
		defer file.Close()
		in = file
	}
	reader, err := record.NewReader(in)
	if err != nil {
		return failed(std, fmt.Errorf("%s: %w", name, err))
	}
	code := 0
	switch {
	case p.svg != "":
		err = p.write(std, func(out io.Writer) error { return picture(out, reader, at) })
	case p.v2:
		err = p.write(std, func(out io.Writer) error { return record.WriteVersion2(out, reader) })
	default:
		code, err = p.play(reader, std)
	}
	if err != nil {
		return failed(std, fmt.Errorf("%s: %w", name, err))
	}
	if reader.Cut {
		fmt.Fprintln(std.err, "execbus: the recording ends within a line: what was recording it was killed, or its disk was full")
	}
	return code
}

// moment reads a time in a recording; end is one that never comes.
func moment(text string) (time.Duration, error) {
	if text == "end" || text == "" {
		return math.MaxInt64, nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 0 && s < math.MaxInt32 {
		return time.Duration(s * float64(time.Second)), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q is no time; use seconds such as 12.5, a time such as 1m30s, or end", text)
}

// write writes to --out, or to standard output.
func (p *player) write(std streams, to func(io.Writer) error) error {
	if p.out == "" || p.out == "-" {
		return to(std.out)
	}
	file, err := os.OpenFile(p.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(to(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(p.out))
	}
	return nil
}

// picture writes the screen at a moment.
func picture(out io.Writer, r *record.Reader, at time.Duration) error {
	screen := view.NewScreen(r.Header.Size)
	for {
		e, err := r.Next()
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF || e.At > at {
			_, err := io.WriteString(out, screen.SVG())
			return err
		}
		switch e.Code {
		case record.Output:
			_, _ = screen.Write([]byte(e.Data))
		case record.Resize:
			if size, ok := e.Size(); ok {
				screen.Resize(size)
			}
		}
	}
}

// play writes the output in its time, until the end or an interrupt.
func (p *player) play(r *record.Reader, std streams) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	screen := view.NewScreen(r.Header.Size) // knows what has to be undone
	if out, isFile := std.out.(*os.File); isFile && term.IsTerminal(int(out.Fd())) {
		if columns, rows, err := term.GetSize(int(out.Fd())); err == nil && (columns < int(r.Header.Size.Cols) || rows < int(r.Header.Size.Rows)) {
			fmt.Fprintf(std.err, "execbus: this terminal has %d columns and %d rows, and the recording needs %d and %d\n", columns, rows, r.Header.Size.Cols, r.Header.Size.Rows)
		}
		defer borrow(std.out, attach(std), screen)()
	}
	idle := r.Header.IdleLimit
	if p.idle > 0 {
		idle = time.Duration(min(p.idle, math.MaxInt32) * float64(time.Second))
	}
	var drawing record.Drawing
	var last time.Duration
	next := time.Now()
	for {
		e, err := r.Next()
		switch {
		case err == io.EOF:
			return 0, nil
		case err != nil:
			return 0, err
		}
		pause := e.At - last
		if last = e.At; idle > 0 {
			pause = min(pause, idle)
		}
		if p.speed > 0 {
			next = next.Add(time.Duration(min(float64(pause)/p.speed, math.MaxInt64/4)))
			if wait := time.Until(next); wait > 0 {
				timer := time.NewTimer(wait)
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
				}
			}
		}
		if ctx.Err() != nil {
			return exitInterrupted, nil
		}
		if e.Code == record.Output {
			drawn := drawing.Append(nil, e.Data)
			_, _ = screen.Write(drawn)
			if _, err := std.out.Write(drawn); err != nil {
				return 0, err
			}
		}
	}
}

// leave undoes what a recording may have left of a terminal's modes, when it stops in the middle: colours, margins, modes of keys and of the
// mouse, a hidden cursor. It does not clear the screen.
const leave = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[!p\x1b[?1l\x1b>\x1b[4l\x1b[?7h\x1b7\x1b[r\x1b8\x1b(B\x0f\x1b[0m\x1b[?25h\r\n"

// borrow makes a terminal ready for playing, and returns what makes it as it was. Keys are not shown meanwhile, and are thrown away.
func borrow(out io.Writer, t *terminal, shown *view.Screen) (giveBack func()) {
	var before *unix.Termios
	if t != nil {
		if state, err := unix.IoctlGetTermios(t.fd, getTermios); err == nil {
			quiet := *state
			quiet.Lflag &^= unix.ICANON | unix.ECHO
			if unix.IoctlSetTermios(t.fd, setTermios, &quiet) == nil {
				before = state
			}
		}
	}
	return func() {
		if shown.FullScreen() {
			_, _ = io.WriteString(out, "\x1b[?1049l")
		}
		_, _ = io.WriteString(out, leave)
		if before != nil {
			_ = unix.IoctlSetTermios(t.fd, setTermiosFlushed, before)
		}
	}
}
