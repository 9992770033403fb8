package execbus

import (
	"context"
	"errors"
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
	started, err := begin[*messages.Result](ctx, s, actors.StartCommand{ExecCommand: messages.Clone(command)})
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
	exits, err := p.session.Wait(ctx, messages.AwaitExit{Processes: []messages.ProcessID{p.id}})
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
	exits, err := p.on().Wait(context.Background(), messages.AwaitExit{Processes: []messages.ProcessID{p.ID()}, For: new(time.Duration)})
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
