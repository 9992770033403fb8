package execbus

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/record"
)

// Session is one conversation of the host. Its methods are safe for concurrent use.
//
// When its context ends, a waiting call is cancelled and nothing else: the process lives on and no output is lost. Such a call
// returns its result if that was decided already, and otherwise an error that matches messages.ErrCancelled and whose
// Subject is the process. A call whose context has already ended starts nothing; a call that ends something still does so.
//
// Requests are copied: their lists, maps and buffers are the caller's again as soon as a method has returned.
type Session struct {
	runtime    *Runtime
	id         messages.SessionID
	supervisor *actors.PID
	view       messages.View // of results, if a call does not say
	// over says that no further event will come. It is an atomic because callers read it without sending a message.
	over     atomic.Bool
	recorded chan struct{} // closed when all recordings are written; nil if there are none
	recordIn string        // the directory of recordings; empty if there is none
}

// ended ends the subscriptions to the session. An actor calls it.
func (s *Session) ended() {
	s.over.Store(true)
	s.runtime.sessions.Delete(s.id)
	s.runtime.around.Bus.CloseSession(s.id)
}

// ID names the session; its events carry it.
func (s *Session) ID() messages.SessionID { return s.id }

var (
	errSessionClosed = &messages.Error{Code: messages.ErrClosed, Op: "use session", Detail: "the session is closed; open another one",
		Hint: "call Runtime.OpenSession"}
	errNoSession = &messages.Error{Code: messages.ErrInvalidRequest, Op: "use session", Detail: "there is none: opening the session or starting the process has failed; look at the error of that",
		Hint: "check the error that came with the nil *Session or *Process"}
	errShutDown = &messages.Error{Code: messages.ErrClosed, Op: "use runtime", Detail: "the runtime is shut down; start another one",
		Hint: "call Start"}
)

// begin is like ask, for requests that must not be sent when the context has already ended.
func begin[T any](ctx context.Context, s *Session, message any) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, &messages.Error{Code: messages.ErrCancelled, Op: "use session",
			Detail: "the call was cancelled before it began, and nothing was done: " + context.Cause(ctx).Error(), Like: messages.LikeOf(ctx.Err())}
	}
	return ask[T](ctx, s, message)
}

// beginNew is begin for requests with which something new begins. It must not without an audit log that can be written, if the host says so.
func beginNew[T any](ctx context.Context, s *Session, message any) (T, error) {
	if s != nil {
		if err := s.runtime.audit.admit(); err != nil {
			var none T
			return none, err
		}
	}
	return begin[T](ctx, s, message)
}

// ask sends a request, which must share no memory with the caller's, and waits for its one answer. If the context ends, the
// call is cancelled, and that answers it: with its result if that was decided already, and otherwise with ErrCancelled.
func ask[T any](ctx context.Context, s *Session, message any) (T, error) {
	var none T
	if s == nil {
		return none, errNoSession
	}
	system := s.runtime.system
	call := system.Call(s.supervisor, message)
	defer call.Close()
	begun(ctx)
	reply, err := actors.Await[T](ctx, call)
	if err != nil && err == ctx.Err() {
		system.Send(s.supervisor, actors.CancelWait{Waiter: call.PID().Id})
		reply, err = actors.Await[T](context.WithoutCancel(ctx), call)
	}
	return reply, plain(ctx, err, s.supervisor, errSessionClosed)
}

// cancelled is the error of a call whose context has ended.
func cancelled(ctx context.Context) error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "wait", Detail: context.Cause(ctx).Error(), Like: messages.LikeOf(ctx.Err())}
}

// plain turns the error of a context into ours, says why a call was cancelled, and replaces an actor's own "closed" by over.
func plain(ctx context.Context, err error, asked *actors.PID, over error) error {
	if err == nil {
		return nil
	}
	if err == ctx.Err() {
		return cancelled(ctx)
	}
	typed, ok := errors.AsType[*messages.Error](err)
	switch {
	case ok && typed.Code == messages.ErrClosed && typed.Subject == asked.Id:
		return over
	case ok && typed.Code == messages.ErrCancelled && ctx.Err() != nil:
		why := *typed
		why.Detail += ": " + context.Cause(ctx).Error()
		why.Like = messages.LikeOf(ctx.Err())
		return &why
	}
	return err
}

// Exec runs a command, if the command may run, and waits for its end or its yield time, whichever comes first. After the yield time
// the process lives on and the result names it. An error means that the command never ran, or, if it matches messages.ErrCancelled,
// that the call was cancelled: if the process already ran it lives on, and the error's Subject is its id.
//
// A command that is nothing but a call of apply_patch, in the forms of patch.Intercept, starts no process: it is applied as by ApplyPatch,
// and the result's Patch says so. No path may be in it twice. Start and Run do not look for patches.
func (s *Session) Exec(ctx context.Context, command messages.ExecCommand) (*messages.Result, error) {
	found, is, err := patch.Intercept(&command)
	if err != nil {
		return nil, err
	}
	if is {
		return s.execPatch(ctx, command, found)
	}
	result, err := beginNew[*messages.Result](ctx, s, messages.Clone(command))
	if err != nil {
		return nil, err
	}
	return s.show(ctx, result, command.View), nil
}

// Run runs a command to its end, with stdout and stderr apart. A timeout is a result, not an error. A context that ends
// cancels the command: SIGTERM, a short grace, SIGKILL; the result says so. messages.NormalizeRun turns an error into a result.
func (s *Session) Run(ctx context.Context, command messages.RunCommand) (*messages.RunResult, error) {
	return beginNew[*messages.RunResult](ctx, s, messages.Clone(command))
}

// Write sends input to a process and waits for output, or, with UntilTaken, until the process has taken the input. If ctx
// ends, input that was sent stays sent, but a write that waited for its turn sends nothing. With UntilTaken, if not all
// bytes were taken, Write returns an error beside the result, which says how many were.
func (s *Session) Write(ctx context.Context, input messages.WriteStdin) (*messages.Result, error) {
	result, err := begin[*messages.Result](ctx, s, messages.Clone(input))
	switch {
	case err != nil:
		return nil, err
	case input.UntilTaken && result.InputErr != nil:
		return result, result.InputErr
	case input.UntilTaken || input.NoWait: // it takes no output
		return result, nil
	}
	return s.show(ctx, result, input.View), nil
}

// Poll collects output until the process ends or the yield time is over. The first poll after the end gets the rest of the output
// and the exit code; later ones get an error that matches messages.ErrProcessEnded and holds the record.
func (s *Session) Poll(ctx context.Context, poll messages.Poll) (*messages.Result, error) {
	result, err := begin[*messages.Result](ctx, s, messages.Clone(poll))
	if err != nil {
		return nil, err
	}
	return s.show(ctx, result, poll.View), nil
}

// Wait waits for reasons at processes: the exit of the leader, or what an Until says; at one process, at the first of several, or at all of
// them. A process may be named by the call that will start it, and an owner stands for any of its processes. It takes no output. A process
// that a call waits for is in use, so it is not ended to make room for another. The result has everything that was met by then, in that
// order; it may have nothing if the yield is over. Any number of calls may wait for one process.
func (s *Session) Wait(ctx context.Context, wait messages.Wait) (messages.Wakeups, error) {
	return begin[messages.Wakeups](ctx, s, messages.Clone(wait))
}

// Read reads remembered output, by offset, by sequence or from the end, and can wait for some. Each reader keeps
// its own position, and takes nothing from calls that poll or from other readers. With SkipLost a reader that was too slow learns
// exactly how much it missed.
func (s *Session) Read(ctx context.Context, read messages.ReadOutput) (*messages.OutputPage, error) {
	page, err := begin[*messages.OutputPage](ctx, s, messages.Clone(read))
	if err != nil || read.View == "" {
		return page, err
	}
	return s.viewed(ctx, page, read), nil
}

// CloseStdin ends the input of a process after the bytes that were written so far.
func (s *Session) CloseStdin(ctx context.Context, closing messages.CloseStdin) error {
	_, err := ask[actors.Done](ctx, s, closing)
	return err
}

// Resize changes the size of a process's terminal.
func (s *Session) Resize(ctx context.Context, resize messages.Resize) error {
	_, err := begin[actors.Done](ctx, s, resize)
	return err
}

// Signal sends a signal to a process. It never waits behind other calls.
func (s *Session) Signal(ctx context.Context, signal messages.Signal) error {
	_, err := ask[actors.Done](ctx, s, signal)
	return err
}

// TakeKeyboard gives the input of a process on a terminal to a person, who may already type elsewhere: the last one to take it has it.
// What others write meanwhile is refused or waits: see SessionOptions.Keyboard. Polls, reads, signals and terminations are everybody's, and
// what the person types does not end polls. The person's input goes to Write, CloseStdin and Resize with the answer's ID. The keyboard is
// given back by ReturnKeyboard, after messages.DefaultKeyboardIdle without input, and when the program exits; messages.KeyboardTaken and
// KeyboardReturned tell the host.
func (s *Session) TakeKeyboard(ctx context.Context, take messages.TakeKeyboard) (*messages.Keyboard, error) {
	return begin[*messages.Keyboard](ctx, s, take)
}

// ReturnKeyboard gives the input of a process back to everybody. Writes that wait for this are sent.
func (s *Session) ReturnKeyboard(ctx context.Context, back messages.ReturnKeyboard) error {
	_, err := ask[actors.Done](ctx, s, back)
	return err
}

// WatchTerminal says that somebody begins, or ends, to see the screen of a process, and can say where its cursor is: see
// Session.PlaceCursor. Package window does both.
func (s *Session) WatchTerminal(ctx context.Context, watch messages.WatchTerminal) error {
	_, err := ask[actors.Done](ctx, s, watch)
	return err
}

// PlaceCursor says where the cursor of a terminal was when a program asked, which gets this for an answer, once. The caller finds the
// requests, ESC[6n, in the output; the offset of one is that of the byte behind it.
func (s *Session) PlaceCursor(ctx context.Context, places messages.PlaceCursor) error {
	_, err := ask[actors.Done](ctx, s, messages.Clone(places))
	return err
}

// Terminate ends a process with its tree and waits until both have ended. A context that ends does not stop the
// termination.
func (s *Session) Terminate(ctx context.Context, terminate messages.Terminate) (*messages.EndRecord, error) {
	return ask[*messages.EndRecord](ctx, s, messages.Clone(terminate))
}

// TerminateAll ends all processes that the session has now and waits until they have ended. Later processes are not affected. An error
// says that some may live, as their records do: what cannot be killed, or is on a machine that no longer answers.
func (s *Session) TerminateAll(ctx context.Context) error {
	_, err := ask[actors.Done](ctx, s, actors.TerminateAll{By: messages.TerminatedByUser})
	return err
}

// EndOwner ends everything that belongs to an owner, such as a turn: its waiting calls get an error that matches
// messages.ErrCancelled at once, its questions are withdrawn, and its commands are ended with their trees (cause: terminated by
// owner). Its patches are cancelled, but one that is being written is finished first. EndOwner returns when all have ended. Later
// commands may have the same owner. An empty owner owns nothing.
func (s *Session) EndOwner(ctx context.Context, owner string) error {
	_, err := ask[actors.Done](ctx, s, actors.EndOwner{Owner: owner})
	return err
}

// List describes the processes that have not ended, ordered by id, and what each waits for as one look finds it. All looks together have
// a second; what is not known by then says so. A look at a process on another machine is a question to that.
func (s *Session) List(ctx context.Context) (messages.Processes, error) {
	return begin[messages.Processes](ctx, s, actors.ListProcesses{})
}

// Records describes the processes of List and the ended ones that are remembered. It does not look what they wait for.
func (s *Session) Records(ctx context.Context) (messages.Processes, error) {
	return begin[messages.Processes](ctx, s, actors.ListProcesses{Records: true})
}

// Executions says what the tree of a process has executed so far, or in all if it has ended and is remembered. Subscribe to
// messages.KindProgramExecuted for each execution.
func (s *Session) Executions(ctx context.Context, process messages.ProcessID) (*messages.Executions, error) {
	return begin[*messages.Executions](ctx, s, actors.ListExecutions{Process: process})
}

// UpdateEnvironment changes directory, environment, policies and limits for later commands. A directory that does not exist is an
// error, and then nothing is changed.
func (s *Session) UpdateEnvironment(ctx context.Context, update messages.UpdateEnvironment) error {
	update = messages.Clone(update)
	if update.Dir != nil {
		dir, err := begin[string](ctx, s, actors.ResolveDir{Dir: *update.Dir})
		if err != nil {
			return err
		}
		if err := checkDir(s.runtime.patience.answer, s.runtime.around.Spawner, "update environment", dir); err != nil {
			return err
		}
		update.Dir = &dir
	}
	_, err := begin[actors.Done](ctx, s, update)
	return err
}

// PauseYields stops the deadlines of the session's waiting calls until ResumeYields, for example while a person is asked
// something. An exit still answers. Pauses nest.
func (s *Session) PauseYields(ctx context.Context) error {
	_, err := begin[actors.Done](ctx, s, actors.PauseYields{})
	return err
}

// ResumeYields undoes one PauseYields.
func (s *Session) ResumeYields(ctx context.Context) error {
	_, err := ask[actors.Done](ctx, s, actors.ResumeYields{})
	return err
}

// Watch selects the events of a session for a subscription.
type Watch struct {
	// Kinds, Processes and Calls select events; empty ones select all. A call's name is known before its process has an id. Notices
	// of the runtime itself belong to no process and no call, and come to every session.
	Kinds     []messages.EventKind
	Processes []messages.ProcessID
	Calls     []messages.CallID
	// Name names the subscription in errors, so that one that was too slow can be found; empty means the session's id.
	Name string
	// Lossless makes a process wait for this subscriber instead of dropping output for it. A lossless subscriber that stops
	// reading stops the process, and with it every call that waits for its end: close a subscription that nobody reads any more.
	Lossless bool
}

// Events opens a subscription to the session's events. Subscribe before Exec to miss nothing. The caller closes it, or it ends
// with the session: queued events can then still be read, and after them comes an error that matches messages.ErrClosed. On a
// closed session Events itself returns that error.
func (s *Session) Events(watch Watch) (*bus.Subscription, error) {
	if s == nil {
		return nil, errNoSession
	}
	filter := bus.Filter{Sessions: []messages.SessionID{s.id, ""}, Kinds: watch.Kinds, Processes: watch.Processes, Calls: watch.Calls}
	events, err := s.runtime.around.Bus.Subscribe(filter, bus.SubscribeOptions{Name: cmp.Or(watch.Name, string(s.id)), Lossless: watch.Lossless})
	if err == nil && s.over.Load() { // checked after subscribing: a session that ended earlier does not end this subscription
		events.Close()
		return nil, errSessionClosed
	}
	return events, err
}

// Close ends every process of the session, waits for their ends, and then ends the session. A context that ends does not stop
// the closing. An error says that some processes may live, as that of TerminateAll does. Further calls do nothing.
func (s *Session) Close(ctx context.Context) error {
	_, err := ask[actors.Done](ctx, s, actors.CloseSession{By: messages.TerminatedBySessionClose})
	if err != nil && !errors.Is(err, messages.ErrClosed) {
		return err
	}
	if s.recorded != nil {
		select {
		case <-s.recorded:
		case <-ctx.Done():
		}
	}
	return nil
}

// record begins to record what the session runs, if that is asked for.
func (s *Session) record(o record.Options) error {
	if o.Dir == "" && o.File == "" {
		return nil
	}
	told := o.Notice
	o.Notice = func(text string) {
		s.runtime.notice(text)
		if told != nil {
			told(text)
		}
	}
	recorder, err := record.New(o)
	if err != nil {
		return err
	}
	events, err := s.Events(Watch{Lossless: true, Name: "the recorder"})
	if err != nil {
		return err
	}
	s.recorded, s.recordIn = make(chan struct{}), o.Dir
	s.runtime.recorders.Add(1)
	go func() {
		defer s.runtime.recorders.Done()
		defer close(s.recorded)
		defer events.Close()
		recorder.Follow(context.Background(), events) // it ends with the session
	}()
	return nil
}

// Recording is the path of the latest recording of a process; empty if there is none in SessionOptions.Record.Dir. While the process runs, the
// recording goes on. It looks through the directory, so the file system may make it wait.
func (s *Session) Recording(process messages.ProcessID) (path string) {
	if s.recordIn == "" {
		return ""
	}
	return record.Find(s.recordIn, s.id, process)
}

// begunKey is the key under which WithBegun keeps its function in a context.
type begunKey struct{}

// WithBegun returns a context for one call of a session. The session runs begun once it has received the call. A host that makes its
// next call after begun keeps the order of its calls without waiting for their answers: requests to one process take effect in
// this order, and questions are asked in it. Commands still start side by side, in any order. A call that is refused before the
// session receives it does not run begun. begun must return at once.
func WithBegun(ctx context.Context, begun func()) context.Context {
	return context.WithValue(ctx, begunKey{}, begun)
}

// withoutBegun is the context of a further request of the same call.
func withoutBegun(ctx context.Context) context.Context {
	return context.WithValue(ctx, begunKey{}, nil)
}

// begun says that the call of a context has its place in the order.
func begun(ctx context.Context) {
	if told, ok := ctx.Value(begunKey{}).(func()); ok {
		told()
	}
}
