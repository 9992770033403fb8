package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// background leaves children behind: plain ones, and daemons that left the session and lost their parents.
func (st *step) background() {
	code, count := st.code(), st.between(1, 4)
	script := "trap '' HUP; " // when the leader of a terminal exits, the kernel sends it
	for range count {
		script += []string{"sleep 30 & ", "(setsid sleep 30 &) ; ", "setsid sleep 30 >/dev/null 2>&1 </dev/null & "}[st.dice.IntN(3)]
	}
	command := sh(st.coin(), fmt.Sprintf("%sexit %d", script, code))
	keep := st.coin()
	if keep {
		command.OnLeaderExit = messages.LeaderExitKeepsTree
	}
	command.Yield, command.Grace = new(messages.MaxYield), new(st.millis(1, 200))
	j, result := st.exec(st.ctx, command, want{codes: []int{code}})
	if result == nil || result.Status != messages.StatusExited(code) || st.disturbed() || st.client.closing.Load() {
		return
	}
	if result.Background == nil || result.Background.Count != count || keep && !result.Background.Kept && result.Running {
		st.fault("background: %d children were left, and the answer says %+v (%s)", count, result.Background, statusOf(result))
	}
	if keep && st.dice.IntN(3) > 0 {
		record := j.terminate(messages.Terminate{})
		if record != nil && record.Tree.Ended != count && record.Cause == messages.CauseExited && !st.disturbed() {
			st.fault("background: %d children were left, and %d were ended (%s)", count, record.Tree.Ended, record)
		}
	}
	if !keep {
		j.finish()
	}
}

// cancel cancels calls at any moment. The process must not notice, and none of its output may be lost.
func (st *step) cancel() {
	tty, code := st.coin(), st.code()
	f, script := st.output(30_000, tty, code)
	command := sh(tty, "sleep 0.0"+fmt.Sprint(st.between(0, 9))+"; "+script)
	ctx, cancel := context.WithTimeout(st.ctx, st.millis(0, 80))
	j, _ := st.exec(ctx, command, want{codes: []int{code}, output: &f})
	cancel()
	if j == nil || !j.identify() {
		return
	}
	for range st.between(0, 4) {
		ctx, cancel := context.WithTimeout(st.ctx, st.millis(0, 40))
		poll := messages.Poll{Process: j.id, NoTimeout: st.coin()}
		result, err := st.client.session.Poll(ctx, poll)
		cancel()
		if j.typed("poll", err, append([]messages.ErrorCode{messages.ErrCancelled}, gone...)...) {
			j.took("poll", result)
		}
	}
	if st.dice.IntN(4) == 0 {
		j.terminate(messages.Terminate{})
	}
	j.finish()
}

// kill kills leaders from outside, or their children.
func (st *step) kill() {
	code := st.code()
	j := st.start(sh(st.coin(), fmt.Sprintf("sleep 20; exit %d", code)), want{codes: []int{code}, struck: true})
	if j == nil || !j.identify() {
		return
	}
	st.pause(st.millis(0, 30))
	st.client.ledger.mu.Lock()
	leader := j.entry.pid
	st.client.ledger.mu.Unlock()
	victim, parent := leader, newestWarden()
	if st.dice.IntN(3) == 0 {
		victim, parent = childOf(leader), leader
	}
	switch killed, err := signalChild(syscall.SIGKILL, victim, parent, ""); {
	case err != nil:
		st.fault("kill: %v", err)
	case killed:
		st.host.tally.add("children killed")
	default: // it had no child yet, or has ended
		j.terminate(messages.Terminate{})
	}
	j.finish()
}

// prune starts more processes than a session may have.
func (st *step) prune() {
	most := st.between(2, 4)
	if !st.in(execbus.SessionOptions{MaxProcesses: most, WarnProcesses: most - 1, ProtectedProcesses: 1, NoLoginShell: true}) {
		return
	}
	for range most + st.between(1, 3) {
		st.start(sh(st.coin(), "sleep 20; exit 21"), want{codes: []int{21}})
		st.list()
	}
	st.backToLimit()
	if st.coin() {
		st.client.close(st.beyond())
	}
}

// guests is how many processes a session may have above its limit: those whose calls have not been answered, or whose
// victims are being ended.
const guests = 8

// list checks that a session keeps its limit, guests included.
func (st *step) list() {
	if living, listed := st.living(); listed && living > st.client.max+guests {
		st.fault("%d processes, and %d and %d guests are allowed", living, st.client.max, guests)
	}
}

// backToLimit checks that a session has guests only briefly if no call waits.
func (st *step) backToLimit() {
	for late := time.Now().Add(endWait); st.ctx.Err() == nil; st.pause(5 * time.Millisecond) {
		living, listed := st.living()
		if !listed || living <= st.client.max {
			return
		}
		if time.Now().After(late) {
			st.fault("%d processes are left, and %d are allowed", living, st.client.max)
			return
		}
	}
}

// living counts the processes of a session.
func (st *step) living() (n int, listed bool) {
	all, err := st.client.session.List(st.ctx)
	if !st.typed("list", err) {
		return 0, false
	}
	for _, p := range all {
		if p.State == messages.StateRunning || p.State == messages.StateExited {
			n++
		}
	}
	return n, true
}

// beyond is a context that outlives the run, so that closing is always completed.
func (st *step) beyond() context.Context { return context.WithoutCancel(st.ctx) }

// session opens a session. It closes the session while several users do things in it.
func (st *step) session() {
	if !st.in(execbus.SessionOptions{MaxProcesses: 16}) {
		return
	}
	st.typed("pause", st.client.session.PauseYields(st.ctx))
	var users sync.WaitGroup
	for n := range st.between(1, 4) {
		user := *st // with dice of its own
		user.name, user.dice = fmt.Sprintf("%s.u%d", st.name, n), rand.New(rand.NewPCG(st.dice.Uint64(), st.dice.Uint64()))
		todo := []func(*step){(*step).short, (*step).background, (*step).cancel, (*step).watch, (*step).signal}[st.dice.IntN(5)]
		users.Go(func() { todo(&user) })
	}
	st.pause(st.millis(0, 100))
	st.typed("resume", st.client.session.ResumeYields(st.ctx))
	st.pause(st.millis(0, 300))
	st.client.close(st.beyond())
	users.Wait()
	if _, err := st.client.session.List(st.ctx); !isCode(err, messages.ErrClosed) && st.ctx.Err() == nil {
		st.fault("list in a closed session: %v", err)
	}
}

// replace closes a shared session, together with everything that other steps do in it.
func (st *step) replace() {
	old, err := st.pool.swap(st.slot, execbus.SessionOptions{MaxProcesses: st.between(4, 20), ProtectedProcesses: st.between(1, 4)})
	if err != nil {
		st.fault("open session: %v", err)
		return
	}
	old.close(st.beyond())
}

// executor uses an Executor instead of calls.
func (st *step) executor() {
	code := st.code()
	dir, err := os.Getwd()
	if err != nil {
		st.fault("%v", err)
		return
	}
	request := execbus.SpawnRequest{ProcessID: st.name, Argv: []string{"sh", "-c", fmt.Sprintf("read x; exit %d", code)}, Dir: dir,
		Env: map[string]string{markVariable: st.host.nonce, "PATH": os.Getenv("PATH")}, TTY: st.coin()}
	if !st.in(execbus.SessionOptions{}) {
		return
	}
	st.client.ledger.expectUnnamed(st.where(), want{codes: []int{code}})
	p, err := st.client.session.Executor().Spawn(st.ctx, request)
	if !st.typed("spawn", err) {
		return
	}
	stop := st.dice.IntN(3) == 0
	if stop {
		_, err = p.Terminate(st.ctx)
	} else {
		_, err = p.Write([]byte("x\n"))
	}
	st.typed("terminate or write", err, ofInput...)
	status, err := p.Wait(st.ctx)
	if st.typed("wait", err) && !stop && status != messages.StatusExited(code) && !st.disturbed() {
		st.fault("executor: the process exited with %s, want %d", status, code)
	}
	st.client.close(st.beyond())
}

// mistakes makes impossible requests, and expects the right refusal.
func (st *step) mistakes() {
	j := st.start(sh(false, "sleep 20; exit 22"), want{codes: []int{22}})
	if j == nil || !j.identify() {
		return
	}
	s, known := st.client.session, j.id
	_, missing := st.exec(st.ctx, messages.ExecCommand{Argv: []string{"/no/such/program"}}, want{unborn: true}, messages.ErrNoSuchProgram)
	_, nothing := st.exec(st.ctx, messages.ExecCommand{}, want{unborn: true}, messages.ErrInvalidRequest)
	if missing != nil || nothing != nil {
		st.fault("what cannot be run was run")
	}
	_, unknown := s.Poll(st.ctx, messages.Poll{Process: 1})
	_, write := s.Write(st.ctx, messages.WriteStdin{Process: known, Bytes: []byte("x"), UntilTaken: true})
	_, read := s.Read(st.ctx, messages.ReadOutput{Process: known})
	for _, refusal := range []struct {
		op   string
		err  error
		want messages.ErrorCode
	}{
		{"poll", unknown, messages.ErrUnknownProcess},
		{"write", write, messages.ErrStdinClosed},
		{"read", read, messages.ErrInvalidRequest},
		{"resize", s.Resize(st.ctx, messages.Resize{Process: known, Size: messages.Size{}.OrDefault()}), messages.ErrNotATerminal},
		{"signal", s.Signal(st.ctx, messages.Signal{Process: known, Signal: 99}), messages.ErrInvalidRequest},
	} {
		if refusal.err == nil {
			st.fault("%s was not refused", refusal.op)
		}
		st.typed(refusal.op, refusal.err, append([]messages.ErrorCode{refusal.want}, gone...)...)
	}
	j.terminate(messages.Terminate{Grace: new(time.Duration)})
}

// look lists, and changes the environment.
func (st *step) look() {
	st.list()
	all, err := st.client.session.Records(st.ctx)
	if st.typed("records", err) {
		for _, p := range all {
			if (p.State == messages.StateClosed) != (p.End != nil) {
				st.fault("process %d is %s and its record is %v", p.Process, p.State, p.End)
			}
		}
		if !slices.IsSortedFunc(all, func(a, b messages.ProcessInfo) int { return int(a.Process - b.Process) }) {
			st.fault("the list is not sorted")
		}
	}
	dir := []string{"/", "/tmp", "/usr"}[st.dice.IntN(3)]
	st.typed("update", st.client.session.UpdateEnvironment(st.ctx, messages.UpdateEnvironment{Dir: &dir}))
}
