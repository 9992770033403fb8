package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
	"github.com/execbus/execbus/sandbox/internal/procs"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// process is one warden, as the host sees it.
type process struct {
	pid    int
	pidfd  *os.File
	conn   *wire.Conn
	out    *wire.Outbox
	stderr *os.File    // what it writes
	output chan string // the end of that, once the warden is dead

	options   Options
	inherited inherited     // the state of this process when the warden started, which is also the warden's
	marks     tree.Marks    // set before ready
	entry     *stateEntry   // set before ready; nil without a state directory
	ready     chan struct{} // closed when the warden has greeted us
	gone      chan struct{} // closed when the warden is dead and everything about that was reported

	endings     sync.WaitGroup // the ends of trees that wait for their judges
	registering chan struct{}  // holds a token while a plan is sent

	// mu guards the tables that the reader of replies, the starts and the watch share.
	mu      sync.Mutex
	nextID  uint64
	plans   map[*Enclosure]uint64 // the numbers of the plans that the warden knows
	leaders map[uint64]*leader
	// listeners are the sockets in the networks of commands, by the number of their plan: for each one that asks who listens there, and those
	// of its proxy.
	listeners map[uint64]*Sockets
	closing   bool
	retired   bool // it takes no more starts, and ends with its last tree
	dead      bool
	reaped    bool  // or it is about to be reaped
	failed    error // why a dead warden never greeted
	watched   bool  // it is continued again and again
	stops     int   // how many looks in a row found it stopped

	looking sync.Mutex // guards adopted, which those that look at members share
	adopted orphanList
}

// leader is a leader in the table, from the request to start it until its tree has ended.
type leader struct {
	process *process
	id      uint64
	spec    ptyio.Start
	plan    uint64     // the number of its plan; zero for none
	reply   chan error // the answer to the start; room for one
	pid     int        // the rest is set before that answer
	mark    tree.Mark
	over    chan struct{} // closed when an abandoned start has left nothing behind
	// observed is for those that ask what it waits for.
	observed observation
	// enforced is the enforcement for it; nil if nothing had to be enforced.
	enforced *messages.Enforcement
	// Guarded by process.mu.
	// judging has the executions that are being judged, or were allowed and may still be refused, by number; nil when the tree has ended.
	judging   map[uint64]*judgement
	judges    sync.WaitGroup // of the goroutines that judge; none begins when judging is nil
	abandoned bool           // no caller waits for the answer any more, or for what follows it
	exited    bool
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// awaitReady waits until the warden has greeted us.
func (p *process) awaitReady(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.gone:
		return p.errGone()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outdatedTries bounds the requests for one leader whose isolation was outdated before it was complete.
const outdatedTries = 5

// start requests one leader, within its limits, and waits for the answer.
func (p *process) start(ctx context.Context, spec Start) (ptyio.Leader, error) {
	bounds, err := bind(&spec.Start)
	if err != nil {
		return nil, err
	}
	leader, err := p.request(ctx, spec, bounds)
	for try := 1; outdated(err) && try < outdatedTries; try++ {
		leader, err = p.request(ctx, spec, bounds)
	}
	if err != nil {
		bounds.group.Remove()
		return nil, err
	}
	bounds.watch(leader.PID())
	return leader, nil
}

func outdated(err error) bool {
	failed, is := errors.AsType[*ptyio.StepError](err)
	return is && isolate.Outdated(failed.Step, failed.Errno)
}

func (p *process) request(ctx context.Context, spec Start, bounds *bounds) (ptyio.Leader, error) {
	if err := p.awaitReady(ctx); err != nil {
		return nil, err
	}
	request, files := p.startRequest(spec.Start, bounds)
	if request.Level = levelOf(spec.Enclosure); request.Level != confine.None {
		var err error
		if request.Plan, err = p.number(ctx, spec.Enclosure); err != nil {
			return nil, err
		}
	}
	if request.Level == confine.Confined && spec.TTY {
		rules, err := spec.Enclosure.withTerminal(spec.Files[0])
		if err != nil {
			return nil, err
		}
		defer rules.Close()
		request.Ruleset = len(files)
		files = append(files, rules)
		request.Files = len(files)
	}
	l := &leader{process: p, spec: spec.Start, plan: request.Plan, reply: make(chan error, 1), over: make(chan struct{}), enforced: spec.Enforced}
	l.spec.Argv, l.spec.Env, l.spec.Files = nil, nil, nil // they may be large
	if spec.Executions != nil {
		request.Executions, l.judging = wanted(spec.Executions), map[uint64]*judgement{}
	}
	if err := p.enter(l); err != nil {
		return nil, err
	}
	if err := p.out.Start(ctx, &wire.Request{ID: l.id, Start: request}, l.unsent, files...); err != nil {
		p.forget(l)
		return nil, p.refusal("spawn", err)
	}
	select {
	case err := <-l.reply:
		if err != nil {
			return nil, err
		}
		p.out.AwaitFiles(l.id)
		return l, nil
	case <-ctx.Done():
	}
	if p.out.Withdraw(l.id) {
		p.forget(l)
		return nil, ctx.Err()
	}
	return l.abandon(ctx)
}

// enter adds a start to the table.
func (p *process) enter(l *leader) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.retired: // this comes first: the warden may be dead as well, because an idle one is closed
		return errRetired
	case p.dead || p.closing:
		return p.whyGone()
	}
	p.nextID++
	l.id = p.nextID
	p.leaders[l.id] = l
	p.watchLater()
	return nil
}

// unsent answers a start that could not be sent.
func (l *leader) unsent(err error) {
	if l.process.forget(l) {
		l.reply <- err
	}
}

// errRetired says that another warden has taken over.
var errRetired = errors.New("the warden has been replaced")

// retire stops starts on a warden that differs from this process.
func (p *process) retire() {
	p.mu.Lock()
	p.retired = true
	idle := len(p.leaders) == 0
	p.mu.Unlock()
	if idle {
		go p.close()
	}
}

// abandon is for a start whose caller has stopped waiting. If the leader already lives, it is returned, and its owner has to
// end it. A leader that starts later is ended, and abandon waits for that: when the owner has its answer, nothing of this
// start may live.
func (l *leader) abandon(ctx context.Context) (ptyio.Leader, error) {
	l.process.mu.Lock()
	alive := l.pid != 0
	l.abandoned = !alive
	l.process.mu.Unlock()
	if alive {
		return l, nil
	}
	timer := time.NewTimer(l.process.options.Timeouts.Close) // the warden may hang
	defer timer.Stop()
	select {
	case <-l.over:
	case <-l.reply: // it had failed
	case <-l.process.gone:
	case <-timer.C:
	}
	return nil, ctx.Err()
}

// startRequest sends each file once, even if it becomes several of the child's descriptors.
func (p *process) startRequest(spec ptyio.Start, bounds *bounds) (*wire.Start, []*os.File) {
	request := &wire.Start{Program: spec.Program, Argv: spec.Argv, Env: spec.Env, Dir: spec.Dir, TTY: spec.TTY,
		Keep: spec.Keep, Grace: spec.Grace, Patience: p.options.Timeouts.Execute, FDs: make([]int, len(spec.Files)), Ruleset: -1}
	var files []*os.File
	for i, file := range spec.Files {
		position := -1
		if file != nil {
			if position = slices.Index(files, file); position < 0 {
				position = len(files)
				files = append(files, file)
			}
		}
		request.FDs[i] = position
	}
	request.Rlimits, request.Tasks = bounds.rlimits(), bounds.tasks
	for _, file := range bounds.group.Join() {
		request.Groups = append(request.Groups, len(files))
		files = append(files, file)
	}
	request.Files = len(files)
	return request, files
}

// forget removes a start from the table, and reports whether it was there.
func (p *process) forget(l *leader) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.leaders[l.id]
	delete(p.leaders, l.id)
	return there
}

// maxPlans bounds the plans that one warden knows. Each takes some descriptors there.
const maxPlans = 1024

// number returns the warden's number for the plan of an enclosure. It sends the plan to a warden that does not know it.
func (p *process) number(ctx context.Context, e *Enclosure) (uint64, error) {
	select {
	case p.registering <- struct{}{}: // other starts must not use the number before the plan is on its way
		defer func() { <-p.registering }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	p.mu.Lock()
	n, known := p.plans[e]
	if !known && len(p.plans) < maxPlans {
		p.nextID++
		n = p.nextID
		p.plans[e] = n
	}
	p.mu.Unlock()
	switch {
	case known:
		return n, nil
	case n == 0:
		return 0, &messages.Error{Code: messages.ErrLimitReached, Op: "spawn", Subject: "sandbox policy",
			Detail: "too many are in use; close sessions that are not needed any more"}
	}
	if err := p.register(ctx, n, e); err != nil {
		p.unregister(e)
		return 0, err
	}
	return n, nil
}

func (p *process) register(ctx context.Context, n uint64, e *Enclosure) error {
	register, files := &wire.Register{Plan: *e.plan, Ruleset: -1}, slices.Clone(e.files)
	if e.rules != nil {
		register.Ruleset = len(files)
		files = append(files, e.rules)
	}
	register.Files = len(files)
	unsent := func(error) { p.unregister(e) } // starts that name it are refused
	err := p.out.Start(ctx, &wire.Request{ID: n, Register: register}, unsent, files...)
	if err != nil {
		return p.refusal("spawn", err)
	}
	return nil
}

// unregister forgets a plan, and returns its number; zero if the warden does not know it.
func (p *process) unregister(e *Enclosure) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.plans[e]
	delete(p.plans, e)
	p.closeListeners()
	return n
}

// listen takes the sockets in the network of a plan, and passes on those that listen there. If they do not come, because descriptors are
// short, commands that run have no proxy, and the next start makes another network. Without a proxy only looks at who listens take longer.
func (p *process) listen(plan uint64, listening wire.Listening) {
	fds, err := p.conn.TakeFiles(listening.Files)
	var sockets *Sockets
	if err == nil {
		sockets, err = socketsOf(fds, listening.Asks)
	}
	p.mu.Lock()
	e := p.enclosureOf(plan)
	if err == nil {
		p.listeners[plan] = sockets
		p.closeListeners()
	}
	p.mu.Unlock()
	switch {
	case e == nil || !e.plan.Proxied:
	case err != nil:
		p.unregister(e)
		p.options.notice("running commands reach no host, not even one that rules allow, because their proxy got no socket: " + err.Error())
	default:
		e.proxy(sockets)
	}
}

// enclosureOf returns the enclosure of a plan that the warden knows. It is called with p.mu held.
func (p *process) enclosureOf(plan uint64) *Enclosure {
	for e, n := range p.plans {
		if n == plan {
			return e
		}
	}
	return nil
}

// closeListeners closes the sockets in networks that no command can reach any more. It is called with p.mu held.
func (p *process) closeListeners() {
	for plan, sockets := range p.listeners {
		used := p.enclosureOf(plan) != nil
		for _, l := range p.leaders {
			used = used || l.plan == plan
		}
		if !used || p.dead {
			delete(p.listeners, plan)
			sockets.close()
		}
	}
}

// withdraw tells the warden that the plan of an enclosure is no longer needed.
func (p *process) withdraw(e *Enclosure) {
	if n := p.unregister(e); n != 0 {
		go func() {
			_ = p.out.Start(context.Background(), &wire.Request{ID: n, Withdraw: &wire.Withdraw{}}, func(error) {})
		}()
	}
}

// refusal turns an outbox's error into a sentence.
func (p *process) refusal(op string, err error) error {
	switch {
	case errors.Is(err, wire.ErrBroken):
		return p.errGone()
	case errors.Is(err, wire.ErrFull):
		return &messages.Error{Code: messages.ErrLimitReached, Op: op, Subject: "warden", Detail: err.Error(),
			Hint: "try again later; pass large data by file or input"}
	}
	return err
}

// errGone says why the warden takes no start.
func (p *process) errGone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.whyGone()
}

// whyGone is called with p.mu held.
func (p *process) whyGone() error {
	switch {
	case p.closing:
		return errClosed()
	case p.failed != nil:
		return p.failed
	}
	return errWardenLost()
}

func errWardenLost() error {
	return &messages.Error{Code: messages.ErrWardenLost, Op: "spawn", Detail: "the warden process died; the command may have run until then, and the next one gets a new warden"}
}

// PID implements ptyio.Leader.
func (l *leader) PID() int { return l.pid }

// Signal implements ptyio.Leader. It reports errors that are known here; the warden delivers the signal.
func (l *leader) Signal(sig syscall.Signal, group int) error {
	err := l.process.out.Signal(l.id, wire.Signal{Number: sig, Group: group})
	if err != nil {
		return l.process.refusal("signal", err)
	}
	return nil
}

// EndTree implements ptyio.Leader.
func (l *leader) EndTree(grace time.Duration) { l.process.out.End(l.id, wire.End{Grace: grace}) }

// Prompt implements ptyio.Prompt: the warden is told, but its answer is not waited for.
func (*leader) Prompt() {}

// Enforced implements ptyio.Leader.
func (l *leader) Enforced() *messages.Enforcement { return l.enforced }

// serve reads replies until the warden is gone, and then reports the fate of its children.
func (p *process) serve() {
	late := time.AfterFunc(p.options.Timeouts.Hello, p.kill)
	defer late.Stop()
	for {
		var reply wire.Reply
		if err := p.conn.Receive(&reply); err != nil {
			break
		}
		if reply.Hello != nil {
			late.Stop()
			p.marks = tree.Marks{Time: reply.Hello.Time, Locks: reply.Hello.Locks, Nonce: reply.Hello.Nonce}
			p.entry = noteState(p.options.StateDir, p.pid, p.marks)
			close(p.ready)
			continue
		}
		if reply.Listening != nil {
			p.listen(reply.ID, *reply.Listening)
			continue
		}
		if !p.executions(reply) {
			p.dispatch(reply)
		}
	}
	p.bury()
}

func (p *process) dispatch(reply wire.Reply) {
	p.mu.Lock()
	l := p.leaders[reply.ID]
	if l == nil {
		p.mu.Unlock()
		return
	}
	if reply.Ended != nil || reply.Failed != nil {
		delete(p.leaders, reply.ID)
		l.judgeNoMore()
		p.closeListeners()
		if p.retired && len(p.leaders) == 0 {
			go p.close() // in a goroutine, because it waits for this one
		}
	}
	if reply.Started != nil {
		l.pid, l.mark = reply.Started.PID, tree.Mark(reply.Started.Mark)
	}
	l.exited = l.exited || reply.Exited != nil
	abandoned, exited := l.abandoned, l.exited
	p.mu.Unlock()
	switch {
	case abandoned && (reply.Ended != nil || reply.Failed != nil):
		close(l.over)
	case abandoned && reply.Started != nil:
		l.EndTree(0)
	case abandoned:
	case reply.Failed != nil && reply.Failed.Step != "" && reply.Failed.Errno == unix.ETIMEDOUT:
		l.reply <- errHung(l.spec.Program, p.options.Timeouts.Execute)
	case reply.Failed != nil:
		l.reply <- stepError(reply.Failed.Step, reply.Failed.Errno)
	default:
		if reply.Started != nil {
			for _, dir := range reply.Started.Unshared {
				p.options.notice("the protected names that are missing in " + dir + " may become free while a command runs: another program holds a lock on that directory")
			}
			if !p.out.Holds(l.id) { // otherwise the caller of Start reports the birth when the files are no longer in use
				l.spec.Born(l)
			}
			l.reply <- nil
		}
		l.last(reply, exited)
	}
}

// last passes on what a reply says about the exit, the background children and the end of the tree.
func (l *leader) last(reply wire.Reply, exited bool) {
	if reply.Exited != nil {
		l.spec.Exited(exitStatus(*reply.Exited), nil)
	}
	if reply.Left > 0 {
		l.spec.Background(reply.Left)
	}
	if reply.Ended == nil {
		return
	}
	if !exited {
		l.spec.Exited(messages.StatusNone(), errNotKilled())
	}
	l.treeEnded(treeReport(*reply.Ended))
}

// bury waits for the warden's end, searches for processes of its trees, and reports each child's end.
func (p *process) bury() {
	defer close(p.gone)
	p.mu.Lock()
	p.dead = true
	expected, gone := p.closing, errWardenLost()
	if expected {
		gone = errClosed()
	}
	left, known := p.leaders, len(p.leaders)
	p.leaders = map[uint64]*leader{}
	p.closeListeners()
	var unanswered []*leader
	for id, l := range left {
		l.judgeNoMore()
		if l.pid == 0 || l.abandoned { // if such a tree has a leader, the leader also carries the mark
			delete(left, id)
		}
		if l.pid == 0 && !l.abandoned {
			unanswered = append(unanswered, l)
		}
	}
	p.mu.Unlock()
	_ = p.conn.Close()
	p.out.Abort()
	children := len(left)
	status := p.await()
	var total messages.TreeReport
	if !expected || known > 0 { // otherwise the warden has said of every tree that it has ended
		total = p.reportLost(left)
	}
	p.endings.Wait()
	for _, l := range unanswered { // now nothing of the start lives
		l.reply <- gone
	}
	output := p.lastOutput()
	select {
	case <-p.ready:
	default:
		p.mu.Lock()
		p.failed = errNotStarted(status, output)
		p.mu.Unlock()
		return
	}
	p.entry.remove()
	if p.options.Lost != nil && !expected {
		p.options.Lost(WardenLost{PID: p.pid, Status: status, Children: children, Tree: total, Output: output})
	}
}

// reportLost ends the processes that the warden has left behind, and reports the end of each of its children.
func (p *process) reportLost(left map[uint64]*leader) (total messages.TreeReport) {
	var marks []tree.Mark
	for _, l := range left {
		if !l.exited {
			l.spec.Exited(messages.StatusNone(), errWardenLost())
		}
		if l.mark != 0 {
			marks = append(marks, l.mark)
		}
	}
	reports := tree.EndMarked(p.marks, marks)
	for _, report := range reports {
		total.Ended += report.Ended
		total.Survivors = append(total.Survivors, treeReport(report).Survivors...)
	}
	for _, l := range left {
		l.treeEnded(treeReport(reports[l.mark]))
	}
	return total
}

// await reaps the warden. If the warden does not end in time, it is killed.
func (p *process) await() messages.ExitStatus {
	killer := time.AfterFunc(p.options.Timeouts.Close, p.kill)
	status := tree.AwaitExit(p.pidfd)
	killer.Stop()
	_ = p.pidfd.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_, _ = syscall.Wait4(p.pid, nil, 0, nil)
	return exitStatus(status)
}

// kill ends the warden at once.
func (p *process) kill() { p.signal(unix.SIGKILL) }

// close lets the warden end everything and waits for it.
func (p *process) close() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	killer := time.AfterFunc(p.options.Timeouts.Close, p.kill)
	defer killer.Stop()
	p.out.Close(p.options.Timeouts.Last)
	<-p.gone
}

// maxStops is how many looks in a row may find the warden stopped. A command may stop the warden: both belong to the same user. The
// kernel continues the warden for every message of the host, but not for the exit of a child. After so many looks a command is stopping
// it again and again, and the warden is treated as dead.
const maxStops = 5

// watchLater makes sure that the warden is looked at while it has leaders. It is called with p.mu held.
func (p *process) watchLater() {
	if !p.watched {
		p.watched, p.stops = true, 0
		time.AfterFunc(p.options.Timeouts.Watch, p.watch)
	}
}

// watch is one look at the warden.
func (p *process) watch() {
	stopped := hasStopped(p.pidfd)
	p.mu.Lock()
	p.watched = !p.dead && len(p.leaders) > 0
	again := p.watched
	if stopped {
		p.stops++
	} else {
		p.stops = 0
	}
	hopeless := p.stops >= maxStops
	p.mu.Unlock()
	switch {
	case hopeless:
		p.kill()
	case again:
		p.signal(unix.SIGCONT)
		time.AfterFunc(p.options.Timeouts.Watch, p.watch)
	}
}

// errHung is the error of a start that the warden has given up. The host has opened the program's file before, but its file system may
// have stopped answering since, a script's interpreter may not answer, or a command may have stopped the child before the execution.
func errHung(program string, patience time.Duration) error {
	return &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: program,
		Detail: fmt.Sprintf("the system could not execute it within %v: its file system, or that of its interpreter, does not answer; try again when it does",
			patience)}
}

// hasStopped reports whether a child was stopped since the last call and still is.
func hasStopped(pidfd *os.File) (stopped bool) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, int(fd), &info, unix.WSTOPPED|unix.WNOHANG, nil)
		stopped = err == nil && info.Signo == int32(syscall.SIGCHLD)
	})
	return stopped
}

// signal must not hit a stranger, even from a late timer. A dead warden keeps its number until it is reaped. So if pidfds
// are refused, nothing is sent once it may have been reaped.
func (p *process) signal(sig unix.Signal) {
	if !procs.Pidfds() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.reaped {
			_ = unix.Kill(p.pid, sig)
		}
		return
	}
	if raw, err := p.pidfd.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
}
