package main

import (
	"fmt"

	"github.com/execbus/execbus/messages"
)

// command is one of very many commands. It ends at once, with or without output, on a terminal or on pipes. Its result must
// be complete.
func (st *step) command() {
	tty, code := st.coin(), 0
	f := flood{tty: tty}
	command := messages.ExecCommand{Argv: []string{"true"}, TTY: tty}
	switch st.dice.IntN(4) {
	case 0:
		f.lines = st.between(1, 200)
		command.Argv = []string{"seq", fmt.Sprint(firstLine), fmt.Sprint(firstLine + f.lines - 1)}
	case 1:
		code = st.code()
		command = sh(tty, fmt.Sprintf("exit %d", code))
	}
	command.Yield = new(messages.MaxYield)
	j, result := st.exec(st.ctx, command, want{codes: []int{code}, output: &f})
	if result == nil {
		return
	}
	if result.Status != messages.StatusExited(code) || result.Running {
		st.fault("%v was answered with %s, want code(%d)", command.Argv, statusOf(result), code)
	}
	if j.account.taken != f.total() {
		j.finish() // the rest came after the answer
	}
}
