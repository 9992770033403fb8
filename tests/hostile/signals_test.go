//go:build linux

package hostile_test

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// spared are the signals that do not kill a program by default: they stop it, or do nothing.
var spared = []int{int(syscall.SIGSTOP), int(syscall.SIGTSTP), int(syscall.SIGTTIN), int(syscall.SIGTTOU),
	int(syscall.SIGCHLD), int(syscall.SIGCONT), int(syscall.SIGURG), int(syscall.SIGWINCH)}

// suicide makes a shell become a sleeper, which a child of its own then signals. The shell itself would ignore some signals.
const suicide = `(until [ "$(cat /proc/$$/comm)" = sleep ]; do :; done; kill -%d $$) & exec sleep $1`

// A program dies of each signal, sent by itself, by the host to the group, and by the host to the tree. All run in one
// session, so their records displace each other.
func TestDeathByEverySignal(t *testing.T) {
	const last, chunk = 64, 16
	step := 4 // a sample takes different signals in each row
	if *soak {
		step = 1
	}
	row := 0
	for _, tty := range []bool{false, true} {
		for _, who := range []string{"itself", "group", "tree"} {
			row++
			first := 1 + row%step
			t.Run(fmt.Sprintf("by %s/tty=%v", who, tty), func(t *testing.T) {
				ledger.enter(t)
				h := open(t, execbus.Options{})
				died, lived := 0, 0
				for number := first; number <= last; number += step * chunk {
					var programs []*program
					var numbers []int
					for n := number; n <= last && len(numbers) < chunk; n += step {
						script := `exec sleep $1`
						if who == "itself" {
							script = fmt.Sprintf(suicide, n)
						}
						programs, numbers = append(programs, h.run(h.bash(tty, script), false)), append(numbers, n)
					}
					for i, p := range programs {
						if p.dieOf(numbers[i], who) {
							died++
						} else {
							lived++
						}
					}
				}
				note(t, "%d died of the signal, %d lived on and were terminated", died, lived)
				h.reaped()
			})
		}
	}
}

// dieOf sends the signal, unless the program does that itself, and checks the outcome.
func (p *program) dieOf(number int, who string) bool {
	p.t.Helper()
	if who != "itself" {
		eventually(p.t, "it sleeps", func() bool { argv := look(p.pid()).argv; return len(argv) > 0 && argv[0] == "sleep" })
		if err := p.Signal(p.ctx, messages.Signal{Process: p.id, Signal: syscall.Signal(number), Tree: who == "tree"}); err != nil {
			p.t.Errorf("signal %d: %v", number, err)
		}
	}
	want := messages.CauseExited
	if slices.Contains(spared, number) {
		want = messages.CauseTerminated
		p.terminate()
	}
	ended := p.end()
	if ended.Cause != want || want == messages.CauseExited && ended.Status != messages.StatusSignaled(syscall.Signal(number)) {
		p.t.Errorf("signal %d: %s", number, ended.String())
	}
	return want == messages.CauseExited
}

func TestSignalsThatDoNotExist(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	p := h.run(h.bash(true, `sleep $1`), false)
	for _, number := range []int{-1, 0, 65, 1 << 30, -(1 << 40)} {
		for _, tree := range []bool{false, true} {
			if err := h.Signal(h.ctx, messages.Signal{Process: p.id, Signal: syscall.Signal(number), Tree: tree}); codeOf(err) != messages.ErrInvalidRequest {
				t.Errorf("signal %d: %v", number, err)
			}
		}
	}
	if !look(p.pid()).Alive() || look(os.Getpid()).State == 0 {
		t.Error("it died of them")
	}
	p.terminate()
	p.end()
	note(t, "%s", messages.ErrInvalidRequest)
}
