package window

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/execbus/execbus/internal/connections"
	"github.com/execbus/execbus/messages"
)

// Bounds of connections.
const (
	maxSockets  = 1024
	maxViewing  = maxSockets - 128 // of which viewers may have so many, so that they keep out nobody who may act
	maxFrame    = 64 << 10         // bytes of one message from a browser
	sendTime    = 10 * time.Second
	helloTime   = 10 * time.Second
	pingPause   = 30 * time.Second       // between two questions whether a browser is still there
	maxAnswers  = 16                     // that wait to be sent; a browser that reads none gets to do nothing more
	overlooking = 250 * time.Millisecond // the least between two states of an overview for one browser
)

// hello is the first message of a page.
type hello struct {
	Seat    string             `json:"seat"` // a random name that the page has given itself, and keeps over connections
	Session messages.SessionID `json:"session"`
	Process messages.ProcessID `json:"process"` // zero: the overview
	Query   string             `json:"query"`
}

// live serves the connection of one page until it ends.
func (w *Window) live(response http.ResponseWriter, r *http.Request, who secret, p person) {
	if !ours(r) {
		http.Error(response, "only the window's own pages may connect", http.StatusForbidden)
		return
	}
	if !w.enter(p.reader) {
		http.Error(response, "too many pages look at this window", http.StatusServiceUnavailable)
		return
	}
	defer w.exit()
	connections.Admit(r.Context())
	socket, err := websocket.Accept(response, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // it has answered
	}
	defer func() { _ = socket.CloseNow() }()
	socket.SetReadLimit(maxFrame)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	greeting, greeted := context.WithTimeout(ctx, helloTime)
	var h hello
	err = receive(greeting, socket, &h)
	greeted()
	if err != nil || len(h.Seat) == 0 || len(h.Seat) > 64 {
		if ctx.Err() == nil { // the window has time for this
			_ = socket.Close(websocket.StatusPolicyViolation, "the first message is not that of a page")
		}
		return
	}
	c := &connection{w: w, socket: socket, hello: h, reader: p.reader, answers: make(chan any, maxAnswers)}
	c.seat = w.sit(seatKey{who, h.Seat}, p.reader)
	defer w.rise(c.seat)
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		defer cancel()
		c.receive(ctx)
	}()
	w.work.Go(func() {
		defer cancel()
		ping(ctx, socket, w.pings, w.pongs)
	})
	_ = c.send(ctx) // it ends because the page has gone, or reads nothing
	cancel()
	_ = socket.CloseNow()
	<-reading
}

// ping returns when a browser does not answer: nothing else tells of a telephone that has lost its network while nothing is sent.
func ping(ctx context.Context, socket *websocket.Conn, pause, patience time.Duration) {
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		asked, over := context.WithTimeout(ctx, patience)
		err := socket.Ping(asked)
		over()
		if err != nil {
			return
		}
	}
}

func (w *Window) enter(reader bool) bool {
	most := maxSockets
	if reader {
		most = maxViewing
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sockets >= most || w.ctx.Err() != nil {
		return false
	}
	w.sockets++
	w.work.Add(1)
	return true
}

func (w *Window) exit() {
	w.mu.Lock()
	w.sockets--
	w.mu.Unlock()
	w.work.Done()
}

func receive(ctx context.Context, socket *websocket.Conn, into any) error {
	_, text, err := socket.Read(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// connection is one page that is open in a browser.
type connection struct {
	w       *Window
	socket  *websocket.Conn
	hello   hello
	reader  bool
	seat    *seat
	answers chan any
}

// answer is sent for each action.
type answer struct {
	Done  int    `json:"done"`
	Error string `json:"error,omitempty"`
}

// receive carries out what the page asks for, one after the other.
func (c *connection) receive(ctx context.Context) {
	for {
		var a action
		if err := receive(ctx, c.socket, &a); err != nil {
			return
		}
		reply := answer{Done: a.N}
		if err := c.seat.act(c.w, c.hello, a); err != nil {
			reply.Error = err.Error()
		}
		select {
		case c.answers <- reply:
		case <-ctx.Done():
			return
		}
	}
}

// send keeps the page as it should be. One that is slow gets fewer states, and each is complete.
func (c *connection) send(ctx context.Context) error {
	c.w.sampler.join()
	defer c.w.sampler.leave()
	var screen *feed
	if c.hello.Process != 0 {
		s, err := c.w.session(c.hello.Session)
		k := key{c.hello.Session, c.hello.Process}
		info, err2 := c.w.describe(ctx, k)
		if err = errors.Join(err, err2); err != nil {
			return c.write(ctx, answer{Error: err.Error()})
		}
		screen = c.w.watch(k, s, info.Size)
		defer c.w.unwatch(screen)
	}
	var sent blocks
	var shown *picture
	var drawn <-chan struct{}
	var latest *look
	var looked <-chan struct{}
	var next <-chan time.Time // when another state of the overview may be sent
	for {
		if screen != nil {
			var p *picture
			if p, drawn = screen.now(); p != shown && len(p.rows) > 0 {
				if err := c.write(ctx, p.message(shown)); err != nil {
					return err
				}
				shown = p
			}
		}
		if next == nil {
			var l *look
			if l, looked = c.w.sampler.now(); l != latest {
				latest = l
				if screen != nil && screen.own == nil { // nothing else tells of its size
					l.resize(screen)
				}
				b := c.state(l)
				if change := b.difference(sent); change != nil {
					if err := c.write(ctx, map[string]any{"blocks": change}); err != nil {
						return err
					}
				}
				sent, next = b, time.After(overlooking)
			}
		}
		select {
		case a := <-c.answers:
			if err := c.write(ctx, a); err != nil {
				return err
			}
		case <-drawn:
		case <-looked:
			looked = nil
		case <-next:
			next = nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// state is what the page has to show. Pages that show the same share it.
func (c *connection) state(l *look) blocks {
	k := key{c.hello.Session, c.hello.Process}
	var since time.Time
	if held := c.seat.keyboard(k); held != nil {
		since = held.Since
	}
	return l.shared(sight{k, c.hello.Query, since.UnixNano(), c.reader}, func() blocks {
		if k.Process == 0 {
			return c.w.overview(l, k.Session, c.hello.Query, c.reader)
		}
		return c.w.facts(l, k, since, c.reader)
	})
}

// write sends a message: JSON, or what becomes it.
func (c *connection) write(ctx context.Context, message any) (err error) {
	text, made := message.([]byte)
	if !made {
		if text, err = json.Marshal(message); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return c.socket.Write(ctx, websocket.MessageText, text)
}
