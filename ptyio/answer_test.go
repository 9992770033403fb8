//go:build linux

package ptyio_test

import (
	"fmt"
	"testing"

	"github.com/execbus/execbus/ptyio"
)

// unattended is a launch on a terminal without a person.
func unattended(argv ...string) ptyio.Launch {
	l := launch(true, argv...)
	l.Unattended = true
	return l
}

// asking leaves line mode, asks, and prints in hexadecimal what it reads until the given number of bytes has come. The parts of a request
// are written one by one.
const asking = `stty raw -echo; n=$1; shift; for part; do printf "$part"; sleep 0.02; done
	dd bs=1 count=$n 2>/dev/null | od -An -v -tx1 | tr -d ' \n'; echo .`

func TestATerminalWithoutAPersonAnswers(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		for _, test := range []struct {
			name   string
			answer string
			parts  []string
		}{
			{"cursor", "\x1b[1;1R", []string{`\033[6n`}},
			{"split", "\x1b[1;1R", []string{`\033`, `[`, `6`, `n`}},
			{"attributes", "\x1b[?1;2c\x1b[?1;2c", []string{`\033[c\033[0c`}},
			{"secondary attributes", "\x1b[>0;0;0c\x1b[>0;0;0c", []string{`\033[>c`, `\033[>0`, `c`}},
			{"foreground", "\x1b]10;rgb:ffff/ffff/ffff\x07", []string{`\033]10;?\007`}},
			{"background, and a fence", "\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[1;1R", []string{`\033]11;?\033`, `\\\\\033[6n`}},
			{"among other output", "\x1b[1;1R", []string{`\033[1m\033[6`, `;7m\033\033[6nx\033[`}},
		} {
			t.Run(test.name, func(t *testing.T) {
				argv := append([]string{"sh", "-c", asking, "sh", fmt.Sprint(len(test.answer))}, test.parts...)
				r := start(t, spawner, unattended(argv...))
				r.awaitOutput(t, fmt.Sprintf("%x.", test.answer))
			})
		}
	})
}

// The shell would take an answer for the beginning of the next line.
func TestATerminalInLineModeGetsNoAnswer(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, unattended("sh", "-c", `stty -echo; printf '\033[6nready'; IFS= read -r line; echo "<$line>"`))
		r.awaitOutput(t, "ready") // the requests in output are found before anyone gets it
		r.write(t, "moin\n")
		r.awaitOutput(t, "<moin>")
	})
}

func TestATerminalOfAPersonDoesNotAnswer(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, launch(true, "sh", "-c", asking, "sh", "4", `\033[6nready`))
		r.awaitOutput(t, "ready")
		r.write(t, "moin")
		r.awaitOutput(t, fmt.Sprintf("%x.", "moin"))
	})
}
