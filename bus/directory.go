package bus

import (
	"hash/maphash"
	"maps"

	"github.com/execbus/execbus/messages"
)

// directory indexes the open subscriptions by session, so that a publish skips those of other sessions. Publishers read it
// without a lock, because every change makes a new directory. With thousands of sessions that would be slow, so they are
// split over shelves, and a change copies only the map of one shelf for each session that the subscription names.
//
// The elements of a list never change, so a reader can walk it without a lock. Appending in place is safe: a reader of the
// old list does not look beyond its length, and only lists of the newest directory are appended to.
type directory struct {
	everywhere []route // of subscriptions that name no session
	shelves    [shelves]map[messages.SessionID][]route
	open       int // subscriptions
}

const shelves = 256

var seed = maphash.MakeSeed()

func shelf(session messages.SessionID) int {
	return int(maphash.String(seed, string(session)) % shelves)
}

func (d *directory) of(session messages.SessionID) []route { return d.shelves[shelf(session)][session] }

// candidates returns the lists with every subscription that may want an event of a session. No subscription is in both.
func (d *directory) candidates(session messages.SessionID) [2][]route {
	return [2][]route{d.everywhere, d.of(session)}
}

// with returns the directory with one more subscription.
func (d *directory) with(s *Subscription) *directory {
	changed := *d
	changed.open++
	r := newRoute(s)
	if len(s.filter.Sessions) == 0 {
		changed.everywhere = append(changed.everywhere, r)
	}
	for _, session := range s.filter.Sessions {
		changed.put(session, append(changed.of(session), r))
	}
	return &changed
}

// without returns the directory without the given subscriptions, which are in it and have ended.
func (d *directory) without(gone []*Subscription) *directory {
	changed := *d
	changed.open -= len(gone)
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
	for session := range named {
		changed.put(session, open(changed.of(session)))
	}
	return &changed
}

// open copies the routes whose subscriptions have not ended.
func open(list []route) []route {
	kept := make([]route, 0, len(list))
	for _, r := range list {
		if !r.sub.ended.Load() {
			kept = append(kept, r)
		}
	}
	return kept
}

// put replaces a session's list; the directory must not be in use yet.
func (d *directory) put(session messages.SessionID, list []route) {
	i := shelf(session)
	d.shelves[i] = maps.Clone(d.shelves[i])
	if d.shelves[i] == nil {
		d.shelves[i] = map[messages.SessionID][]route{}
	}
	if len(list) > 0 {
		d.shelves[i][session] = list
	} else {
		delete(d.shelves[i], session)
	}
}
