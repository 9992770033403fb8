package execserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// firstNumber is the number of a session's first process.
const firstNumber messages.ProcessID = 1000

// Session is the session of a client as people on the server's machine see it: what runs, what it prints, and how to end it. Input, sizes and
// the decisions about commands are the client's. Reading takes nothing from the client and makes no process wait. The methods are safe for
// concurrent use, and after the end of the session it has no processes.
type Session struct{ of *session }

// Sessions are the sessions that are open, also those whose clients are away, in the order in which they were opened.
func (s *Server) Sessions() (open []Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		open = append(open, Session{one})
	}
	slices.SortFunc(open, func(a, b Session) int { return a.of.number - b.of.number })
	return open
}

// Follow calls changed at once, and when a session or a process has begun, ended or been forgotten, or a terminal has another size, until ctx
// ends or the server is closed. Changes that come together may be one call.
func (s *Server) Follow(ctx context.Context, changed func()) {
	for {
		news := s.following() // before the call, in which what comes now may not be seen any more
		changed()
		select {
		case <-news:
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// following is closed with the next change.
func (s *Server) following() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news
}

// changed tells those who follow the server that something has changed.
func (s *Server) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notice()
}

// notice is changed with the lock.
func (s *Server) notice() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// ID names the session among those of its server. It is not the id by which a client resumes the session: who knows that can take it.
func (s Session) ID() messages.SessionID {
	return messages.SessionID(fmt.Sprint("client-", s.of.number))
}

// List returns the processes that have not ended, by their numbers, with what each waits for. The Owner of a process is its client's name for
// itself, and its Call is the client's id for the process. One that has not answered when ctx ends is listed without what it waits for.
func (s Session) List(ctx context.Context) (list messages.Processes, err error) {
	for _, p := range s.processes() {
		info, child := p.info()
		if info.End != nil {
			continue
		}
		if child != nil {
			info.Awaits = p.awaits(ctx, child)
		}
		list = append(list, info)
	}
	return list, nil
}

// Records returns the processes that have ended, by their numbers, as long as the server keeps their output.
func (s Session) Records(context.Context) (list messages.Processes, err error) {
	for _, p := range s.processes() {
		if info, _ := p.info(); info.End != nil {
			list = append(list, info)
		}
	}
	return list, nil
}

// Info describes a process.
func (s Session) Info(_ context.Context, id messages.ProcessID) (messages.ProcessInfo, error) {
	p, err := s.find("look at process", id)
	if err != nil {
		return messages.ProcessInfo{}, err
	}
	info, _ := p.info()
	return info, nil
}

// Signal sends a signal to the foreground of a process, or to its tree.
func (s Session) Signal(_ context.Context, m messages.Signal) error {
	p, err := s.find("signal", m.Process)
	if err != nil {
		return err
	}
	p.mu.Lock()
	child, there := p.child, p.running && (p.exited == nil || m.Tree && !p.over)
	p.mu.Unlock()
	if !there {
		return &messages.Error{Code: messages.ErrWrongState, Op: "signal", Subject: m.Process.String(), Detail: "no program of it runs; look at its state"}
	}
	scope := ptyio.Foreground
	if m.Tree {
		scope = ptyio.Tree
	}
	return child.Signal(m.Signal, scope)
}

// Terminate ends a process with its tree, and returns its record when nothing of it is left, or an error when ctx ends. Its client is told
// of the end as of any other.
func (s Session) Terminate(ctx context.Context, m messages.Terminate) (*messages.EndRecord, error) {
	p, err := s.find("terminate", m.Process)
	if err != nil {
		return nil, err
	}
	grace := ptyio.DefaultGrace
	if m.Grace != nil {
		grace = *m.Grace
	}
	p.terminate(grace)
	p.mu.Lock()
	for !p.over && p.running {
		if p.wait(ctx) != nil {
			p.mu.Unlock()
			return nil, &messages.Error{Code: messages.ErrCancelled, Op: "terminate", Subject: m.Process.String(), Detail: "the call was cancelled"}
		}
	}
	p.mu.Unlock()
	info, _ := p.info()
	return info.End, nil
}

// processes are those of the session, by their numbers.
func (s Session) processes() []*process {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	list := s.of.list()
	slices.SortFunc(list, func(a, b *process) int { return int(a.about.Process - b.about.Process) })
	return list
}

func (s Session) find(op string, id messages.ProcessID) (*process, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if p := s.of.numbered[id]; p != nil {
		return p, nil
	}
	return nil, &messages.Error{Code: messages.ErrUnknownProcess, Op: op, Subject: id.String(), Detail: "there is no such process, or it ended and was forgotten; list the processes"}
}

// info describes the process, and returns the child if its leader or its tree may still run.
func (p *process) info() (info messages.ProcessInfo, child ptyio.Child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info = p.about
	info.LastUsed, info.Enforced, info.State = info.Began, p.enforced, messages.StateStarting
	if p.child != nil {
		info.PID = p.child.PID()
	}
	switch {
	case p.over:
		info.State = messages.StateClosed
		info.End = &messages.EndRecord{Cause: messages.CauseExited, Status: p.ending.Status, Limit: p.ending.Limit, Denial: p.ending.Denial, Tree: *p.tree, Duration: p.lasted}
		switch end := info.End; {
		case p.ending.Denial != nil:
			end.Cause = messages.CauseSandboxDenied
		case p.ending.Limit != "":
			end.Cause, end.By = messages.CauseTerminated, messages.TerminatedByLimit
		case p.ended:
			end.Cause, end.By = messages.CauseTerminated, messages.TerminatedByUser
		}
		if p.ending.Lost != nil {
			info.End.Detail = p.ending.Lost.Error()
		}
	case p.ending != nil:
		info.State, child = messages.StateExited, p.child
	case p.running:
		info.State, child = messages.StateRunning, p.child
	}
	return info, child
}

// awaits looks for what the programs of a process wait for, and where they listen.
func (p *process) awaits(ctx context.Context, child ptyio.Child) *messages.Awaits {
	inquirer, can := child.(ptyio.Inquirer)
	if !can {
		return &messages.Awaits{Unknown: "the server's spawner does not say"}
	}
	input, failed := inquire(ctx, p, inquirer, inputAsked, ptyio.Inquirer.AwaitedInput)
	found, failedToo := inquire(ctx, p, inquirer, listenersAsked, ptyio.Inquirer.Listeners)
	awaits := &messages.Awaits{Input: input}
	for _, l := range found {
		awaits.Listening = append(awaits.Listening, l.Address.String())
	}
	slices.Sort(awaits.Listening)
	awaits.Listening = slices.Compact(awaits.Listening)
	awaits.Listening = awaits.Listening[:min(len(awaits.Listening), messages.MaxListening)]
	if err := cmp.Or(failed, failedToo); err != nil && !errors.Is(err, messages.ErrClosed) { // it has just ended
		awaits.Unknown = err.Error()
	}
	return awaits
}
