package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Session is a session on a node of the fleet. Any number of programs may have one of the same session, and its methods are safe for
// concurrent use. They do what those of *execbus.Session do.
//
// A call waits while its node is unreachable: until the node is back or given up, or ctx ends.
type Session struct {
	fleet *fleet
	place Place
}

var _ execbus.SessionCalls = (*Session)(nil)

// Attach returns a session that the fleet has.
func Attach(ctx context.Context, nc *nats.Conn, id messages.SessionID) (*Session, error) {
	f, err := join(ctx, nc)
	if err != nil {
		return nil, err
	}
	s := &Session{fleet: f, place: Place{Session: id}}
	place, err := s.where(ctx)
	if err != nil {
		return nil, err
	}
	s.place = place
	return s, nil
}

// ID names the session; its events carry it.
func (s *Session) ID() messages.SessionID { return s.place.Session }

// Node is the machine that has the session.
func (s *Session) Node() string { return s.place.Node }

// where looks the session up in the books. The error is final unless it matches messages.ErrUnreachable.
func (s *Session) where(ctx context.Context) (Place, error) {
	place, err := s.fleet.read(ctx, s.place.Session)
	if err != nil {
		return place, err
	}
	switch place.State {
	case StateHeld:
		return place, nil
	case StateLosing, StateLost:
		return place, &messages.Error{Code: messages.ErrNodeLost, Op: "call session", Subject: string(place.Session),
			Detail: fmt.Sprintf("its machine %s was given up (%s); what became of its processes is not known; open another session", place.Node, place.Why)}
	case StateEnded:
		return place, &messages.Error{Code: messages.ErrClosed, Op: "call session", Subject: string(place.Session), Detail: "the session has ended; open another one"}
	default:
		return place, &messages.Error{Code: messages.ErrUnreachable, Op: "call session", Subject: string(place.Session), Detail: "no node has it yet; try again when one has room"}
	}
}

type keyName struct{}

// WithKey returns a context for one call with a key of the caller's. A node does the call of a key once: if the caller, or another
// program after a crash, makes the same call with the same key again within 10 minutes, it gets the first answer. A key has at most 256
// bytes; without one, or with an empty one, each call has one of its own.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyName{}, key)
}

const (
	// repeatMost is the longest pause before a request without an answer is sent again, in case it was lost. The first is two fifths
	// of the lease, and each next one is twice as long.
	repeatMost = 15 * time.Second
)

// ask makes a call: it sends the request until there is an answer.
func ask[R any](ctx context.Context, s *Session, method string, params any) (result R, err error) {
	if s == nil {
		return result, &messages.Error{Code: messages.ErrInvalidRequest, Op: "call session", Detail: "there is no session; look at the error of opening it", Hint: "check the error that came with the nil *Session"}
	}
	text, err := json.Marshal(params)
	if err != nil {
		return result, typed(err)
	}
	key, _ := ctx.Value(keyName{}).(string)
	key = or(key, nuid.Next())
	request, err := json.Marshal(request{Method: method, Key: key, Epoch: s.place.Epoch, Params: text})
	if err != nil {
		return result, typed(err)
	}
	if most := s.fleet.nc.MaxPayload(); most > 0 && int64(len(request)) > most {
		return result, &messages.Error{Code: messages.ErrInvalidRequest, Op: "call session", Subject: method, Detail: fmt.Sprintf("the request has %d bytes, and the server takes %d; send less at a time", len(request), most)}
	}
	reply, err := s.exchange(ctx, request, key)
	if err != nil {
		return result, err
	}
	var a answer
	if err := json.Unmarshal(reply, &a); err != nil {
		return result, unreadable(err)
	}
	if len(a.Result) > 0 {
		if err := json.Unmarshal(a.Result, &result); err != nil {
			return result, unreadable(err)
		}
	}
	if a.Error != nil {
		if a.Error.Code == messages.ErrCancelled && ctx.Err() != nil {
			a.Error.Like = messages.LikeOf(ctx.Err())
		}
		return result, a.Error
	}
	return result, nil
}

// exchange sends a request until there is an answer, until the session is known to be gone, or until ctx ends: then it cancels the call.
func (s *Session) exchange(ctx context.Context, request []byte, key string) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, &messages.Error{Code: messages.ErrCancelled, Op: "call session", Detail: "the call was cancelled before it began, and nothing was done", Like: messages.LikeOf(ctx.Err())}
	}
	nc, inbox := s.fleet.nc, s.fleet.nc.NewRespInbox()
	replies := make(chan *nats.Msg, 64)
	subscription, err := nc.ChanSubscribe(inbox, replies)
	if err != nil {
		return nil, failed("call session", err)
	}
	defer func() { _ = subscription.Unsubscribe() }()
	send := func() { _ = nc.PublishMsg(&nats.Msg{Subject: callSubject(s.ID()), Reply: inbox, Data: request}) } // a request that is lost is sent again
	send()
	wait := s.fleet.lease * 2 / 5
	again := time.NewTimer(wait)
	defer again.Stop()
	ended := ctx.Done()
	var overdue <-chan time.Time
	var parts parts
	for {
		select {
		case m := <-replies:
			if m.Header.Get("Status") == "503" { // nobody has the session now
				if overdue == nil {
					again.Reset(s.fleet.lease / 20)
				}
				continue
			}
			if text := parts.add(m); text != nil {
				return text, nil
			}
			continue
		case <-again.C:
			if _, err := s.where(ctx); err != nil && !errors.Is(err, messages.ErrUnreachable) && ctx.Err() == nil {
				return nil, err
			}
			send()
			again.Reset(wait)
			wait = min(2*wait, repeatMost)
		case <-ended:
			ended = nil
			text, _ := json.Marshal(struct {
				Method string `json:"method"`
				Key    string `json:"key"`
			}{"cancel", key})
			_ = nc.Publish(callSubject(s.ID()), text)
			again.Stop()
			overdue = time.After(s.fleet.lease * 2 / 5) // for what the node says of it
		case <-overdue:
			return nil, s.silent(ctx)
		}
	}
}

// silent is the error of a cancelled call of which the node has said nothing.
func (s *Session) silent(ctx context.Context) error {
	return &messages.Error{Code: messages.ErrUnreachable, Op: "call session", Subject: string(s.ID()), Like: messages.LikeOf(ctx.Err()),
		Detail: fmt.Sprintf("the call was cancelled, and the machine %s has not said what became of it: it may have been done; look when the machine is back", s.Node())}
}

// parts puts an answer together that came in several messages.
type parts struct {
	got  int
	text []byte
}

func (p *parts) reset() { *p = parts{} }

// add takes a message, and returns the answer when it is complete. An answer may come twice, if it was asked for twice.
func (p *parts) add(m *nats.Msg) []byte {
	var part, of int
	if _, err := fmt.Sscanf(m.Header.Get(partHeader), "%d/%d", &part, &of); err != nil {
		return m.Data
	}
	if part != p.got+1 {
		p.reset()
	}
	if part != p.got+1 {
		return nil
	}
	p.got++
	p.text = append(p.text, m.Data...)
	if part < of {
		return nil
	}
	return p.text
}

// done makes a call without a result.
func done(ctx context.Context, s *Session, method string, params any) error {
	_, err := ask[struct{}](ctx, s, method, params)
	return err
}

// Exec runs a command and waits for its end or its yield time: see [execbus.Session.Exec].
func (s *Session) Exec(ctx context.Context, command messages.ExecCommand) (*messages.Result, error) {
	return ask[*messages.Result](ctx, s, "exec", command)
}

// Start starts a command and returns the name of its process when the program runs: see [execbus.Session.Start]. [Follow] gives its output
// and Wait its end.
func (s *Session) Start(ctx context.Context, command messages.ExecCommand) (messages.ProcessID, error) {
	return ask[messages.ProcessID](ctx, s, "start", command)
}

// Run runs a command to its end: see [execbus.Session.Run]. A full run is refused, because its result may be too large.
func (s *Session) Run(ctx context.Context, command messages.RunCommand) (*messages.RunResult, error) {
	return ask[*messages.RunResult](ctx, s, "run", command)
}

// Write sends input to a process: see [execbus.Session.Write].
func (s *Session) Write(ctx context.Context, input messages.WriteStdin) (*messages.Result, error) {
	return ask[*messages.Result](ctx, s, "write", input)
}

// Poll collects output: see [execbus.Session.Poll].
func (s *Session) Poll(ctx context.Context, poll messages.Poll) (*messages.Result, error) {
	return ask[*messages.Result](ctx, s, "poll", poll)
}

// Wait waits for reasons at processes: see [execbus.Session.Wait].
func (s *Session) Wait(ctx context.Context, wait messages.Wait) (messages.Wakeups, error) {
	return ask[messages.Wakeups](ctx, s, "wait", wait)
}

// Read reads remembered output on the node: see [execbus.Session.Read]. [Follow] reads it from the server, too.
func (s *Session) Read(ctx context.Context, read messages.ReadOutput) (*messages.OutputPage, error) {
	return ask[*messages.OutputPage](ctx, s, "read", read)
}

// ApplyPatch applies a patch on the node: see [execbus.Session.ApplyPatch].
func (s *Session) ApplyPatch(ctx context.Context, apply messages.ApplyPatch) (*messages.PatchResult, error) {
	return ask[*messages.PatchResult](ctx, s, "patch", apply)
}

// CloseStdin ends the input of a process.
func (s *Session) CloseStdin(ctx context.Context, closing messages.CloseStdin) error {
	return done(ctx, s, "closeStdin", closing)
}

// Resize changes the size of a process's terminal.
func (s *Session) Resize(ctx context.Context, resize messages.Resize) error {
	return done(ctx, s, "resize", resize)
}

// Signal sends a signal to a process.
func (s *Session) Signal(ctx context.Context, signal messages.Signal) error {
	return done(ctx, s, "signal", signal)
}

// Terminate ends a process with its tree: see [execbus.Session.Terminate].
func (s *Session) Terminate(ctx context.Context, terminate messages.Terminate) (*messages.EndRecord, error) {
	return ask[*messages.EndRecord](ctx, s, "terminate", terminate)
}

// TerminateAll ends all processes that the session has now.
func (s *Session) TerminateAll(ctx context.Context) error {
	return done(ctx, s, "terminateAll", struct{}{})
}

// EndOwner ends everything that belongs to an owner.
func (s *Session) EndOwner(ctx context.Context, owner string) error {
	return done(ctx, s, "endOwner", owner)
}

// List describes the processes that have not ended.
func (s *Session) List(ctx context.Context) (messages.Processes, error) {
	return ask[messages.Processes](ctx, s, "list", struct{}{})
}

// Records describes the processes of List and the ended ones that are remembered.
func (s *Session) Records(ctx context.Context) (messages.Processes, error) {
	return ask[messages.Processes](ctx, s, "records", struct{}{})
}

// UpdateEnvironment changes directory, environment, policies and limits for later commands. What the node has set stays.
func (s *Session) UpdateEnvironment(ctx context.Context, update messages.UpdateEnvironment) error {
	return done(ctx, s, "update", update)
}

// PauseYields stops the deadlines of the session's waiting calls until ResumeYields.
func (s *Session) PauseYields(ctx context.Context) error {
	return done(ctx, s, "pauseYields", struct{}{})
}

// ResumeYields undoes one PauseYields.
func (s *Session) ResumeYields(ctx context.Context) error {
	return done(ctx, s, "resumeYields", struct{}{})
}

// Questions lists the questions of the session without an answer. [Questions] has those of the fleet.
func (s *Session) Questions(ctx context.Context) (messages.Questions, error) {
	return ask[messages.Questions](ctx, s, "questions", struct{}{})
}

// Decide answers a question. The first answer counts; a later one gets messages.ErrAlreadyResolved.
func (s *Session) Decide(ctx context.Context, decide messages.Decide) error {
	return done(ctx, s, "decide", decide)
}

// Grants lists the approvals that hold for the session.
func (s *Session) Grants(ctx context.Context) (messages.Grants, error) {
	return ask[messages.Grants](ctx, s, "grants", struct{}{})
}

// Revoke forgets a grant.
func (s *Session) Revoke(ctx context.Context, revoke messages.RevokeGrant) error {
	return done(ctx, s, "revoke", revoke)
}

// Close ends every process of the session and then the session. One that has ended already is no error.
func (s *Session) Close(ctx context.Context) error {
	err := done(ctx, s, "close", struct{}{})
	if errors.Is(err, messages.ErrClosed) {
		return nil
	}
	return err
}
