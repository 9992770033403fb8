package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus/messages"
)

// GiveUp gives up the sessions of a node that is not coming back: each of their processes gets an end with the cause node_lost. A node
// that still sends heartbeats is not given up: it can be drained. Nodes do the same by themselves: see Node.LostAfter.
func GiveUp(ctx context.Context, nc *nats.Conn, node string) error {
	f, err := join(ctx, nc)
	if err != nil {
		return err
	}
	_, err = f.nodes.Get(ctx, node)
	switch {
	case err == nil:
		return &messages.Error{Code: messages.ErrWrongState, Op: "give up node", Subject: node, Detail: "it is reachable; drain it instead, or stop it and wait for its lease to end"}
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return failed("give up node", err)
	}
	return f.giveUp(ctx, node, "", "it was given up by hand")
}

// giveUp gives up the sessions that a node has, but not those of one instance of it.
func (f *fleet) giveUp(ctx context.Context, node, but, why string) error {
	places, err := valuesOf(ctx, f.place, placeOf)
	if err != nil {
		return failed("give up node", err)
	}
	for _, place := range places {
		if place.Node != node || place.Instance == but || place.State != StateHeld && place.State != StateLosing {
			continue
		}
		back, err := f.back(ctx, place)
		if err == nil && !back {
			err = f.lose(ctx, place, why)
		}
		if err != nil {
			return failed("give up node", err)
		}
	}
	return nil
}

// back reports whether a node that was to be given up is here again. To give up many sessions takes long, so it is asked before each.
func (f *fleet) back(ctx context.Context, place Place) (bool, error) {
	if place.State == StateLosing { // it was given up
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	entry, err := f.nodes.Get(ctx, place.Node)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := nodeOf(entry)
	return err == nil && info.Instance == place.Instance, nil
}

// lose gives up one session. It may be called by several members at once, and again after one that died meanwhile: the server takes each
// change once.
func (f *fleet) lose(ctx context.Context, place Place, why string) error {
	if place.State == StateHeld {
		given := place
		given.State, given.Why = StateLosing, why
		given.Epoch++
		given, err := f.change(ctx, given)
		if conflict(err) {
			if given, err = f.read(ctx, place.Session); err == nil && given.State != StateLosing {
				return nil
			}
		}
		if err != nil {
			return err
		}
		place = given
	}
	for {
		err := f.writeEnds(ctx, place)
		if err == nil {
			break
		}
		if !conflict(err) {
			return err
		}
	}
	place.State = StateLost
	if _, err := f.change(ctx, place); err != nil && !conflict(err) {
		return err
	}
	return nil
}

// writeEnds writes what follows from a loss into the events of a session. First comes a notice of the new epoch: after that the server
// takes nothing from the node that was given up. Then comes an end of each process that had none.
func (f *fleet) writeEnds(ctx context.Context, place Place) error {
	told := f.historyOf(place.Session)
	var epoch uint64
	ended := map[messages.ProcessID]bool{}
	open := map[messages.ProcessID]messages.Origin{}
	var order []messages.ProcessID
	questions := map[messages.QuestionID]bool{}
	for {
		event, message, err := told.next(ctx)
		if err != nil {
			return err
		}
		if message == nil {
			break
		}
		epoch, _ = strconv.ParseUint(message.Header.Get(epochHeader), 10, 64)
		switch e := event.(type) {
		case messages.ApprovalRequested:
			questions[e.ID] = true
		case messages.ApprovalResolved:
			delete(questions, e.Question)
		case messages.ExecEnded:
			delete(open, e.Process)
			ended[e.Process] = true
			continue
		case messages.ExecStarted: // a number may come again
			delete(ended, e.Process)
		}
		if origin := event.From(); origin.Process != 0 && !ended[origin.Process] && event.Kind() != messages.KindExecNotice {
			if _, known := open[origin.Process]; !known {
				order = append(order, origin.Process)
			}
			open[origin.Process] = origin
		}
	}
	last := told.seq - 1 // also if that is an event of a newer version, which history skips
	add := func(event messages.Event) error {
		text, err := json.Marshal(event)
		if err != nil {
			return err
		}
		ack, err := f.js.PublishMsg(ctx, eventMessage(text, place.Session, place.Epoch, 0), jetstream.WithExpectLastSequencePerSubject(last))
		if err == nil {
			last = ack.Sequence
		}
		return err
	}
	now := time.Now().UTC()
	if epoch < place.Epoch {
		notice := messages.ExecNotice{Origin: messages.Origin{Session: place.Session, At: now},
			Text: fmt.Sprintf("the machine %s was given up: %s; its processes and the output that it had not sent are lost", place.Node, place.Why)}
		if err := add(notice); err != nil {
			return err
		}
	}
	for _, id := range order {
		origin, still := open[id]
		if !still {
			continue
		}
		delete(open, id)
		origin.At = now
		if err := add(messages.ExecEnded{Origin: origin, EndRecord: messages.EndRecord{Cause: messages.CauseNodeLost, Status: messages.StatusNone(),
			Detail: place.Node + ": " + place.Why + "; which of its processes survive is not known"}}); err != nil {
			return err
		}
	}
	for id := range questions {
		if err := f.ask.Purge(ctx, askKey(place.Session, id)); err != nil {
			return err
		}
	}
	return nil
}

// monitor gives up nodes that have sent no heartbeat for LostAfter, finishes what another member has begun to give up, finds
// out which of its own were given up, and tidies the books.
//
// Nodes that were started at the same moment look at different ones.
func (n *node) monitor(ctx context.Context) {
	absent := map[string]time.Time{} // instances that have sessions, or have had, and send no heartbeats: since when
	known := map[string]bool{}
	wait := rand.N(n.LostAfter / 6)
	for round, reads := 0, 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		infos, err := valuesOf(ctx, n.nodes, nodeOf)
		wait = pause(n.LostAfter, len(infos))
		if err != nil { // while this node sees nothing it judges nobody
			clear(absent)
			continue
		}
		if round == 0 {
			wait = rand.N(wait)
		}
		present := map[string]bool{n.instance: true}
		for _, info := range infos {
			present[info.Instance], known[info.Instance] = true, true
			delete(absent, info.Instance)
		}
		overdue := false
		for instance := range known {
			if present[instance] {
				continue
			}
			if absent[instance].IsZero() {
				absent[instance] = time.Now()
			}
			overdue = overdue || time.Since(absent[instance]) >= n.LostAfter
		}
		regular := round >= reads
		switch {
		case regular && reads == 0: // the first one
			reads = round + 1 + rand.IntN(10)
		case regular:
			reads = round + 10
		}
		if overdue || regular {
			n.judge(ctx, known, absent)
		}
	}
}

// pause is how long a node waits between two looks at the list of nodes: a sixth of lostAfter while there are at most 20, and so much longer
// among more that they look as often as 20 do, all taken together. Nobody waits longer than lostAfter.
func pause(lostAfter time.Duration, nodes int) time.Duration {
	return min(lostAfter/6*time.Duration(max(nodes, 20))/20, lostAfter)
}

// judge reads the books. Books are read seldom, because there may be many sessions.
func (n *node) judge(ctx context.Context, known map[string]bool, absent map[string]time.Time) {
	places, err := valuesOf(ctx, n.place, placeOf)
	if err != nil {
		return
	}
	clear(known)
	for _, place := range places {
		age := time.Since(place.At)
		if place.Instance == n.instance && (place.State == StateLosing || place.State == StateLost) {
			select {
			case n.superseded <- place.Session: // it may be here still, if it was given up while the lease held
			case <-ctx.Done():
				return
			}
		}
		switch place.State {
		case StateHeld:
			known[place.Instance] = true
			if since := absent[place.Instance]; !since.IsZero() && time.Since(since) >= n.LostAfter {
				if back, err := n.back(ctx, place); back || err != nil {
					continue
				}
				_ = n.lose(ctx, place, fmt.Sprintf("it had sent no heartbeat for %v", time.Since(since).Round(time.Second))) // the next round tries again
			}
		case StateLosing:
			if age > n.fleet.lease {
				_ = n.lose(ctx, place, place.Why)
			}
		case StateWaiting, StatePlacing:
			if age > n.LostAfter { // its client renews it while it waits
				place.State, place.Why = StateEnded, whyGone
				_, _ = n.change(ctx, place)
			}
		case StateEnded, StateLost:
			if age > n.Retain {
				_ = n.place.Purge(ctx, string(place.Session), jetstream.LastRevision(place.revision))
			}
		}
	}
	for instance := range absent {
		if !known[instance] {
			delete(absent, instance)
		}
	}
	for _, bucket := range []jetstream.KeyValue{n.place, n.ask} {
		_ = bucket.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(n.Retain)) // the next time tries again
	}
}
