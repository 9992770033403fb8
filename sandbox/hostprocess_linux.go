package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// wardenProcess is the host's side of one warden.
type wardenProcess struct {
	pid    int
	pidfd  *os.File
	conn   *wire.Conn
	out    *wire.Outbox
	stderr *os.File    // what it writes
	heard  chan string // the end of that, once the warden is dead

	options Options
	rights  rights        // the state of this process when the warden started, which is also the warden's
	rest    string        // the rest of that state
	marks   tree.Marks    // set before ready
	entry   *stateEntry   // set before ready; nil without a state directory
	ready   chan struct{} // closed when the warden has greeted us
	gone    chan struct{} // closed when the warden is dead and everything about that was reported

	telling chan struct{} // holds a token while a plan is sent

	// mu guards the table that the reader of replies and the starts share.
	mu      sync.Mutex
	nextID  uint64
	plans   int // plans that the warden knows
	leaders map[uint64]*wardenLeader
	closing bool
	retired bool // it takes no more starts, and ends with its last tree
	dead    bool
	reaped  bool     // or it is about to be reaped
	failed  error    // why a dead warden never greeted
	tended  bool     // it is looked at again and again
	stops   int      // how many looks in a row found it stopped
	hung    hungFork // killed and met are guarded; the rest belongs to tend
}

// wardenLeader is one leader in the table, from the request to start it until its tree has ended.
type wardenLeader struct {
	process *wardenProcess
	id      uint64
	spec    ptyio.Start
	asked   time.Time
	reply   chan error // the answer to the start; room for one
	pid     int        // the rest is set before that answer
	mark    tree.Mark
	over    chan struct{} // closed when an abandoned start has left nothing behind
	// enforced is the enforcement for it; nil if nothing had to be enforced.
	enforced *messages.Enforcement
	// Guarded by process.mu.
	abandoned bool // no caller waits for the answer any more, or for what follows it
	exited    bool
}

func (p *wardenProcess) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// outdatedTries bounds the requests for one leader whose isolation was outdated before it was complete.
const outdatedTries = 5

// start requests one leader, within its limits, and waits for the answer.
func (p *wardenProcess) start(ctx context.Context, spec ptyio.Start) (ptyio.Leader, error) {
	bounds, err := bind(&spec)
	if err != nil {
		return nil, err
	}
	leader, err := p.request(ctx, spec, bounds)
	for try := 1; outdated(err) && try < outdatedTries; try++ {
		leader, err = p.request(ctx, spec, bounds)
	}
	if err != nil {
		bounds.remove()
		return nil, err
	}
	bounds.watch(leader.PID())
	return leader, nil
}

func outdated(err error) bool {
	failed, is := errors.AsType[*ptyio.StepError](err)
	return is && isolate.Outdated(failed.Step, failed.Errno)
}

func (p *wardenProcess) request(ctx context.Context, spec ptyio.Start, bounds *bounds) (leader ptyio.Leader, err error) {
	select {
	case <-p.ready:
	case <-p.gone:
		return nil, p.errGone()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l := &wardenLeader{process: p, spec: spec, asked: time.Now(), reply: make(chan error, 1), over: make(chan struct{})}
	request, files := startRequest(spec, bounds)
	e, rules, done, err := enter(spec, false)
	if err != nil {
		return nil, err
	}
	defer func() { done(leader != nil) }()
	if request.Level = e.level(); request.Level != confine.None {
		if request.Plan, err = p.number(ctx, e); err != nil {
			return nil, err
		}
	}
	if rules != nil {
		request.Ruleset = len(files)
		files = append(files, rules)
		request.Files = len(files)
	}
	l.enforced = enforcedFor(e, spec.Limits)
	l.spec.Argv, l.spec.Env, l.spec.Files, l.spec.Sandbox = nil, nil, nil, nil
	p.mu.Lock()
	if p.retired { // this comes first: the warden may be dead as well, because an idle one is closed
		p.mu.Unlock()
		return nil, errRetired
	}
	if p.dead || p.closing {
		p.mu.Unlock()
		return nil, p.errGone()
	}
	p.nextID++
	l.id = p.nextID
	p.leaders[l.id] = l
	p.tendLater()
	p.mu.Unlock()
	if err := p.out.Start(ctx, &wire.Request{ID: l.id, Start: request}, l.unsent, files...); err != nil {
		p.forget(l)
		return nil, p.refusal("spawn", err)
	}
	if request.Level != confine.Isolated && !p.out.Holds(l.id) { // an isolated start may be made again
		spec.Taken()
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

// unsent answers a start that could not be sent.
func (l *wardenLeader) unsent(err error) {
	if l.process.forget(l) {
		l.reply <- err
	}
}

// errRetired says that another warden has taken over.
var errRetired = errors.New("the warden has been replaced")

// retire stops starts on a warden that differs from this process.
func (p *wardenProcess) retire() {
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
func (l *wardenLeader) abandon(ctx context.Context) (ptyio.Leader, error) {
	l.process.mu.Lock()
	alive := l.pid != 0 && !l.abandoned // a killed newborn was abandoned earlier
	l.abandoned = !alive
	l.process.mu.Unlock()
	if alive {
		return l, nil
	}
	timer := time.NewTimer(l.process.options.waits().close) // the warden may hang
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
func startRequest(spec ptyio.Start, bounds *bounds) (*wire.Start, []*os.File) {
	request := &wire.Start{Program: spec.Program, Argv: spec.Argv, Env: spec.Env, Dir: spec.Dir, TTY: spec.TTY,
		Keep: spec.Keep, Grace: spec.Grace, FDs: make([]int, len(spec.Files)), Ruleset: -1}
	var files []*os.File
	positions := map[*os.File]int{}
	for i, file := range spec.Files {
		if file == nil {
			request.FDs[i] = -1
			continue
		}
		position, known := positions[file]
		if !known {
			position = len(files)
			positions[file] = position
			files = append(files, file)
		}
		request.FDs[i] = position
	}
	request.Rlimits, request.Tasks = bounds.rlimits(), bounds.most()
	for _, file := range bounds.join() {
		request.Groups = append(request.Groups, len(files))
		files = append(files, file)
	}
	request.Files = len(files)
	return request, files
}

// forget removes a start from the table, and reports whether it was there.
func (p *wardenProcess) forget(l *wardenLeader) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := p.leaders[l.id]
	delete(p.leaders, l.id)
	return there
}

// refusal turns an outbox's error into a sentence.
func (p *wardenProcess) refusal(op string, err error) error {
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
func (p *wardenProcess) errGone() error {
	p.mu.Lock()
	defer p.mu.Unlock()
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
func (l *wardenLeader) PID() int { return l.pid }

// Signal implements ptyio.Leader. It reports errors that are known here; the warden delivers the signal.
func (l *wardenLeader) Signal(sig syscall.Signal, group int) error {
	err := l.process.out.Signal(l.id, wire.Signal{Number: sig, Group: group})
	if err != nil {
		return l.process.refusal("signal", err)
	}
	return nil
}

// EndTree implements ptyio.Leader.
func (l *wardenLeader) EndTree(grace time.Duration) { l.process.out.End(l.id, wire.End{Grace: grace}) }

// Prompt implements ptyio.Prompt: the warden is told, but its answer is not waited for.
func (*wardenLeader) Prompt() {}

// Enforced implements ptyio.Leader.
func (l *wardenLeader) Enforced() *messages.Enforcement { return l.enforced }
