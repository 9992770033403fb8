package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Placement says where a session may be, and what it is.
type Placement struct {
	// Labels are those that the node must have.
	Labels map[string]string
	// Memory is how many bytes the session reserves on a node that counts them. It limits nothing: SessionOptions.Limits do.
	Memory int64
	// Session has the options of the session. Its directory is one of the node. Approver must be nil: questions go to all consoles of
	// the fleet. There are no recordings: Record must be empty. An ID names the session in the whole fleet; empty means a random one.
	Session execbus.SessionOptions
	// Wait is how long to wait for room; zero means not at all.
	Wait time.Duration
}

// openTime is how long a node may take to open a session.
const openTime = 10 * time.Second

// level is the sandbox level that a node must have for a session.
func (p Placement) level() messages.Assurance {
	policy := p.Session.Sandbox
	switch {
	case policy == nil || !policy.Confined():
		return messages.AssuranceNone
	case p.Session.LeastAssurance != "":
		return p.Session.LeastAssurance
	case policy.Type == messages.SandboxWorkspaceWrite: // it protects names inside of what may be written
		return messages.AssuranceIsolated
	}
	return messages.AssuranceConfined
}

// unfit says why a node cannot have the session; empty if it can.
func (p Placement) unfit(info NodeInfo) string {
	var first string // of the labels that it does not have
	lacks := false
	for name, value := range p.Labels {
		if info.Labels[name] != value && (!lacks || name < first) {
			first, lacks = name, true
		}
	}
	if lacks {
		return fmt.Sprintf("it has no label %s=%s", first, p.Labels[first])
	}
	if level := p.level(); !slices.Contains(info.Levels, level) {
		return fmt.Sprintf("it cannot enforce the sandbox level %s", level)
	}
	return full(info, p.Memory)
}

// choose takes the less loaded of two random nodes among those that fit. Of all others it says why they do not.
func (p Placement) choose(nodes []NodeInfo, refused map[string]string) (chosen NodeInfo, found bool, reasons []string) {
	fit := make([]int, 0, len(nodes)) // of nodes, which are large
	for n, info := range nodes {
		why := p.unfit(info)
		if refusal := refused[info.ID]; refusal != "" && why == "" {
			why = refusal
		}
		if why == "" {
			fit = append(fit, n)
		} else {
			reasons = append(reasons, info.ID+": "+why)
		}
	}
	if len(fit) == 0 {
		slices.Sort(reasons)
		return NodeInfo{}, false, reasons
	}
	i := rand.IntN(len(fit))
	chosen = nodes[fit[i]]
	if len(fit) > 1 {
		j := rand.IntN(len(fit) - 1)
		if j >= i {
			j++
		}
		if other := nodes[fit[j]]; load(other) < load(chosen) {
			chosen = other
		}
	}
	return chosen, true, nil
}

// load is how full a node is, from 0 to 1: by slots or by memory, if that is scarcer.
func load(info NodeInfo) float64 {
	used := float64(info.Sessions) / float64(max(info.Slots, 1))
	if info.Memory > 0 {
		used = max(used, float64(info.Reserved)/float64(info.Memory))
	}
	return used
}

// Open places a session on a node that fits and opens it there. If none has room it waits, as long as Placement.Wait says; the books then
// say what it waits for. The error names each node with its reason. A session stays on its node until it ends.
func Open(ctx context.Context, nc *nats.Conn, p Placement) (*Session, error) {
	if p.Session.Approver != nil {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "open session", Subject: "approver", Detail: "it cannot be on another machine; answer the questions of the fleet instead",
			Hint: "leave SessionOptions.Approver nil and use Questions and Session.Decide"}
	}
	if p.Session.Record.Dir != "" || p.Session.Record.File != "" {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "open session", Subject: "record", Detail: "a fleet makes no recordings; leave it out",
			Hint: "leave SessionOptions.Record empty and use Follow"}
	}
	if p.Memory < 0 {
		return nil, badMemory(p.Memory)
	}
	if id := string(p.Session.ID); id != "" && !nodeName.MatchString(id) { // it is a part of subjects
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "open session", Subject: "name", Detail: fmt.Sprintf("%.70q is no name of a session; use at most 64 letters, digits, hyphens and underscores", id)}
	}
	f, err := join(ctx, nc)
	if err != nil {
		return nil, inTime(ctx, p.Session.ID, err)
	}
	p.Session.ID = or(p.Session.ID, messages.SessionID(nuid.Next()))
	o := &opener{fleet: f, Placement: p, refused: map[string]string{}, until: time.Now().Add(p.Wait),
		place: Place{Session: p.Session.ID, Memory: p.Memory}}
	session, err := o.open(ctx)
	if err != nil && o.place.revision != 0 {
		o.withdraw(context.WithoutCancel(ctx), err)
	}
	return session, inTime(ctx, p.Session.ID, err)
}

// inTime is an error of Open. A request that has no answer when the context ends was cancelled.
func inTime(ctx context.Context, session messages.SessionID, err error) error {
	if ctx.Err() == nil || !errors.Is(err, messages.ErrUnreachable) {
		return err
	}
	return &messages.Error{Code: messages.ErrCancelled, Op: "open session", Subject: string(session), Detail: "the call was cancelled", Like: messages.LikeOf(ctx.Err())}
}

// opener is one Open.
type opener struct {
	*fleet
	Placement
	place   Place
	refused map[string]string // nodes that were asked, and what they said
	until   time.Time
}

func (o *opener) open(ctx context.Context) (*Session, error) {
	period := o.lease / 5 // between two heartbeats, so an older list may say something else
	for age := period; ; {
		var info NodeInfo
		var found bool
		var reasons []string
		now, err := o.list(ctx, age, func(nodes []NodeInfo) {
			if info, found, reasons = o.choose(nodes, o.refused); len(nodes) == 0 {
				reasons = []string{"the fleet has no nodes now"}
			}
		})
		if err != nil {
			return nil, failed("open session", err)
		}
		if found {
			session, err := o.try(ctx, info)
			if session != nil || err != nil {
				return session, err
			}
			continue
		}
		if !now { // what does not fit may do so since
			age = 0
			continue
		}
		age = period
		if !time.Now().Before(o.until) {
			return nil, &messages.Error{Code: messages.ErrLimitReached, Op: "open session", Subject: string(o.place.Session),
				Detail: "no node takes it: " + strings.Join(reasons, "; ") + "; wait, or ask for less"}
		}
		o.place.State, o.place.Node, o.place.Why = StateWaiting, "", strings.Join(reasons, "; ")
		if session, err := o.record(ctx); session != nil || err != nil {
			return session, err
		}
		clear(o.refused)
		select {
		case <-time.After(min(period, time.Until(o.until)+time.Millisecond)):
		case <-ctx.Done():
			return nil, &messages.Error{Code: messages.ErrCancelled, Op: "open session", Subject: string(o.place.Session),
				Detail: "the call was cancelled while it waited: " + o.place.Why, Like: messages.LikeOf(ctx.Err())}
		}
	}
}

// record writes the entry of the session into the books. It returns the session if a node has it that was asked before, and seemed not to
// answer.
func (o *opener) record(ctx context.Context) (*Session, error) {
	place, err := o.change(ctx, o.place)
	if conflict(err) && o.place.revision != 0 { // the server may have been away for so long that a node took this program for gone
		if now, unread := o.read(ctx, o.place.Session); unread == nil && now.State == StateEnded && now.Why == whyGone {
			o.place.revision = now.revision
			place, err = o.change(ctx, o.place)
		}
	}
	switch {
	case err == nil:
		o.place = place
		return nil, nil
	case !conflict(err):
		return nil, failed("open session", err)
	case o.place.revision == 0:
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "open session", Subject: string(o.place.Session), Detail: "the fleet has a session of this name; use another name, or attach to that one"}
	}
	if held := o.taken(ctx); held != nil {
		return held, nil
	}
	return nil, &messages.Error{Code: messages.ErrNodeLost, Op: "open session", Subject: string(o.place.Session), Detail: "a node took it and was lost, or another program changed its entry; open it again under another name"}
}

// try gives the session to one node. Without a session and an error another one is to be tried.
func (o *opener) try(ctx context.Context, info NodeInfo) (*Session, error) {
	o.place.State, o.place.Node, o.place.Why = StatePlacing, info.ID, ""
	o.place.Epoch++
	if session, err := o.record(ctx); session != nil || err != nil {
		return session, err
	}
	o.count(ctx, info.ID, o.Memory)
	params, err := json.Marshal(opening{Session: o.place.Session, Revision: o.place.revision, Memory: o.Memory, Options: sessionOptions{SessionOptions: o.Session}})
	if err != nil {
		return nil, typed(err)
	}
	text, err := json.Marshal(request{Method: "open", Params: params})
	if err != nil {
		return nil, typed(err)
	}
	asking, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	m, err := o.nc.RequestWithContext(asking, nodeSubject(info.ID), text)
	var a answer
	if err == nil {
		err = json.Unmarshal(m.Data, &a)
	}
	switch {
	case ctx.Err() != nil:
		return nil, failed("open session", ctx.Err())
	case err != nil:
		o.refused[info.ID] = "it does not answer"
		if held := o.taken(ctx); held != nil {
			return held, nil
		}
		return nil, nil
	case a.Error == nil:
		held := o.place
		held.State = StateHeld
		return &Session{o.fleet, held}, nil
	case errors.Is(a.Error, messages.ErrInvalidRequest):
		return nil, a.Error
	}
	o.refused[info.ID] = or(a.Error.Detail, a.Error.Error())
	return nil, nil
}

// taken is the session if the books say that a node has it.
func (o *opener) taken(ctx context.Context) *Session {
	place, err := o.read(ctx, o.place.Session)
	if err != nil || place.State != StateHeld || place.Epoch > o.place.Epoch {
		return nil
	}
	return &Session{o.fleet, place}
}

// withdraw closes the entry of a session that was not opened. If a node has taken it meanwhile it is closed there.
func (o *opener) withdraw(ctx context.Context, why error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	o.place.State, o.place.Why = StateEnded, why.Error()
	if _, err := o.change(ctx, o.place); conflict(err) {
		if held := o.taken(ctx); held != nil {
			_ = held.Close(ctx)
		}
	}
}
