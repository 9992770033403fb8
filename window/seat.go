package window

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

const (
	// maxSeats bounds the pages whose last action is remembered. The one that has been left for longest makes room.
	maxSeats = 4096
	// absence is how long a page may be without a connection before what it holds is given back.
	absence = 10 * time.Second
	// actTime bounds one action. An end takes as long as the grace of a process.
	actTime = time.Minute
)

type seatKey struct {
	person secret
	name   string
}

// seat is a page of one person, over all its connections: it has the keyboards that the person has taken there.
type seat struct {
	reader bool // it can do nothing, and there is nothing to remember about it

	connected int         // under the window's lock, and so are the next two
	left      time.Time   // when the last connection ended
	leaving   *time.Timer // gives everything back

	// The lock is held while an action is carried out: a page may have a new connection while an action of the old one goes on.
	mu        sync.Mutex
	done      int      // the number of the last action
	keyboards sync.Map // key → *messages.Keyboard; also read by those who draw the page, who must not wait for an action
}

// sit is the seat of a page that has a connection. Viewers have nothing to come back to, and take no seat from others.
func (w *Window) sit(k seatKey, reader bool) *seat {
	if reader {
		return &seat{reader: true}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seats[k]
	if s == nil {
		w.trimSeats()
		s = &seat{}
		w.seats[k] = s
	}
	if s.connected++; s.leaving != nil {
		s.leaving.Stop()
	}
	if rt := w.runtime(); w.listening == nil && rt != nil && w.ctx.Err() == nil {
		w.listen(rt)
	}
	return s
}

// trimSeats makes room for one more. It is called with the lock.
func (w *Window) trimSeats() {
	if len(w.seats) < maxSeats {
		return
	}
	var oldest seatKey
	var since time.Time
	for k, s := range w.seats {
		if s.connected == 0 && (since.IsZero() || s.left.Before(since)) {
			oldest, since = k, s.left
		}
	}
	delete(w.seats, oldest) // what it holds is given back by its timer
}

// rise notes that a connection of a page has ended.
func (w *Window) rise(s *seat) {
	if s.reader {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.left = time.Now()
	if s.connected--; s.connected == 0 && w.ctx.Err() == nil {
		s.leaving = time.AfterFunc(absence, func() { s.leave(w) })
	}
}

// leave gives back what a page without a connection holds.
func (s *seat) leave(w *Window) {
	w.mu.Lock()
	if s.connected > 0 && w.ctx.Err() == nil { // it has come back
		w.mu.Unlock()
		return
	}
	if w.listening != nil && !w.attended() {
		w.listening()
		w.listening = nil
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), actTime)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.keyboards.Range {
		_ = s.giveBack(ctx, w, k.(key)) // one that cannot be given back is not held any more
	}
}

// attended reports whether somebody who may answer looks, or has only just lost the connection. It is called with the lock.
func (w *Window) attended() bool {
	for _, s := range w.seats {
		if s.connected > 0 || time.Since(s.left) < absence {
			return true
		}
	}
	return false
}

// listen makes questions be put that would otherwise be rejected, because nobody could answer. It is called with the lock.
func (w *Window) listen(rt *execbus.Runtime) {
	ctx, stop := context.WithCancel(w.ctx)
	watch := execbus.Watch{Name: "window questions", Kinds: []messages.EventKind{messages.KindApprovalRequested}}
	events, err := rt.Events(watch)
	if err != nil {
		stop()
		return // the runtime has ended
	}
	w.listening = stop
	w.work.Go(func() {
		for err == nil {
			for _, err = range events.All(ctx) {
				if err != nil {
					break
				}
				w.sampler.poke()
			}
			events.Close()
			if !errors.Is(err, messages.ErrSlowSubscriber) {
				return
			}
			events, err = rt.Events(watch)
		}
	})
}

// keyboard is what this page shows to type into a process; nil if it has not taken its keyboard. Another may have taken it over since.
func (s *seat) keyboard(k key) *messages.Keyboard {
	held, _ := s.keyboards.Load(k)
	keyboard, _ := held.(*messages.Keyboard)
	return keyboard
}

// action is what a page asks for. Actions of a page are numbered, so that one which is sent again after a lost connection is done once.
type action struct {
	N        int                   `json:"n"`
	Do       string                `json:"do"`
	Text     string                `json:"text"`
	Session  messages.SessionID    `json:"session"`
	Question messages.QuestionID   `json:"question"`
	Kind     messages.DecisionKind `json:"kind"`
	Grant    messages.GrantID      `json:"grant"`
	Signal   string                `json:"signal"`
	Size     messages.Size         `json:"size"`
}

// signals are those that a person may send from a page.
var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
	"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "KILL": syscall.SIGKILL}

func refuse(what, detail string) error {
	return &messages.Error{Code: messages.ErrRejected, Op: what, Detail: detail}
}

// act carries out an action, unless it has been carried out before. It goes on when the connection is lost: its page sends it again, and must
// not be told that it is done when it was cancelled.
func (s *seat) act(w *Window, page hello, a action) error {
	if s.reader {
		return refuse("act", "this link is for viewers, who can look and nothing else; ask for another link")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.ctx.Err() != nil { // what is taken now would never be given back
		return refuse("act", "this window has been closed")
	}
	if a.N <= s.done {
		return nil
	}
	ctx, cancel := w.during(a)
	defer cancel()
	s.done = a.N
	defer w.sampler.poke()
	if a.Do == "decide" || a.Do == "revoke" {
		found, err := w.session(a.Session)
		if err != nil {
			return err
		}
		session := own(found)
		if session == nil {
			return refuse(a.Do, "nobody is asked here")
		}
		if a.Do == "revoke" {
			return session.Revoke(ctx, messages.RevokeGrant{Grant: a.Grant})
		}
		return decide(ctx, session, a)
	}
	session, err := w.session(page.Session)
	if err != nil {
		return err
	}
	return s.control(ctx, w, session, key{page.Session, page.Process}, a)
}

// during is the time of an action. One that is under way when the window is closed is finished, so that what it takes is known and given back;
// but not an end, which may take long, and goes on without us.
func (w *Window) during(a action) (context.Context, context.CancelFunc) {
	ctx := context.Background()
	if a.Do == "terminate" {
		ctx = w.ctx
	}
	return context.WithTimeout(ctx, actTime)
}

// decide answers a question with one of its own choices.
func decide(ctx context.Context, session *execbus.Session, a action) error {
	questions, err := session.Questions(ctx)
	if err != nil {
		return err
	}
	for _, q := range questions {
		offered := slices.ContainsFunc(q.Choices, func(c messages.Choice) bool { return c.Kind == a.Kind })
		if q.ID == a.Question && !offered {
			return refuse("answer", "that is not one of the choices; use one of the buttons")
		}
	}
	decision := messages.Decision{Kind: a.Kind}
	if a.Kind == messages.DecisionDenied {
		decision.Rejection = a.Text
	}
	return session.Decide(ctx, messages.Decide{Question: a.Question, Decision: decision})
}

// control does something to the process of the page.
func (s *seat) control(ctx context.Context, w *Window, found Session, k key, a action) error {
	switch a.Do { // what can be done to a process of any source
	case "signal":
		sig, known := signals[a.Signal]
		if !known {
			return refuse("signal", "there is no such signal here; use one of the buttons")
		}
		return found.Signal(ctx, messages.Signal{Process: k.Process, Signal: sig})
	case "terminate":
		_, err := found.Terminate(ctx, messages.Terminate{Process: k.Process, By: messages.TerminatedByUser})
		return err
	}
	session := own(found)
	if session == nil {
		return refuse(a.Do, "the input of this process is its client's")
	}
	held := s.keyboard(k)
	var mine messages.KeyboardID
	if held != nil {
		mine = held.ID
	}
	needed := func() error {
		if held == nil {
			return refuse(a.Do, "take the keyboard first")
		}
		return nil
	}
	var err error
	switch a.Do {
	case "take":
		taken, err := session.TakeKeyboard(ctx, messages.TakeKeyboard{Process: k.Process, Holder: "a person at the window"})
		if err != nil {
			return err
		}
		s.keyboards.Store(k, taken)
		return nil
	case "return":
		return s.giveBack(ctx, w, k)
	case "type":
		if err = needed(); err == nil {
			_, err = session.Write(ctx, messages.WriteStdin{Process: k.Process, Bytes: []byte(a.Text), NoWait: true, Keyboard: mine})
		}
	case "resize":
		if err = needed(); err == nil {
			size := messages.Size{Rows: min(max(a.Size.Rows, 5), 200), Cols: min(max(a.Size.Cols, 20), 500)}
			err = session.Resize(ctx, messages.Resize{Process: k.Process, Size: size, Keyboard: mine})
		}
	case "eof":
		err = session.CloseStdin(ctx, messages.CloseStdin{Process: k.Process, Keyboard: mine})
	default:
		return refuse("act", "this page does not fit the program that serves it; load it again")
	}
	if held != nil && gone(err) {
		s.keyboards.Delete(k)
	}
	return err
}

// giveBack returns a keyboard. It is called with the seat's lock.
func (s *seat) giveBack(ctx context.Context, w *Window, k key) error {
	held := s.keyboard(k)
	s.keyboards.Delete(k)
	session, err := w.session(k.Session)
	if held == nil || err != nil {
		return nil
	}
	if err := own(session).ReturnKeyboard(ctx, messages.ReturnKeyboard{Process: k.Process, Keyboard: held.ID}); !gone(err) {
		return err
	}
	return nil
}

// gone reports whether an error says that a keyboard is another's, or nobody's.
func gone(err error) bool {
	e, is := errors.AsType[*messages.Error](err)
	return is && (e.Code == messages.ErrKeyboardTaken || e.Code == messages.ErrWrongState || e.Code == messages.ErrUnknownProcess || e.Code == messages.ErrProcessEnded)
}
