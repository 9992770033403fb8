package bus

import (
	"maps"
	"slices"

	"github.com/execbus/execbus/messages"
)

// directory indexes the open subscriptions by session, so that a publish skips those of other sessions. Publishers read it
// without a lock, because every change makes a new directory.
//
// The elements of a list never change, so a reader can walk it without a lock. Appending in place is safe: a reader of the
// old list does not look beyond its length, and only lists of the newest directory are appended to.
type directory struct {
	everywhere []*Subscription // that name no session
	sessions   map[messages.SessionID][]*Subscription
	open       int // subscriptions
}

// candidates returns the lists with every subscription that may want an event of a session. No subscription is in both.
func (d *directory) candidates(session messages.SessionID) [2][]*Subscription {
	return [2][]*Subscription{d.everywhere, d.sessions[session]}
}

// with returns the directory with one more subscription.
func (d *directory) with(s *Subscription) *directory {
	changed := directory{d.everywhere, d.sessions, d.open + 1}
	if len(s.filter.Sessions) == 0 {
		changed.everywhere = append(changed.everywhere, s)
		return &changed
	}
	changed.sessions = maps.Clone(d.sessions)
	for _, session := range s.filter.Sessions {
		changed.sessions[session] = append(changed.sessions[session], s)
	}
	return &changed
}

// without returns the directory without the given subscriptions, which are in it and have ended.
func (d *directory) without(gone []*Subscription) *directory {
	changed := directory{d.everywhere, d.sessions, d.open - len(gone)}
	everywhere, named := false, map[messages.SessionID]bool{}
	for _, s := range gone {
		everywhere = everywhere || len(s.filter.Sessions) == 0
		for _, session := range s.filter.Sessions {
			named[session] = true
		}
	}
	if everywhere {
		changed.everywhere = open(changed.everywhere)
	}
	if len(named) > 0 {
		changed.sessions = maps.Clone(d.sessions)
	}
	for session := range named {
		if list := open(changed.sessions[session]); len(list) > 0 {
			changed.sessions[session] = list
		} else {
			delete(changed.sessions, session)
		}
	}
	return &changed
}

// open copies the subscriptions that have not ended.
func open(list []*Subscription) []*Subscription {
	return slices.DeleteFunc(slices.Clone(list), func(s *Subscription) bool { return s.ended.Load() })
}
