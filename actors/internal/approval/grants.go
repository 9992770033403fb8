package approval

import (
	"fmt"
	"slices"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/internal/label"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/hosts"
)

// maxGrants bounds how many grants a session remembers; the oldest is forgotten, and asked about again.
const maxGrants = 1024

// grants are the commands that were approved for a session, the oldest first. The zero value is empty.
type grants struct {
	all     []*grant
	keys    map[string]*grant
	last    int                   // number of the newest
	changes uint64                // how often a grant was added or forgotten
	known   func(key string) bool // see has; nil after a change
	// unshared says that the session does not know all changes of the hosts that are approved.
	unshared bool
}

type grant struct {
	messages.Grant
	key    string
	host   *hosts.Grant // nil: it is about a command
	expiry *system.Timer
}

// has returns a function that reports whether the command with a key was approved. It may be called in any goroutine.
func (g *grants) has() func(key string) bool {
	if g.known == nil {
		ends := make(map[string]time.Time, len(g.keys))
		for key, one := range g.keys {
			ends[key] = one.Expires
		}
		g.known = func(key string) bool {
			end, found := ends[key]
			return found && (end.IsZero() || time.Now().Before(end))
		}
	}
	return g.known
}

func (g *grants) changed() { g.changes, g.known = g.changes+1, nil }

// add remembers the command of a question, or its host: for the session, or else for the process that asks.
func (g *grants) add(ctx *system.Context, q *question, session bool, expires time.Duration) {
	key, host, remembers := q.first().Plan.CacheKey, (*hosts.Grant)(nil), messages.DecisionApprovedForSession
	if asked := q.first().Request.Host; asked != nil {
		key, host = asked.Key(session), new(asked.Grant(session))
		if !session {
			remembers = messages.DecisionApproved
		}
	}
	if x := q.first().Request.Execution; x != nil {
		key = x.Key(true)
	}
	if key == "" {
		return
	}
	if q.Retry {
		key = policy.AfterDenial(key)
	}
	g.forget(g.keys[key])
	if len(g.all) == maxGrants {
		g.forget(g.all[0])
	}
	g.last++
	added := &grant{key: key, host: host, Grant: messages.Grant{ID: messages.GrantID(fmt.Sprint("g", g.last)), Display: label.Clip(q.Display), Dir: q.Dir,
		Granted: time.Now(), Remembers: label.Clip(q.remembers(remembers))}}
	if host != nil {
		host.ID, g.unshared = added.ID, true
		added.Host = &messages.HostGrant{Host: q.Host.Host, Port: q.Host.Port, Protocol: q.Host.Protocol, Session: session, Process: q.Host.Process}
		if session {
			added.Host.Process = 0
		}
	}
	if expires > 0 {
		added.Expires = added.Granted.Add(expires)
		added.expiry = ctx.After(expires, grantDue{added.ID})
	}
	if g.keys == nil {
		g.keys = map[string]*grant{}
	}
	g.keys[key] = added
	g.all = append(g.all, added)
	g.changed()
}

// expire forgets the grant with an id, if it is still there.
func (g *grants) expire(id messages.GrantID) { _ = g.revoke(id) }

// remembers is the text in which the person was told what an answer would remember.
func (q *question) remembers(kind messages.DecisionKind) string {
	for _, c := range q.Choices {
		if c.Kind == kind {
			return c.Remembers
		}
	}
	return ""
}

// forget revokes a grant; nil stands for no grant.
func (g *grants) forget(old *grant) {
	if old == nil || g.keys[old.key] != old {
		return
	}
	old.expiry.Cancel()
	g.unshared = g.unshared || old.host != nil
	delete(g.keys, old.key)
	g.changed()
	g.all = slices.DeleteFunc(g.all, func(other *grant) bool { return other == old })
}

// forgetProcess forgets the hosts that were approved for one process alone.
func (g *grants) forgetProcess(id messages.ProcessID) {
	for _, old := range slices.Clone(g.all) {
		if old.host != nil && !old.host.Session && old.host.Process == id {
			g.forget(old)
		}
	}
}

// share tells the session the hosts that are approved, if they have changed.
func (a *approval) share() {
	if !a.grants.unshared {
		return
	}
	a.grants.unshared = false
	var all []hosts.Grant
	for _, one := range a.grants.all {
		if one.host != nil {
			all = append(all, *one.host)
		}
	}
	a.ctx.Send(a.session, protocol.HostGrants{All: all})
}

// revoke forgets the grant with an id.
func (g *grants) revoke(id messages.GrantID) error {
	for _, old := range g.all {
		if old.ID == id {
			g.forget(old)
			return nil
		}
	}
	return &messages.Error{Code: messages.ErrUnknownGrant, Op: "revoke", Subject: string(id),
		Detail: "there is no such grant in this session, or it is over; list the grants", Hint: "call Session.Grants"}
}

func (g *grants) list() messages.Grants {
	list := messages.Grants{}
	for _, one := range g.all {
		list = append(list, one.Grant)
	}
	return list
}
