package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// scenario is a thing that a step can do.
type scenario struct {
	name   string
	weight int
	run    func(st *step)
}

// scenarios returns all scenarios. A seed means the same choices only while their order stays.
func scenarios() []scenario {
	return []scenario{
		{"short", 20, (*step).short}, {"run", 8, (*step).run}, {"flood", 12, (*step).flood}, {"watch", 8, (*step).watch},
		{"background", 8, (*step).background}, {"talk", 6, (*step).talk}, {"copy", 6, (*step).copy}, {"signal", 8, (*step).signal},
		{"terminate", 8, (*step).terminate}, {"kill", 6, (*step).kill}, {"prune", 3, (*step).prune}, {"replace", 4, (*step).replace}, {"look", 4, (*step).look},
	}
}

func matching(only *regexp.Regexp) []scenario {
	return slices.DeleteFunc(scenarios(), func(s scenario) bool { return !only.MatchString(s.name) })
}

func scenarioNames() string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// draw chooses a scenario by weight.
func draw(dice *rand.Rand, from []scenario) scenario {
	sum := 0
	for _, s := range from {
		sum += s.weight
	}
	n := dice.IntN(sum)
	for _, s := range from {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	panic("unreachable: n is below the sum of all weights")
}

// output draws a flood, and returns it with the script that writes it and then exits with the code.
func (st *step) output(most int, tty bool, code int) (flood, string) {
	f := flood{lines: st.between(0, most), tty: tty}
	return f, fmt.Sprintf("%s; exit %d", f.script(), code)
}

// short runs a small command to its end, by a shell or without one.
func (st *step) short() {
	tty, code := st.coin(), st.code()
	f, script := st.output(60, tty, code)
	command := sh(tty, script)
	switch st.dice.IntN(4) {
	case 0:
		code, f.lines, command.Argv = 0, 0, []string{"true"}
	case 1:
		code, f.lines = 0, f.lines+1
		command.Argv = strings.Fields(f.script())
	}
	command.Yield = new(messages.MaxYield)
	j, result := st.exec(st.ctx, command, want{codes: []int{code}, output: &f})
	if result == nil {
		return
	}
	if result.Running && result.WallTime < *command.Yield && !st.disturbed() {
		st.fault("exec was answered after %v although it runs (%s)", result.WallTime, statusOf(result))
	}
	if j.account.taken != f.total() || st.coin() {
		j.finish(nil)
	}
}

// run runs a command to its end with its streams apart. Some are cancelled, and some time out.
func (st *step) run() {
	code := st.code()
	out, err := flood{lines: st.between(0, 3000)}, flood{lines: st.between(0, 3000)}
	script := fmt.Sprintf("%s; %s >&2; exit %d", out.script(), err.script(), code)
	request := messages.RunCommand{Timeout: new(messages.MaxYield)}
	ctx, cancel := context.WithCancel(st.ctx)
	defer cancel()
	stopped := st.coin()
	if stopped {
		script = "sleep 20; " + script
		if after := st.millis(0, 200); st.coin() {
			request.Timeout = &after
		} else {
			defer time.AfterFunc(after, cancel).Stop()
		}
	}
	request.Argv = sh(false, script).Argv
	j := st.ordered(&request.Call, want{codes: []int{code}, struck: stopped})
	r, failure := st.client.session.Run(ctx, request)
	if !j.accepted(ctx, "run", false, failure) {
		return
	}
	switch {
	case !st.undisturbed():
	case stopped:
		if !r.TimedOut && !r.Cancelled || r.Status == messages.StatusExited(0) {
			st.fault("run was stopped, and answered %+v", r.Status)
		}
	case r.ExitCode != code || r.Status != messages.StatusExited(code):
		st.fault("run returned %d, %s, want %d", r.ExitCode, r.Status, code)
	case int64(len(r.Stdout)) != out.total() || int64(len(r.Stderr)) != err.total() || r.Omitted != 0:
		st.fault("run has %d bytes of stdout and %d of stderr, and %d omitted; want %d and %d", len(r.Stdout), len(r.Stderr),
			r.Omitted, out.total(), err.total())
	}
	st.host.tally.plus("bytes checked", int64(len(r.Stdout)+len(r.Stderr)))
	for _, problem := range []error{out.check(r.Stdout, 0), err.check(r.Stderr, 0)} {
		if problem != nil {
			st.fault("run: %v", problem)
		}
	}
}

// flood takes an output by calls that are cancelled at any moment. The process must not notice, and no output may be lost.
func (st *step) flood() {
	tty, code := st.coin(), st.code()
	f, script := st.output([]int{30_000, 400_000}[st.dice.IntN(2)], tty, code)
	command := sh(tty, "sleep 0.0"+fmt.Sprint(st.between(0, 9))+"; "+script)
	command.Yield = new(messages.MinYield)
	var j *job
	st.within(0, 500, func(ctx context.Context) { j, _ = st.exec(ctx, command, want{codes: []int{code}, output: &f}) })
	for range st.between(0, 4) {
		st.within(0, 50, func(ctx context.Context) {
			result, err := st.client.session.Poll(ctx, messages.Poll{Process: j.id, NoTimeout: st.coin()})
			if j.typed("poll", err, interrupted...) {
				j.took("poll", result)
			}
		})
	}
	if st.coin() {
		st.remembered(j)
	}
	if st.dice.IntN(6) == 0 {
		j.terminate(messages.Terminate{})
	}
	j.finish(nil)
}

// remembered reads output again. This takes nothing from other readers.
func (st *step) remembered(j *job) {
	read := messages.ReadOutput{Process: j.id, Max: st.between(1, messages.MaxRead)}
	switch offset, after := int64(st.between(0, 2<<20)), uint64(st.between(0, 300)); st.dice.IntN(3) {
	case 0:
		read.Offset = &offset
	case 1:
		read.AfterSeq = &after
	default:
		read.Tail = st.between(1, messages.MaxRead)
	}
	page, err := st.client.session.Read(st.ctx, read)
	if !st.typed("read", err, messages.ErrOutputUnretained, messages.ErrUnknownProcess) {
		return
	}
	for _, chunk := range page.Chunks {
		if err := j.entry.want.output.check(chunk.Bytes, chunk.Offset); err != nil {
			st.fault("read: %v", err)
		}
	}
}

// watch follows a flood with several subscribers. Some are lossless, some slow, some leave early, and some read nothing
// before the end and so find gaps.
func (st *step) watch() {
	tty, code := st.coin(), st.code()
	f, script := st.output([]int{100_000, 100_000, 800_000}[st.dice.IntN(3)], tty, code)
	call := messages.CallID(fmt.Sprintf("%s.%d", st.name, st.commands+1))
	ctx, cancel := context.WithCancel(st.ctx)
	ended := make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	for range st.between(1, 3) {
		r := follower{flood: f, lossless: st.coin(), leave: st.between(-200, 100), slow: time.Duration(st.between(-300, 300)) * time.Microsecond}
		events, err := st.client.session.Events(execbus.Watch{Calls: []messages.CallID{call}, Lossless: r.lossless})
		if err != nil {
			st.fault("subscribe: %v", err)
			continue
		}
		late := !r.lossless && st.coin()
		readers.Go(func() {
			defer events.Close()
			if late {
				select {
				case <-ended:
				case <-ctx.Done():
				}
			}
			for event, err := range events.All(ctx) {
				if err == nil {
					err = r.see(event, &st.host.tally)
				}
				if err != nil && ctx.Err() == nil {
					st.fault("events: %v", err)
				}
				if err != nil || r.done {
					return
				}
			}
		})
	}
	if st.start(sh(tty, script), want{codes: []int{code}, output: &f}).awaitEnd() {
		close(ended)
		readers.Wait()
	}
}

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
	if result == nil || result.Status != messages.StatusExited(code) || !st.undisturbed() {
		return
	}
	if result.Background == nil || result.Background.Count != count || keep && !result.Background.Kept && result.Running {
		st.fault("background: %d children were left, and the answer says %+v (%s)", count, result.Background, statusOf(result))
	}
	if !keep {
		j.finish(nil)
	} else if st.dice.IntN(3) > 0 {
		record := j.terminate(messages.Terminate{})
		if record != nil && record.Tree.Ended != count && record.Cause == messages.CauseExited && !st.disturbed() {
			st.fault("background: %d children were left, and %d were ended (%s)", count, record.Tree.Ended, record)
		}
	}
}

// talk has a conversation with a program on a terminal, and resizes it.
func (st *step) talk() {
	code, words := st.code(), st.between(1, 6)
	size := func(most int) messages.Size {
		return messages.Size{Rows: uint16(st.between(1, most)), Cols: uint16(st.between(1, most))}
	}
	command := sh(true, fmt.Sprintf(`while read x; do [ "$x" = quit ] && exit %d; echo "<$x>"; done; exit %d`, code, code+1))
	command.Yield, command.Size = new(messages.MinYield), size(200)
	j, result := st.exec(st.ctx, command, want{codes: []int{code, code + 1}})
	if result == nil {
		return
	}
	j.heard = true
	said := result.Output
	for n := range words {
		if st.coin() {
			st.typed("resize", st.client.session.Resize(st.ctx, messages.Resize{Process: j.id, Size: size(500)}), away...)
		}
		said = append(said, j.write([]byte(fmt.Sprintf("word%d\n", n)), st.dice.IntN(3) == 0)...)
	}
	said = append(said, j.write([]byte("quit\n"), false)...)
	if !j.heard {
		j.terminate(messages.Terminate{})
	}
	if !j.finish(&said) || !j.heard {
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

// write sends input and returns the output since then.
func (j *job) write(input []byte, untilTaken bool) []byte {
	result, err := j.client.session.Write(j.ctx, messages.WriteStdin{Process: j.id, Bytes: input, UntilTaken: untilTaken})
	if !j.typed("write", err, ofInput...) {
		j.heard = false
		return nil
	}
	j.heard = j.heard && result.Taken == len(input)
	if result.InputErr != nil && !isCode(result.InputErr, ofInput...) {
		j.fault("write: %v", result.InputErr)
	}
	if result.Running && result.Taken+result.Pending != len(input) && result.InputErr == nil {
		j.fault("write: %d bytes of %d taken, %d pending, and no reason", result.Taken, len(input), result.Pending)
	}
	if !untilTaken {
		j.took("write", result)
	}
	return result.Output
}

// copy sends bytes through cat on pipes, and ends its input.
func (st *step) copy() {
	code := st.code()
	command := sh(false, fmt.Sprintf("cat; exit %d", code))
	command.OpenStdin = true
	j := st.start(command, want{codes: []int{code}})
	j.heard = true
	var sent, got []byte
	for n := 0; n < st.between(1, 8) && j.heard; n++ {
		chunk := bytes.Repeat([]byte{byte('a' + n)}, st.between(1, 40_000))
		got = append(got, j.write(chunk, st.coin())...)
		sent = append(sent, chunk...)
	}
	if !st.typed("close stdin", st.client.session.CloseStdin(st.ctx, messages.CloseStdin{Process: j.id}), ofInput...) {
		j.terminate(messages.Terminate{})
	}
	if j.finish(&got) && j.heard && !bytes.Equal(sent, got) {
		st.fault("copy: %d bytes were sent and %d came back, or others", len(sent), len(got))
	}
}

// signal sends signals to programs that handle some of them.
func (st *step) signal() {
	code := st.code()
	script := fmt.Sprintf("trap 'exit %d' USR1; trap '' HUP WINCH; while :; do sleep 0.05; done", code)
	j := st.begin(sh(st.coin(), script), want{codes: []int{code}, struck: true})
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

// terminate ends programs that end at once, that want to tidy up, and that refuse, sometimes twice.
func (st *step) terminate() {
	code := st.code()
	command := sh(st.coin(), []string{
		fmt.Sprintf("sleep 20; exit %d", code),
		fmt.Sprintf("trap 'exit %d' TERM HUP; while :; do sleep 0.05; done", code),
		"trap '' TERM HUP; while :; do sleep 0.05; done",
		fmt.Sprintf("sleep 20 & sleep 20 & wait; exit %d", code),
	}[st.dice.IntN(4)])
	command.Grace = new(st.millis(1, 300))
	var j *job
	if st.coin() {
		j = st.start(command, want{codes: []int{code}})
	} else {
		j = st.begin(command, want{codes: []int{code}})
	}
	if st.coin() {
		st.within(0, 20, func(ctx context.Context) {
			_, err := st.client.session.Terminate(ctx, messages.Terminate{Process: j.id, Grace: new(time.Second)})
			j.typed("terminate", err, interrupted...)
		})
	}
	request := messages.Terminate{}
	if st.coin() {
		request.Grace = new(st.millis(0, 200))
	}
	record := j.terminate(request)
	if record != nil && record.Cause != messages.CauseTerminated && !st.disturbed() {
		st.fault("terminated, and the record says %s", record)
	}
}

// kill kills leaders, or their children, by a process that execbus did not ask to.
func (st *step) kill() {
	code, victim := st.code(), []string{"$$", "$!"}[st.dice.IntN(2)]
	script := fmt.Sprintf("sleep 20 & (sleep 0.0%d; kill -KILL %s) & wait; exit %d", st.between(0, 3), victim, code)
	st.start(sh(st.coin(), script), want{codes: []int{code}, struck: true}).finish(nil)
}

// overCap is how many processes a session may have above its limit: those whose calls have not been answered, or for which others
// are being ended.
const overCap = 8

// prune starts more processes than a session may have. It may have more only briefly if no call waits.
func (st *step) prune() {
	most := st.between(2, 4)
	st.in(execbus.SessionOptions{MaxProcesses: most, WarnProcesses: most - 1, ProtectedProcesses: 1, NoLoginShell: true})
	for range most + st.between(1, 3) {
		st.do(func(st *step) { st.start(sh(st.coin(), "sleep 20; exit 21"), want{codes: []int{21}}) })
		st.list()
	}
	for late := time.Now().Add(endWait); st.list() > most && st.ctx.Err() == nil; st.pause(5 * time.Millisecond) {
		if time.Now().After(late) {
			st.fault("more than %d processes are left", most)
			return
		}
	}
	if st.coin() {
		st.client.close(st.beyond())
	}
}

// list counts the processes of a session, and checks its limit.
func (st *step) list() (living int) {
	all, err := st.client.session.List(st.ctx)
	st.typed("list", err)
	for _, p := range all {
		if p.State == messages.StateRunning || p.State == messages.StateExited {
			living++
		}
	}
	if living > st.client.max+overCap {
		st.fault("%d processes, and %d and %d above them are allowed", living, st.client.max, overCap)
	}
	return living
}

// replace closes a shared session, together with everything that other steps do in it, and puts a new one in its place. In between
// calls of the old one begin and stop to wait.
func (st *step) replace() {
	old := st.client
	st.in(execbus.SessionOptions{MaxProcesses: st.between(4, 20), ProtectedProcesses: st.between(1, 4)})
	if !st.pool[st.slot].CompareAndSwap(old, st.client) {
		return // another step has replaced it
	}
	st.client = old
	st.typed("pause", old.session.PauseYields(st.ctx))
	var users sync.WaitGroup
	for n := range st.between(1, 4) { // so that there are calls
		user := *st // with dice of its own
		user.name, user.dice = fmt.Sprintf("%s.u%d", st.name, n), rand.New(rand.NewPCG(st.dice.Uint64(), st.dice.Uint64()))
		todo := []func(*step){(*step).short, (*step).background, (*step).flood, (*step).watch, (*step).signal}[st.dice.IntN(5)]
		users.Go(func() { user.do(todo) })
	}
	st.pause(st.millis(0, 100))
	st.typed("resume", old.session.ResumeYields(st.ctx))
	st.pause(st.millis(0, 300))
	old.close(st.beyond())
	users.Wait()
	if _, err := old.session.List(st.ctx); !isCode(err, messages.ErrClosed) && st.ctx.Err() == nil {
		st.fault("list in a closed session: %v", err)
	}
}

// look lists, and changes the environment.
func (st *step) look() {
	st.list()
	all, err := st.client.session.Records(st.ctx)
	st.typed("records", err)
	for _, p := range all {
		if (p.State == messages.StateClosed) != (p.End != nil) {
			st.fault("process %d is %s and its record is %v", p.Process, p.State, p.End)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b messages.ProcessInfo) int { return int(a.Process - b.Process) }) {
		st.fault("the list is not sorted")
	}
	dir := []string{"/", "/tmp", "/usr"}[st.dice.IntN(3)]
	st.typed("update", st.client.session.UpdateEnvironment(st.ctx, messages.UpdateEnvironment{Dir: &dir}))
}
