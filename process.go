package execbus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// Process is a handle on one process of a session. Its methods are safe for concurrent use. Dropping the handle does not end the
// process, and keeping it costs nothing once the process has ended.
type Process struct {
	session *Session
	id      messages.ProcessID
	call    messages.CallID
	pid     int
	exit    *exitNote // nil: the handle asks the session
}

// exitNote says how the leader exited, for callers that ask after the session has forgotten the process.
type exitNote struct {
	settle sync.Once
	known  chan struct{} // closed when status and err are known
	status messages.ExitStatus
	err    error
}

// Start starts a command, if the command may run, and returns when its program runs. The process belongs to the session: it ends
// with the session, by [Process.Terminate], or by itself.
//
// Unlike that of exec.CommandContext, the context bounds only the start: if it ends before the program runs,
// nothing is left behind; later it has no effect. Start ignores the command's Yield and its bounds for a result's text.
func (s *Session) Start(ctx context.Context, command messages.ExecCommand) (*Process, error) {
	if command.Call == "" {
		command.Call = messages.CallID("start-" + uuid.NewString())
	}
	events, err := s.Events(Watch{Name: "start", Calls: []messages.CallID{command.Call},
		Kinds: []messages.EventKind{messages.KindExecStarted, messages.KindExecExited, messages.KindExecEnded}})
	if err != nil {
		return nil, err
	}
	started, err := beginNew[*messages.Result](ctx, s, actors.StartCommand{ExecCommand: messages.Clone(command)})
	if err != nil {
		events.Close()
		s.endUnclaimed(err)
		return nil, err
	}
	p := &Process{session: s, id: started.Process, call: command.Call, exit: &exitNote{known: make(chan struct{})}}
	p.pid = p.born(events)
	go p.watch(events)
	return p, nil
}

// endUnclaimed ends a process whose caller was cancelled before it got the id. It does not wait for the end.
func (s *Session) endUnclaimed(err error) {
	typed, ok := errors.AsType[*messages.Error](err)
	if !ok || typed.Code != messages.ErrCancelled {
		return
	}
	if id, err := strconv.Atoi(typed.Subject); err == nil { // if not, no process began
		terminate := messages.Terminate{Process: messages.ProcessID(id), By: messages.TerminatedByUser, Grace: new(time.Duration)}
		s.runtime.system.Send(s.supervisor, terminate)
	}
}

// born returns the leader's pid, which was published before the start was answered.
func (p *Process) born(events *bus.Subscription) int {
	for {
		event, ok, err := events.TryNext()
		if !ok || err != nil {
			return 0
		}
		if started, is := event.(messages.ExecStarted); is && started.Process == p.id {
			return started.PID
		}
	}
}

// watch waits for the exit. It does not count as a wait: a handle alone does not keep a process in use.
func (p *Process) watch(events *bus.Subscription) {
	defer events.Close()
	for event, err := range events.All(context.Background()) {
		if err != nil {
			p.exit.settled(p.id, messages.StatusNone(), err)
			return
		}
		if event.From().Process != p.id { // another process, of a call with the same name
			continue
		}
		switch e := event.(type) {
		case messages.ExecExited:
			p.exit.settled(p.id, e.Status, nil)
			return
		case messages.ExecEnded:
			p.exit.settled(p.id, e.Status, nil)
			return
		}
	}
}

// settled notes how the leader exited, once.
func (n *exitNote) settled(id messages.ProcessID, status messages.ExitStatus, err error) {
	n.settle.Do(func() {
		n.status, n.err = status, err
		if err == nil {
			n.err = lost(id, status)
		}
		close(n.known)
	})
}

// lost returns the error for a status of the kind ExitNone, and nil for any other.
func lost(id messages.ProcessID, status messages.ExitStatus) error {
	if status.Kind != messages.ExitNone {
		return nil
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "wait", Subject: id.String(),
		Detail: "the process has ended, but its exit status was lost; check what it has done before running the command again",
		Hint:   "Without a warden, a host that ignores SIGCHLD or waits for children that it did not start loses statuses."}
}

// Process is a handle on a process that the session has or remembers. An id that it does not know is an error that matches
// messages.ErrUnknownProcess.
func (s *Session) Process(ctx context.Context, id messages.ProcessID) (*Process, error) {
	info, err := s.info(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Process{session: s, id: id, call: info.Call, pid: info.PID}, nil
}

func (s *Session) info(ctx context.Context, id messages.ProcessID) (messages.ProcessInfo, error) {
	return begin[messages.ProcessInfo](ctx, s, actors.DescribeProcess{Process: id})
}

// ID is the process's number in its session.
func (p *Process) ID() messages.ProcessID {
	if p == nil {
		return 0
	}
	return p.id
}

// on is the session of the process. A nil handle, which a failed start returns, is an error and not a panic.
func (p *Process) on() *Session {
	if p == nil {
		return nil
	}
	return p.session
}

// Call is the name of the call that started the process; its events carry it.
func (p *Process) Call() messages.CallID {
	if p == nil {
		return ""
	}
	return p.call
}

// PID is the kernel's pid of the leader, zero if the spawner has none. After the leader's exit another process may get it.
func (p *Process) PID() int {
	if p == nil {
		return 0
	}
	return p.pid
}

// Info describes the process, as long as the session remembers it.
func (p *Process) Info(ctx context.Context) (messages.ProcessInfo, error) {
	return p.on().info(ctx, p.ID())
}

// CloseStdin ends the input after the bytes that were written so far.
func (p *Process) CloseStdin(ctx context.Context) error {
	return p.on().CloseStdin(ctx, messages.CloseStdin{Process: p.ID()})
}

// Resize changes the size of the terminal.
func (p *Process) Resize(ctx context.Context, size messages.Size) error {
	return p.on().Resize(ctx, messages.Resize{Process: p.ID(), Size: size})
}

// Signal sends a signal to the foreground process group. [Session.Signal] can send one to the whole tree.
func (p *Process) Signal(ctx context.Context, sig syscall.Signal) error {
	return p.on().Signal(ctx, messages.Signal{Process: p.ID(), Signal: sig})
}

// Poll is [Session.Poll] for this process, whichever process the request names.
func (p *Process) Poll(ctx context.Context, poll messages.Poll) (*messages.Result, error) {
	poll.Process = p.ID()
	return p.on().Poll(ctx, poll)
}

// Read is [Session.Read] for this process, whichever process the request names.
func (p *Process) Read(ctx context.Context, read messages.ReadOutput) (*messages.OutputPage, error) {
	read.Process = p.ID()
	return p.on().Read(ctx, read)
}

// Terminate ends the process with its tree and waits until both have ended. The end of the context does not stop the
// termination. Terminate returns a record or an error, never neither. The record of a process that has already ended is returned,
// too. If the session has forgotten it, the error matches messages.ErrUnknownProcess; if the session is closed,
// messages.ErrClosed. [Session.Terminate] lets the caller choose the grace.
func (p *Process) Terminate(ctx context.Context) (*messages.EndRecord, error) {
	record, err := p.on().Terminate(ctx, messages.Terminate{Process: p.ID(), By: messages.TerminatedByUser})
	typed, ok := errors.AsType[*messages.Error](err)
	switch {
	case ok && typed.Code == messages.ErrProcessEnded && typed.Ended != nil:
		return typed.Ended, nil
	case ok && typed.Code == messages.ErrUnknownProcess:
		return nil, &messages.Error{Code: messages.ErrUnknownProcess, Op: "terminate", Subject: p.id.String(),
			Detail: "the process has ended, and the session has forgotten how; its events had it", Hint: "Process.Wait of a handle from Session.Start has its exit status."}
	}
	return record, err
}

// Wait waits for the leader's exit. Any number of callers may wait. While one does, the process is not ended to make
// room for another. A handle from [Session.Start] knows the exit forever; one from [Session.Process] gets an error when the
// session has forgotten the process.
func (p *Process) Wait(ctx context.Context) (messages.ExitStatus, error) {
	if p == nil {
		return messages.StatusNone(), errNoSession
	}
	if p.exit != nil && p.exit.isKnown() {
		return p.exit.status, p.exit.err
	}
	exits, err := p.session.Wait(ctx, messages.Wait{For: []messages.WaitFor{{Process: p.id}}, NoTimeout: true})
	switch {
	case p.exit == nil && err != nil, errors.Is(err, messages.ErrCancelled):
		return messages.StatusNone(), err
	case p.exit == nil:
		return exits[0].Status, lost(p.id, exits[0].Status)
	case err == nil:
		p.exit.settled(p.id, exits[0].Status, nil)
	}
	select { // any other error means that the process is forgotten, so its exit is known or soon will be
	case <-p.exit.known:
		return p.exit.status, p.exit.err
	case <-ctx.Done():
		return messages.StatusNone(), cancelled(ctx)
	}
}

// Status returns the leader's exit status, or false while the exit is not known. The status is messages.StatusNone if the
// kernel's report was lost; Wait then says why. Status does not wait.
func (p *Process) Status() (status messages.ExitStatus, exited bool) {
	if p != nil && p.exit != nil {
		if p.exit.isKnown() {
			return p.exit.status, true
		}
		return messages.StatusNone(), false
	}
	exits, err := p.on().Wait(context.Background(), messages.Wait{For: []messages.WaitFor{{Process: p.ID()}}, Yield: new(time.Duration)})
	if err != nil || len(exits) == 0 {
		return messages.StatusNone(), false
	}
	return exits[0].Status, true
}

func (n *exitNote) isKnown() bool {
	select {
	case <-n.known:
		return true
	default:
		return false
	}
}

// SpawnRequest asks an Executor for one process.
type SpawnRequest struct {
	// ProcessID is the caller's own name for the process.
	ProcessID string
	// Argv is the program and its arguments. Argv0, if not empty, is the name that the program gets as its own.
	Argv  []string
	Argv0 string
	// Dir is the working directory; it must be absolute.
	Dir string
	// Env is the exact environment.
	Env map[string]string
	// TTY runs it on a terminal of 24 rows and 80 columns.
	TTY bool
}

// Executor starts processes for callers that know nothing of sessions, calls and yields: it is the narrow surface that a
// local and a remote machine share. The runtime's Spawner decides where the processes run.
type Executor struct{ session *Session }

// Executor returns the session's executor. Its processes belong to the session: they count against its limits and end with
// it.
func (s *Session) Executor() Executor { return Executor{s} }

// Spawn starts a process and returns when its program runs. If ctx ends earlier, nothing is left behind. The process's Call is
// the request's ProcessID; [Process.Follow] gives its output from byte 0.
func (e Executor) Spawn(ctx context.Context, request SpawnRequest) (*Process, error) {
	if !filepath.IsAbs(request.Dir) {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "spawn", Subject: request.ProcessID,
			Detail: fmt.Sprintf("the directory %q is not absolute; use an absolute path", request.Dir)}
	}
	return e.session.Start(ctx, messages.ExecCommand{Call: messages.CallID(request.ProcessID), Argv: request.Argv, Argv0: request.Argv0,
		Dir: request.Dir, Environment: &messages.EnvironmentPolicy{Exact: true, Set: request.Env}, TTY: request.TTY, OpenStdin: true})
}

// UpdateEnvironment changes the policies for later processes, and the directory and environment for those that
// bring none. A running process keeps its own.
func (e Executor) UpdateEnvironment(ctx context.Context, update messages.UpdateEnvironment) error {
	return e.session.UpdateEnvironment(ctx, update)
}

const (
	// writePiece is how much of a Write is offered to a process at a time, in bytes: a sixteenth of the queue.
	writePiece = 64 << 10
	// writeWait is how long a Write waits before it tries again when the writes of other callers have filled the queue.
	writeWait = 5 * time.Millisecond
	// writePatience stands for no bound.
	writePatience = 100 * 365 * 24 * time.Hour
)

var _ io.Writer = (*Process)(nil)

// Send queues input and returns at once, whether the process reads or not: for keyboards. At most 1 MiB waits to be taken; input for
// which there is no room is refused as a whole with messages.ErrInputFull. A key that the terminal turns into a signal, sent alone,
// acts at once, however much waits before it. Bytes never overtake other bytes. The EarlierInput of a later result says if some were
// not taken.
func (p *Process) Send(b []byte) error {
	_, err := p.on().Write(context.Background(), messages.WriteStdin{Process: p.ID(), Bytes: b, NoWait: true,
		Patience: new(time.Duration(writePatience))})
	return err
}

// Write sends input, of any length, and returns when the process's terminal or pipe has taken it. It implements io.Writer,
// for io.Copy. It blocks as long as the process does not read, and returns when the process ends. If not all bytes were
// taken, n is the number of bytes that were, and the error says why. [Session.Write] has a context, a bound for the wait,
// and an answer with output.
//
// A Write of at most 64 KiB stays in one piece; longer ones of several callers may be interleaved. A terminal in line mode
// takes no line of more than 4,095 bytes: the error is messages.ErrLineTooLong.
func (p *Process) Write(b []byte) (n int, err error) { return p.give(b, false) }

// Repeatable is Write for input that answers nothing the process has said, such as that of a file: if its sandbox stops the process,
// another attempt gets the same input. See messages.WriteStdin.
func (p *Process) Repeatable() io.Writer { return repeatable{p} }

type repeatable struct{ *Process }

func (r repeatable) Write(b []byte) (int, error) { return r.give(b, true) }

// give is Write. Repeatable bytes are given again to another attempt.
func (p *Process) give(b []byte, repeatable bool) (n int, err error) {
	for n < len(b) {
		piece := b[n:min(n+writePiece, len(b))]
		result, err := p.on().Write(context.Background(), messages.WriteStdin{Process: p.ID(), Bytes: piece,
			UntilTaken: true, Repeatable: repeatable, Patience: new(time.Duration(writePatience))})
		if errors.Is(err, messages.ErrInputFull) {
			// Nothing reports that there is room. The end of the process ends the wait, and the next attempt reports it.
			_, _ = p.on().Wait(context.Background(), messages.Wait{For: []messages.WaitFor{{Process: p.ID()}}, Yield: new(time.Duration(writeWait))})
			continue
		}
		if result != nil {
			n += result.Taken
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// followPage bounds the output that Follow holds at a time, in bytes.
const followPage = 256 << 10

// Follow gives the output from an offset on: first the remembered output and then the new, without a hole between them and nothing
// twice. It ends after the last byte when no more can come, or with an error when ctx ends.
//
//	for event, err := range p.Follow(ctx, 0) {
//		switch e := event.(type) {
//		case messages.OutputDelta:
//			os.Stdout.Write(e.Bytes)
//		case messages.Gap:
//			fmt.Printf("[%s]\n", e)
//		}
//	}
//
// A messages.CaughtUp, once, ends the output that there was when Follow began: what comes before it is history, also where that is
// nothing.
//
// The other events are messages.OutputDelta and messages.Gap. No origin has a time. An offset may lie inside of an event that was
// published: the first event is then the rest of it. A loop that is slower than the process never slows it, and holds 256 KiB at
// most. Output that is forgotten meanwhile (see "Limits" in the package doc) becomes a Gap, whose count of events is an estimate.
//
// Follow takes no output from callers that poll. Any number of callers may follow a process, and it is in use meanwhile. Follow may
// begin after the end, as long as the session remembers the process. Errors: messages.ErrCancelled, ErrUnknownProcess, ErrClosed when
// the session was closed before everything was read, and ErrOutputUnretained for an offset behind the end.
func (p *Process) Follow(ctx context.Context, from int64) iter.Seq2[messages.Event, error] {
	return func(yield func(messages.Event, error) bool) {
		if p == nil {
			yield(nil, errNoSession)
			return
		}
		origin := messages.Origin{Session: p.session.id, Process: p.id, Call: p.call}
		at, seq, history, live := from, uint64(0), int64(-1), false
		caughtUp := func(at int64) bool {
			if live || at < history {
				return true
			}
			live = true
			return yield(messages.CaughtUp{Origin: origin, Offset: history}, nil)
		}
		var wait time.Duration // none for the first page, which tells how much there is
		for {
			page, err := p.session.Read(ctx, messages.ReadOutput{Process: p.id, Offset: &at, Max: followPage, Wait: wait, SkipLost: true})
			if err != nil {
				yield(nil, err)
				return
			}
			if wait == 0 {
				wait, history = messages.MaxReadWait, page.Total
			}
			if page.Missed > 0 {
				if !yield(gapOf(origin, at, seq, page), nil) {
					return
				}
				at += page.Missed
			}
			for _, c := range page.Chunks {
				if !caughtUp(c.Offset) || !yield(messages.OutputDelta{Origin: origin, Stream: c.Stream, Seq: c.Seq, Offset: c.Offset, Bytes: c.Bytes}, nil) {
					return
				}
				at, seq = c.Offset+int64(len(c.Bytes)), c.Seq
			}
			if !caughtUp(at) {
				return
			}
			if page.Ended && at >= page.Total {
				return
			}
		}
	}
}

// gapOf returns the gap for the forgotten output between an offset, just after chunk seq, and the first chunk of a page.
func gapOf(origin messages.Origin, at int64, seq uint64, page *messages.OutputPage) messages.Gap {
	next := page.LastSeq + 1
	if len(page.Chunks) > 0 {
		next = page.Chunks[0].Seq
	}
	return messages.Gap{Origin: origin, First: at, End: at + page.Missed, Deltas: int(max(next, seq+2) - seq - 1)}
}
