package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// ofInput are the codes for a write to a process that may be ending.
var ofInput = append([]messages.ErrorCode{messages.ErrStdinClosed, messages.ErrInputNotTaken}, away...)

// talk has a conversation with a program on a terminal, and resizes it.
func (st *step) talk() {
	code, words := st.code(), st.between(1, 6)
	command := sh(true, fmt.Sprintf(`while read x; do [ "$x" = quit ] && exit %d; echo "<$x>"; done; exit %d`, code, code+1))
	command.Yield = new(messages.MinYield)
	command.Size = messages.Size{Rows: uint16(st.between(1, 200)), Cols: uint16(st.between(1, 200))}
	j, result := st.exec(st.ctx, command, want{codes: []int{code, code + 1}})
	if result == nil {
		return
	}
	j.heard = true
	said := result.Output
	for n := range words {
		if st.coin() {
			err := st.client.session.Resize(st.ctx, messages.Resize{Process: j.id, Size: messages.Size{Rows: uint16(st.between(1, 500)), Cols: uint16(st.between(1, 500))}})
			st.typed("resize", err, away...)
		}
		said = append(said, j.write(fmt.Sprintf("word%d\n", n), st.dice.IntN(3) == 0)...)
	}
	said = append(said, j.write("quit\n", false)...)
	if !j.heard {
		j.terminate(messages.Terminate{})
	}
	if !j.awaitOutput(&said) || !j.asMeant() || !j.heard {
		return
	}
	for n, rest := 0, string(said); n < words; n++ {
		_, after, found := strings.Cut(rest, fmt.Sprintf("<word%d>", n))
		if !found {
			st.fault("talk: no answer to word%d in %q", n, said)
			return
		}
		rest = after
	}
}

// write sends a line and returns the output since then.
func (j *job) write(line string, untilTaken bool) []byte {
	result, err := j.client.session.Write(j.ctx, messages.WriteStdin{Process: j.id, Bytes: []byte(line), UntilTaken: untilTaken})
	if !j.typed("write", err, ofInput...) {
		j.heard = false
		return nil
	}
	j.heard = j.heard && result.Taken == len(line)
	if result.InputErr != nil && !isCode(result.InputErr, ofInput...) {
		j.fault("write: %v", result.InputErr)
	}
	if result.Running && result.Taken != len(line) && result.InputErr == nil {
		j.fault("write: %d bytes of %d taken, and no reason", result.Taken, len(line))
	}
	if !untilTaken {
		j.took("write", result)
	}
	return result.Output
}

// awaitOutput polls to the end.
func (j *job) awaitOutput(said *[]byte) bool {
	for j.ctx.Err() == nil {
		result, err := j.client.session.Poll(j.ctx, messages.Poll{Process: j.id})
		if !j.typed("poll", err, gone...) {
			return isCode(err, messages.ErrProcessEnded) && j.awaitEnd()
		}
		j.took("poll", result)
		*said = append(*said, result.Output...)
	}
	return false
}

// asMeant reports whether the process ran undisturbed to its end.
func (j *job) asMeant() bool {
	j.client.ledger.mu.Lock()
	defer j.client.ledger.mu.Unlock()
	return j.entry.asMeant()
}

// copy sends bytes through cat on pipes, and ends its input.
func (st *step) copy() {
	code := st.code()
	command := sh(false, fmt.Sprintf("cat; exit %d", code))
	command.OpenStdin = true
	j := st.start(command, want{codes: []int{code}})
	if j == nil {
		return
	}
	var sent, got []byte
	whole := true
	for n := range st.between(1, 8) {
		chunk := bytes.Repeat([]byte{byte('a' + n)}, st.between(1, 40_000))
		result, err := st.client.session.Write(st.ctx, messages.WriteStdin{Process: j.id, Bytes: chunk, UntilTaken: st.coin()})
		if !st.typed("write", err, ofInput...) {
			whole = false
			break
		}
		whole = whole && result.Taken == len(chunk)
		sent, got = append(sent, chunk...), append(got, result.Output...)
	}
	if !st.typed("close stdin", st.client.session.CloseStdin(st.ctx, messages.CloseStdin{Process: j.id}), ofInput...) {
		j.terminate(messages.Terminate{})
	}
	if j.awaitOutput(&got) && j.asMeant() && whole && !bytes.Equal(sent, got) {
		st.fault("copy: %d bytes were sent and %d came back, or others", len(sent), len(got))
	}
}

// signal sends signals to programs that handle some of them.
func (st *step) signal() {
	code := st.code()
	script := fmt.Sprintf("trap 'exit %d' USR1; trap '' HUP WINCH; while :; do sleep 0.05; done", code)
	j, _ := st.exec(st.ctx, quick(sh(st.coin(), script)), want{codes: []int{code}, struck: true})
	if j == nil || !j.identify() {
		return
	}
	numbers := []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGWINCH,
		syscall.SIGSTOP, syscall.SIGCONT}
	for range st.between(1, 5) {
		request := messages.Signal{Process: j.id, Signal: numbers[st.dice.IntN(len(numbers))], Tree: st.coin()}
		st.typed("signal", st.client.session.Signal(st.ctx, request), away...)
		st.pause(st.millis(0, 20))
	}
	j.terminate(messages.Terminate{Grace: new(st.millis(10, 300))})
	j.awaitEnd()
}

// quick makes a command's call answer soon.
func quick(command messages.ExecCommand) messages.ExecCommand {
	command.Yield = new(messages.MinYield)
	return command
}

// terminate ends programs that end at once, that want to tidy up, and that refuse, sometimes twice.
func (st *step) terminate() {
	code := st.code()
	script := []string{
		fmt.Sprintf("sleep 20; exit %d", code),
		fmt.Sprintf("trap 'exit %d' TERM HUP; while :; do sleep 0.05; done", code),
		"trap '' TERM HUP; while :; do sleep 0.05; done",
		fmt.Sprintf("sleep 20 & sleep 20 & wait; exit %d", code),
	}[st.dice.IntN(4)]
	command := sh(st.coin(), script)
	command.Grace = new(st.millis(1, 300))
	var j *job
	if st.coin() {
		j = st.start(command, want{codes: []int{code}})
	} else {
		j, _ = st.exec(st.ctx, quick(command), want{codes: []int{code}})
	}
	if j == nil {
		return
	}
	request := messages.Terminate{}
	switch st.dice.IntN(3) {
	case 0:
		request.Grace = new(time.Duration)
	case 1:
		request.Grace = new(st.millis(1, 200))
	}
	if st.coin() {
		ctx, cancel := context.WithTimeout(st.ctx, st.millis(0, 20))
		if j.identify() {
			_, err := st.client.session.Terminate(ctx, messages.Terminate{Process: j.id, Grace: new(time.Second)})
			j.typed("terminate", err, append([]messages.ErrorCode{messages.ErrCancelled}, gone...)...)
		}
		cancel()
	}
	record := j.terminate(request)
	if record != nil && record.Cause != messages.CauseTerminated && !st.disturbed() {
		st.fault("terminated, and the record says %s", record)
	}
}
