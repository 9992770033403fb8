package execserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// connection is one client while it is connected.
type connection struct {
	server   *Server
	wire     wire.Conn
	ctx      context.Context // ends with the connection
	stop     context.CancelFunc
	over     chan struct{}  // closed when none of its goroutines runs
	running  sync.WaitGroup // its goroutines
	writing  chan struct{}  // holds one entry during a write
	buffer   []byte         // for the message that is written
	requests chan struct{}  // holds one entry for each request that waits, or whose answer waits to be sent; the goroutine that reads adds them
	held     atomic.Int64   // bytes of the parameters of these
	large    chan struct{}  // holds one entry for each of these whose answer is large

	// These belong to the goroutine that reads. It also begins the requests that wait.
	session     *session // nil before "initialize"
	initialized bool
	handshake   *time.Timer

	// mu guards the processes that have something to send, which are marked in calls that must not block, and the operations on files.
	mu         sync.Mutex
	marked     map[*process]bool
	work       chan struct{} // has room for one entry: some are marked
	operations []*operation  // in the order of their requests
}

// errProtocol ends a connection whose client breaks the protocol.
var errProtocol = errors.New("the client does not keep to the protocol")

// serve serves one client until it is gone or ctx ends. If the connection is the only one that its client can have, the client's
// session ends with it.
func (s *Server) serve(ctx context.Context, conn wire.Conn, only bool) error {
	if !s.enter() {
		_ = conn.Close()
		return errServerClosed
	}
	defer s.running.Done()
	c := &connection{server: s, wire: conn, over: make(chan struct{}), writing: make(chan struct{}, 1),
		requests: make(chan struct{}, s.options.MaxRequests), large: make(chan struct{}, maxLarge), marked: map[*process]bool{}, work: make(chan struct{}, 1)}
	defer close(c.over)
	c.ctx, c.stop = context.WithCancel(s.ctx)
	defer context.AfterFunc(ctx, c.stop)()
	c.handshake = time.AfterFunc(s.options.patience.handshake, func() {
		if !only { // a person may be typing
			_ = conn.Close()
		}
	})
	c.running.Go(c.send)
	c.running.Go(c.ping)
	err := c.read()
	c.handshake.Stop()
	c.stop()
	_ = conn.Close()
	c.running.Wait()
	switch {
	case c.session == nil:
	case only:
		c.session.end()
	default:
		c.session.detach(c)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil { // a client that has stopped reading is gone, too
		return nil
	}
	s.options.Logger.Debug("an exec-server connection ended", "error", err)
	return err
}

// read reads messages until the connection ends.
func (c *connection) read() error {
	for {
		text, err := c.wire.Read(c.ctx)
		if err != nil {
			return err
		}
		message, err := wire.Parse(text)
		switch {
		case err != nil:
			c.answer(wire.MalformedID(), nil, wire.Refuse(wire.InvalidRequest, "the message is malformed: %s", err), nil)
		case message.Kind == wire.Request:
			c.request(message)
		case message.Kind == wire.Notification:
			if err := c.notified(message); err != nil {
				return err
			}
		default:
			return errProtocol // a response, and the server has asked nothing
		}
	}
}

// notified handles a notification.
func (c *connection) notified(message wire.Message) error {
	switch {
	case message.Method == wire.Initialized && c.session != nil:
		c.initialized = true
		return nil
	case message.Method == wire.ProcessAcknowledge && c.initialized:
		var params wire.SeqParams
		if wire.DecodeParams(message.Params, &params) != nil {
			return errProtocol
		}
		if p := c.session.find(params.ProcessID); p != nil {
			p.acknowledge(params.Seq)
		}
		return nil
	}
	return errProtocol
}

// request begins a request, and answers it if it need not wait. A request that waits counts until its answer is being sent, so that
// a client that does not read its answers is refused more.
func (c *connection) request(message wire.Message) {
	result, later, err := c.begin(message)
	if later == nil {
		c.answer(message.ID, result, err, nil)
		return
	}
	c.requests <- struct{}{} // there is room, or the method would have refused
	size := int64(len(message.Params))
	c.held.Add(size)
	c.running.Go(func() {
		result, err := later(c.ctx)
		c.answer(message.ID, result, err, func() {
			<-c.requests
			c.held.Add(-size)
		})
	})
}

// maxHeld bounds the parameters of the requests of a connection that wait, in bytes. A single request may have more.
const maxHeld = 2 * wire.MaxMessage

// room returns an error unless one more request, with these parameters, can wait.
func (c *connection) room(params json.RawMessage) error {
	switch held := c.held.Load(); {
	case len(c.requests) == cap(c.requests):
		return wire.Refuse(wire.Internal, "%d requests are unanswered, which is the limit; wait for an answer", cap(c.requests))
	case held > 0 && held+int64(len(params)) > maxHeld:
		return wire.Refuse(wire.Internal, "requests with %d bytes are unanswered, and the limit is %d; wait for an answer", held, maxHeld)
	}
	return nil
}

func (c *connection) begin(message wire.Message) (result any, later later, err error) {
	begin, known := methods[message.Method]
	family, _, _ := strings.Cut(message.Method, "/")
	switch {
	case message.Method == wire.Initialize:
		later, err = c.initialize(message.Params)
		return nil, later, err
	case !known:
		return nil, nil, wire.Refuse(wire.UnknownMethod, "the method %.80q is not known", message.Method)
	case c.session == nil:
		return nil, nil, wire.Refuse(wire.InvalidRequest, "the client must call initialize before it uses %s methods", families[family])
	case !c.initialized:
		return nil, nil, wire.Refuse(wire.InvalidRequest, "the client must send initialized before it uses %s methods", families[family])
	}
	return begin(c, message.Params)
}

// maxClientName bounds what is kept of a client's name, in bytes.
const maxClientName = 64

// initialize opens or resumes a session.
func (c *connection) initialize(raw json.RawMessage) (later, error) {
	if c.session != nil {
		return nil, wire.Refuse(wire.InvalidRequest, "initialize may only be sent once on a connection")
	}
	var params wire.InitializeParams
	err := wire.DecodeParams(raw, &params)
	if err != nil {
		return nil, err
	}
	if params.ResumeSessionID != nil {
		c.session, err = c.server.resume(c, *params.ResumeSessionID)
	} else {
		c.session, err = c.server.open(c, strings.ToValidUTF8(params.ClientName[:min(len(params.ClientName), maxClientName)], ""), supported(params.Extensions))
	}
	if err != nil {
		return nil, err
	}
	c.handshake.Stop()
	result := wire.InitializeResult{SessionID: c.session.id, Extensions: c.session.extensions}
	return func(ctx context.Context) (any, error) {
		if len(result.Extensions) == 0 {
			result.EnvironmentInfo, _ = c.server.info(ctx) // a client that gets none asks
		}
		return result, nil
	}, nil
}

// supported returns those of the wanted extensions that the server has.
func supported(wanted []wire.Extension) (found []wire.Extension) {
	for _, extension := range []wire.Extension{wire.ExtensionFlow, wire.ExtensionEnds, wire.ExtensionRaw, wire.ExtensionPatches, wire.ExtensionLooks, wire.ExtensionCursor} {
		if slices.Contains(wanted, extension) {
			found = append(found, extension)
		}
	}
	return found
}

// answer sends the response to a request, and calls sending when its turn comes, if it is not nil. If the result is a function, it is
// called then, too, so that answers that wait for a slow client hold no memory.
func (c *connection) answer(id wire.ID, result any, err error, sending func()) {
	_ = c.write(func(to []byte) []byte {
		if sending != nil {
			sending()
		}
		if made, is := result.(func() any); is && err == nil {
			result = made()
		}
		if err == nil {
			var text []byte
			if text, err = wire.AppendResult(to, id, result); err == nil {
				return text
			}
		}
		return wire.AppendFailure(to, id, faultOf(err))
	})
	if then, is := result.(interface{ answered() }); is {
		then.answered()
	}
}

// faultOf converts an error to the wire's form.
func faultOf(err error) *wire.Fault {
	if fault, is := errors.AsType[*wire.Fault](err); is {
		return fault
	}
	fault := &wire.Fault{Code: wire.Internal, Message: err.Error()}
	typed, is := errors.AsType[*messages.Error](err)
	if !is {
		return fault
	}
	fault.Data, _ = json.Marshal(typed)
	switch typed.Code {
	case messages.ErrInvalidRequest, messages.ErrUnsupported:
		fault.Code = wire.InvalidParams
	case messages.ErrNotATerminal, messages.ErrClosed:
		fault.Code = wire.InvalidRequest
	}
	return fault
}

// burst is how many notifications of one process are sent before those of the next.
const burst = 16

// keptBuffer is the largest buffer that is kept for the next message.
const keptBuffer = 256 << 10

// write sends one message, which is made only when it can be sent. A client that does not read it in time is disconnected.
func (c *connection) write(make func(to []byte) []byte) error {
	select {
	case c.writing <- struct{}{}:
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
	defer func() { <-c.writing }()
	ctx, cancel := context.WithTimeout(c.ctx, c.server.options.patience.stall)
	defer cancel()
	message := make(c.buffer[:0])
	if cap(message) <= keptBuffer {
		c.buffer = message
	}
	err := c.wire.Write(ctx, message)
	if err != nil {
		c.stop()
	}
	return err
}

// mark notes that a process has something to send.
func (c *connection) mark(p *process) {
	c.mu.Lock()
	c.marked[p] = true
	c.mu.Unlock()
	select {
	case c.work <- struct{}{}:
	default: // the sender is already to be woken
	}
}

// marks returns the processes that have something to send.
func (c *connection) marks() map[*process]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	marked := c.marked
	c.marked = map[*process]bool{}
	return marked
}

// send sends the notifications. Those of one process keep their order.
func (c *connection) send() {
	for {
		select {
		case <-c.work:
		case <-c.ctx.Done():
			return
		}
		for p := range c.marks() {
			if c.sendSome(p) != nil {
				return
			}
		}
	}
}

// sendSome sends notifications of one process. If there may be more than a burst, the rest waits until the others have sent theirs.
func (c *connection) sendSome(p *process) error {
	for range burst {
		next, found := p.take(c)
		if !found {
			return nil
		}
		if err := c.sendOne(p, next); err != nil {
			return err
		}
	}
	c.mark(p)
	return nil
}

func (c *connection) sendOne(p *process, next entry) error {
	if next.method != "" {
		return c.notify(next.method, next.params)
	}
	if p.session.has(wire.ExtensionRaw) && c.wire.Binary() {
		return c.write(func(to []byte) []byte { return wire.AppendRawOutput(to, p.id, next.seq, next.stream, next.bytes) })
	}
	return c.write(func(to []byte) []byte { return wire.AppendOutput(to, p.id, next.seq, next.stream, next.bytes) })
}

func (c *connection) notify(method string, params any) error {
	text, err := wire.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	return c.write(func(to []byte) []byte { return append(to, text...) })
}

// ping ends the connection if the client does not answer pings.
func (c *connection) ping() {
	every := time.NewTicker(c.server.options.patience.ping)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-c.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.server.options.patience.pong)
		err := c.wire.Ping(ctx)
		cancel()
		if err != nil {
			c.stop()
			return
		}
	}
}
