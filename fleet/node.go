package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Node is a machine of a fleet, as the program on it describes it.
type Node struct {
	// ID names the machine in its fleet: 1 to 64 letters, digits, hyphens and underscores.
	ID     string
	Labels map[string]string
	// Slots is how many sessions it takes at once; zero means DefaultSlots.
	Slots int
	// Memory is how many bytes its sessions may reserve together; zero means that it does not count them.
	Memory int64
	// Sandbox, if not nil, replaces the policy of every session, and Limits are added to those of every session. No client can change
	// either. An answer to a question could lift a sandbox, so sessions of a node whose Sandbox confines have the approval policy never:
	// what would need an answer is refused. Only the runtime's own rules go beyond the sandbox.
	Sandbox *messages.SandboxPolicy
	Limits  messages.Limits
	// LostAfter is how long another node may be without a heartbeat before this one gives it up; zero means DefaultLostAfter. It is at
	// least twice the lease.
	LostAfter time.Duration
	// Retain is how long the books say what became of a session that has ended; zero means DefaultRetention.
	Retain time.Duration
	// Ready, if not nil, is called once, when the node can be given sessions.
	Ready func()
}

// Defaults of Node.
const (
	DefaultSlots     = 256
	DefaultLostAfter = 60 * time.Second
)

// openings bounds the requests for sessions that a node works on at once. What comes beyond it is asked again by its client.
const openings = 64

// farewell is how long a node that ends waits for the server to store what its sessions said last.
const farewell = 5 * time.Second

// nodeName is what names of nodes, and of sessions, look like.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// node is a node at work. Only the goroutine of Serve touches its fields after it has started; others send to its channels.
type node struct {
	*fleet
	Node
	rt       *execbus.Runtime
	instance string
	levels   []messages.Assurance

	revision uint64 // of its entry among the nodes
	leased   time.Time
	lease    context.Context // ends when the lease does
	expire   context.CancelFunc

	held     map[messages.SessionID]*held // nil while it is being opened
	reserved map[messages.SessionID]int64
	drained  bool

	requests chan *nats.Msg
	opened   chan opened
	over     chan messages.SessionID
	beaten   chan beaten

	superseded chan messages.SessionID // that were given up, as the monitor has read
}

// opened reports that a session was opened, or was not.
type opened struct {
	session messages.SessionID
	held    *held           // nil: it was not
	lease   context.Context // of the node when it was asked
}

// beaten reports the outcome of a heartbeat.
type beaten struct {
	at       time.Time // when it was sent
	revision uint64
	err      error
}

// errReplaced says that another program serves the node.
var errReplaced = errors.New("replaced")

// errSuperseded says that the books give what a node has to nobody, or to another.
var errSuperseded = errors.New("superseded")

// Serve makes this machine a node of the fleet and returns when ctx has ended, or when the node was drained and its last session has
// ended. Then its sessions and all their processes have ended, too. The runtime stays the caller's. The connection must have been made
// by Connect.
//
// One Serve at a time may have an ID: a second one waits for the lease of the first and is refused if that is renewed. It gives up the
// sessions of an earlier one that was killed: their processes get an end with the cause node_lost.
func Serve(ctx context.Context, nc *nats.Conn, rt *execbus.Runtime, config Node) error {
	if !nodeName.MatchString(config.ID) {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "serve", Subject: "node", Detail: fmt.Sprintf("%.70q is no name of a node; use 1 to 64 letters, digits, hyphens and underscores", config.ID)}
	}
	if nc.Opts.ReconnectBufSize >= 0 {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "serve", Subject: config.ID,
			Detail: "the connection keeps messages while it is cut, and sends them when another node may have been given its work; turn that off",
			Hint:   "make it with fleet.Connect, or with nats.ReconnectBufSize(-1)"}
	}
	f, err := join(ctx, nc)
	if err != nil {
		return err
	}
	n := &node{fleet: f, Node: config, rt: rt, instance: nuid.Next(), held: map[messages.SessionID]*held{}, reserved: map[messages.SessionID]int64{},
		requests: make(chan *nats.Msg, openings), opened: make(chan opened), over: make(chan messages.SessionID), beaten: make(chan beaten, 1),
		superseded: make(chan messages.SessionID)}
	n.Slots, n.LostAfter, n.Retain = or(n.Slots, DefaultSlots), max(or(n.LostAfter, DefaultLostAfter), 2*f.lease), or(n.Retain, DefaultRetention)
	if n.levels, err = levels(ctx, rt); err != nil {
		return err
	}
	// A client that finds the node in the books must reach it, so the server learns of the subscription first.
	calls, err := n.nc.ChanSubscribe(nodeSubject(n.ID), n.requests)
	if err != nil {
		return failed("serve", err)
	}
	defer func() { _ = calls.Unsubscribe() }()
	if err := n.nc.FlushTimeout(storeTime); err != nil {
		return failed("serve", err)
	}
	if err := n.enlist(ctx); err != nil {
		return err
	}
	if err := f.giveUp(ctx, n.ID, n.instance, "the program that served the node ended; its commands were ended with it"); err != nil {
		return err
	}
	return n.serve(ctx)
}

// levels asks the machine what it can enforce.
func levels(ctx context.Context, rt *execbus.Runtime) ([]messages.Assurance, error) {
	enforced, err := rt.Enforcement(ctx, execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly}, LeastAssurance: messages.AssuranceNone})
	if ctx.Err() != nil {
		return nil, err
	}
	found := []messages.Assurance{messages.AssuranceNone}
	for _, level := range []messages.Assurance{messages.AssuranceConfined, messages.AssuranceIsolated} {
		if err == nil && enforced.Level.AtLeast(level) {
			found = append(found, level)
		}
	}
	return found, nil
}

// enlist makes the node's entry. Another program that serves the node keeps its own alive.
func (n *node) enlist(ctx context.Context) error {
	until := time.Now().Add(n.fleet.lease + n.fleet.lease/2)
	for {
		b := n.announce(ctx, n.info(), 0)
		switch {
		case b.err == nil:
			n.revision, n.leased = b.revision, b.at
			return nil
		case !errors.Is(b.err, errReplaced):
			return failed("serve", b.err)
		case time.Now().After(until):
			return n.replaced()
		}
		select {
		case <-time.After(n.fleet.lease / 5):
		case <-ctx.Done():
			return failed("serve", ctx.Err())
		}
	}
}

func (n *node) replaced() error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "serve", Subject: n.ID, Detail: "another program serves a node of this name; stop it, or use another name"}
}

func (n *node) info() NodeInfo {
	info := NodeInfo{ID: n.ID, Instance: n.instance, Labels: n.Labels, Slots: n.Slots, Sessions: len(n.held), Memory: n.Memory, Levels: n.levels, Draining: n.drained}
	for _, bytes := range n.reserved {
		info.Reserved += bytes
	}
	return info
}

// announce writes the node's entry: it is the heartbeat. A revision of zero makes a new one.
func (n *node) announce(ctx context.Context, info NodeInfo, revision uint64) (b beaten) {
	ctx, cancel := context.WithTimeout(ctx, n.fleet.lease/2)
	defer cancel()
	b.at = time.Now()
	text, err := json.Marshal(info)
	if err != nil {
		return beaten{err: err}
	}
	for {
		if revision == 0 {
			b.revision, b.err = n.nodes.Create(ctx, n.ID, text)
		} else {
			b.revision, b.err = n.nodes.Update(ctx, n.ID, text, revision)
		}
		if !conflict(b.err) {
			return b
		}
		entry, err := n.nodes.Get(ctx, n.ID)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound): // it ran out
			revision = 0
			continue
		case err != nil:
			return beaten{err: err}
		}
		info, err := nodeOf(entry)
		if err != nil || info.Instance != n.instance {
			return beaten{err: errReplaced}
		}
		revision = entry.Revision() // the answer to an earlier heartbeat was lost
	}
}

func (n *node) serve(ctx context.Context) error {
	n.lease, n.expire = context.WithCancel(context.Background())
	monitor, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); n.monitor(monitor) }()
	defer func() { stop(); <-watched; n.expire() }()
	defer n.leave(ctx)
	if n.Ready != nil {
		n.Ready()
	}
	beat := time.NewTimer(rand.N(n.fleet.lease / 5)) // nodes that were started at the same moment send theirs at different ones
	defer beat.Stop()
	beating := false
	for {
		select {
		case m := <-n.requests:
			n.receive(ctx, m)
		case o := <-n.opened:
			n.settle(o)
		case id := <-n.over:
			n.forget(id)
		case id := <-n.superseded:
			n.verify(n.held[id])
		case <-beat.C:
			beat.Reset(n.fleet.lease / 5)
			if n.expired() {
				n.expire()
			}
			if !beating {
				beating = true
				go func(info NodeInfo, revision uint64) { n.beaten <- n.announce(ctx, info, revision) }(n.info(), n.revision)
			}
		case b := <-n.beaten:
			beating = false
			if errors.Is(b.err, errReplaced) { // and has given up what this one had
				n.abandon()
				return n.replaced()
			}
			n.renewed(b)
		case <-ctx.Done():
			return nil
		}
		if n.drained && len(n.held) == 0 {
			return nil
		}
	}
}

func (n *node) expired() bool { return time.Since(n.leased) >= n.fleet.lease }

// renewed takes note of a heartbeat. After a lease that ran out no session publishes before the books say that the node still has it.
func (n *node) renewed(b beaten) {
	if b.err != nil {
		if n.expired() && n.nc.IsConnected() { // a connection over which nothing comes is none
			_ = n.nc.ForceReconnect()
		}
		return
	}
	n.revision, n.leased = b.revision, b.at
	if n.lease.Err() == nil {
		return
	}
	n.lease, n.expire = context.WithCancel(context.Background())
	for _, h := range n.held {
		n.verify(h)
	}
}

// verify asks the books whether the node still has a session, and gives that the lease.
func (n *node) verify(h *held) {
	if h == nil {
		return
	}
	select {
	case <-h.leases: // an older one
	default:
	}
	select {
	case h.leases <- n.lease:
	default: // the session has just put back this one, to try again
	}
}

// receive takes a request to the node.
func (n *node) receive(ctx context.Context, m *nats.Msg) {
	var r request
	if err := json.Unmarshal(m.Data, &r); err != nil {
		n.refuse(m, &messages.Error{Code: messages.ErrInvalidRequest, Op: "call node", Subject: n.ID, Detail: "the request is not JSON; use a client of this version"})
		return
	}
	switch r.Method {
	case "drain":
		n.drained = true
		n.reply(m, answer{})
	case "open":
		var o opening
		if err := json.Unmarshal(r.Params, &o); err != nil {
			n.refuse(m, &messages.Error{Code: messages.ErrInvalidRequest, Op: "open session", Detail: "the request cannot be read; use a client of this version"})
			return
		}
		n.open(ctx, m, o)
	default:
		n.refuse(m, &messages.Error{Code: messages.ErrUnsupported, Op: "call node", Subject: n.ID, Detail: fmt.Sprintf("it does not know %.40q; use a client of this version", r.Method)})
	}
}

// open reserves room for a session and opens it in a goroutine: if the books give it to this node.
func (n *node) open(ctx context.Context, m *nats.Msg, o opening) {
	if _, is := n.held[o.Session]; is {
		return // the client has repeated its request; the first is answered
	}
	memory := o.Memory
	if memory < 0 {
		n.refuse(m, badMemory(memory))
		return
	}
	why := full(n.info(), memory)
	if why == "" && n.expired() {
		why = "its heartbeats do not arrive"
	}
	if why != "" {
		n.refuse(m, &messages.Error{Code: messages.ErrLimitReached, Op: "open session", Subject: n.ID, Detail: why + "; ask another node"})
		return
	}
	n.held[o.Session], n.reserved[o.Session] = nil, memory
	lease := n.lease
	go func() {
		h, err := n.hold(ctx, o, lease)
		n.opened <- opened{o.Session, h, lease} // before it takes calls: one of them may end it
		if err != nil {
			n.refuse(m, err)
			return
		}
		go h.run()
		n.reply(m, answer{})
	}()
}

// full says why a node takes no further session; empty if it does.
func full(info NodeInfo, memory int64) string {
	switch {
	case info.Draining:
		return "it is draining"
	case info.Sessions >= info.Slots:
		return fmt.Sprintf("all of its %d slots are taken", info.Slots)
	case info.Memory > 0 && info.Reserved+memory > info.Memory:
		return fmt.Sprintf("%d of its %d bytes of memory are free", info.Memory-info.Reserved, info.Memory)
	}
	return ""
}

// hold takes a session: it has it when its compare-and-set in the books succeeds, and not before. It opens the session first, so that
// an error of the options costs nothing. It takes calls when run does.
func (n *node) hold(ctx context.Context, o opening, lease context.Context) (*held, error) {
	place, err := n.read(ctx, o.Session)
	if err != nil {
		return nil, err
	}
	if place.revision != o.Revision || place.State != StatePlacing || place.Node != n.ID {
		return nil, &messages.Error{Code: messages.ErrLimitReached, Op: "open session", Subject: n.ID, Detail: "the session was given to another node meanwhile; ask that"}
	}
	options := n.confine(o)
	if _, err := n.rt.Enforcement(ctx, options); err != nil {
		return nil, err
	}
	session, err := n.rt.OpenSession(options)
	if err != nil {
		return nil, err
	}
	place.State, place.Instance = StateHeld, n.instance
	h, err := newHeld(n, session, place)
	if err == nil {
		h.place, err = n.change(ctx, place)
		for err != nil && !conflict(err) && ctx.Err() == nil { // what the server did is not known, so the session stays until it is
			select {
			case <-time.After(n.fleet.lease / 10):
			case <-ctx.Done():
			}
			h.place, err = n.write(ctx, h.place)
		}
	}
	if err != nil {
		if h != nil {
			h.unsubscribe()
			h.invalidate()
		}
		closed, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = session.Close(closed)
		return nil, failed("open session", err)
	}
	h.verified <- lease // in which the books have just been written
	return h, nil
}

// confine is what a session may, on this node.
func (n *node) confine(o opening) execbus.SessionOptions {
	options := o.Options.SessionOptions
	options.ID = o.Session
	options.Limits = options.Limits.Tighter(n.Limits)
	if n.Sandbox != nil {
		options.Sandbox, options.LeastAssurance = n.Sandbox, ""
	}
	if n.confined() {
		options.Approval = messages.ApprovalPolicy{Mode: messages.ApproveNever}
	}
	return options
}

// confined says that the node's sandbox must not be lifted. A client answers its own questions, and an answer can lift it: so nobody is asked.
func (n *node) confined() bool { return n.Sandbox != nil && n.Sandbox.Confined() }

// settle takes note of a session that was opened.
func (n *node) settle(o opened) {
	if o.held == nil {
		n.forget(o.session)
		return
	}
	n.held[o.session] = o.held
	if o.lease != n.lease {
		n.verify(o.held)
	}
}

func (n *node) forget(id messages.SessionID) {
	delete(n.held, id)
	delete(n.reserved, id)
}

// leave ends all sessions, waits until their last events are stored, and removes the node's entry.
func (n *node) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for _, h := range n.held {
		if h != nil {
			h.end()
		}
	}
	late := ctx.Done()
	for len(n.held) > 0 {
		select {
		case o := <-n.opened:
			n.settle(o)
			if o.held != nil {
				o.held.end()
			}
			if o.held != nil && late == nil {
				o.held.abandon()
			}
		case id := <-n.over:
			n.forget(id)
		case <-n.beaten:
		case <-late: // the server does not answer: another node gives up what is left when the lease has run out
			late = nil
			n.abandon()
		}
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer done()
	_ = n.nodes.Delete(last, n.ID, jetstream.LastRevision(n.revision))
}

// abandon ends all sessions at once, whatever they could not publish.
func (n *node) abandon() {
	for _, h := range n.held {
		if h != nil {
			h.abandon()
		}
	}
}

func (f *fleet) refuse(m *nats.Msg, err error) {
	f.reply(m, answer{Error: typed(err)})
}

// typed is an error as it crosses the wire.
func typed(err error) *messages.Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*messages.Error](err); ok {
		return known
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "call", Detail: err.Error()}
}

// reply sends an answer, in as many messages as the server's bound asks for.
func (f *fleet) reply(m *nats.Msg, a answer) {
	text, err := json.Marshal(a)
	if err != nil {
		text, _ = json.Marshal(answer{Error: typed(err)})
	}
	f.replyText(m.Reply, text)
}

func (f *fleet) replyText(to string, text []byte) {
	if to == "" {
		return
	}
	pieces := slices.Collect(slices.Chunk(text, f.piece()))
	for i, piece := range pieces {
		// A lost answer is asked for again.
		_ = f.nc.PublishMsg(&nats.Msg{Subject: to, Data: piece, Header: nats.Header{partHeader: {fmt.Sprintf("%d/%d", i+1, len(pieces))}}})
	}
}

// piece is how much of a message's data the server takes, in bytes, beside headers.
func (f *fleet) piece() int { return max(int(f.nc.MaxPayload())-4<<10, 4<<10) }
