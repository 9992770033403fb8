package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/record"
)

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func TestASessionGoesWhereItFits(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "small", Slots: 1, Labels: map[string]string{"disk": "small"}})
	w.node(Node{ID: "large", Slots: 2, Memory: 100, Labels: map[string]string{"disk": "large"}, Limits: messages.Limits{OpenFiles: 100}})
	nc, ctx := w.connect(), w.context()
	large := Placement{Labels: map[string]string{"disk": "large"}, Memory: 60}
	first := w.open(nc, large)
	if first.Node() != "large" {
		t.Errorf("it is on %s", first.Node())
	}
	// The node's limits hold, and a client cannot widen them.
	if err := first.UpdateEnvironment(ctx, messages.UpdateEnvironment{Limits: &messages.Limits{OpenFiles: 5000}}); err != nil {
		t.Fatal(err)
	}
	if result, err := first.Exec(ctx, shell("ulimit -n")); err != nil || string(result.Output) != "100\n" {
		t.Errorf("%v, %v: a client has widened the node's limit", result, err)
	}
	for name, c := range map[string]struct {
		p    Placement
		want []string
	}{
		"no memory": {large, []string{"large: 40 of its 100 bytes", "small: it has no label disk=large"}},
		"no label":  {Placement{Labels: map[string]string{"gpu": "yes"}}, []string{"small: it has no label gpu=yes", "large: it has no label gpu=yes"}},
	} {
		if _, err := Open(ctx, nc, c.p); !errors.Is(err, messages.ErrLimitReached) || !containsAll(fmt.Sprint(err), c.want...) {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := t.TempDir() + "/none"
	if _, err := Open(ctx, nc, Placement{Session: execbus.SessionOptions{Dir: none}}); err == nil || !containsAll(err.Error(), none) {
		t.Errorf("a directory that no node has: %v", err)
	}
	if _, err := Open(ctx, nc, Placement{Memory: -1}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("less than no memory: %v", err)
	}
	if _, err := Open(ctx, nc, Placement{Session: execbus.SessionOptions{Record: record.Options{Dir: t.TempDir()}}}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("a session with recordings: %v", err)
	}
	for _, id := range []messages.SessionID{"a b", "a.b", ">", "*", messages.SessionID(strings.Repeat("a", 65))} {
		if _, err := Open(ctx, nc, Placement{Session: execbus.SessionOptions{ID: id}}); !errors.Is(err, messages.ErrInvalidRequest) || !containsAll(err.Error(), "no name of a session") {
			t.Errorf("the name %q: %v", id, err)
		}
	}
	if _, err := Open(ctx, nc, Placement{Session: execbus.SessionOptions{ID: first.ID(), Dir: "/"}}); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("a name that is taken: %v", err)
	}
	// One that waits is in the books with its reason, and gets the room that becomes free.
	large.Wait = patience
	opened := make(chan error, 1)
	go func() { _, err := Open(ctx, nc, large); opened <- err }()
	until(t, "the session waits in the books", func() bool {
		books, err := Look(ctx, nc)
		if err != nil {
			return false
		}
		for _, place := range books.Sessions {
			if place.State == StateWaiting && containsAll(place.Why, "large: 40 of its 100 bytes") {
				return true
			}
		}
		return false
	})
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("the session that waited: %v", err)
	}
	gone, leave := context.WithTimeout(ctx, 0)
	defer leave()
	if _, err := Open(gone, nc, large); !errors.Is(err, messages.ErrCancelled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that has ended: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := Open(short, nc, large); !errors.Is(err, messages.ErrCancelled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that was cancelled: %v", err)
	}
}

// To open a session takes a request to the books and one to the node: what else a client must know it has read before. What has changed since
// is found out, long before the next heartbeat.
func TestPlacingTakesTwoRequests(t *testing.T) {
	w := newWorld(t, Settings{Lease: time.Hour}) // no heartbeat comes, and what was read stays young
	first := w.node(Node{ID: "first", Slots: 2})
	nc, ctx := w.connect(), w.context()
	w.open(nc, Placement{})
	sent := func() uint64 { return nc.Stats().OutMsgs }
	before := sent()
	s, err := Open(ctx, nc, Placement{})
	if err != nil {
		t.Fatal(err)
	}
	if took := sent() - before; took != 2 {
		t.Errorf("a session took %d requests", took)
	}
	if _, err := Open(ctx, nc, Placement{}); !errors.Is(err, messages.ErrLimitReached) || !containsAll(err.Error(), "first: all of its 2 slots are taken") {
		t.Errorf("a node without a slot: %v", err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, "the slot is free again", func() bool { _, err := Open(ctx, nc, Placement{}); return err == nil })
	w.node(Node{ID: "second"})
	if s, err := Open(ctx, nc, Placement{}); err != nil || s.Node() != "second" {
		t.Errorf("a node that came since was not found: %v", err)
	}
	if err := Drain(ctx, nc, "second"); err != nil {
		t.Fatal(err)
	}
	first.stop()
	first.stopped(t)
	if _, err := Open(ctx, nc, Placement{}); !errors.Is(err, messages.ErrLimitReached) || !containsAll(err.Error(), "second: it is draining") || strings.Contains(err.Error(), "first:") {
		t.Errorf("of two nodes one drains and one is gone: %v", err)
	}
}

// What a program has placed counts for its next sessions, though no heartbeat has told of it.
func TestSessionsOfOneMomentSpread(t *testing.T) {
	w := newWorld(t, Settings{Lease: time.Hour})
	for _, id := range []string{"a", "b"} {
		w.node(Node{ID: id})
	}
	nc, on := w.connect(), map[string]int{}
	for n := 1; n <= 8; n++ { // without that the nodes would stay equal with a probability of 1 in 256
		for range 2 {
			on[w.open(nc, Placement{}).Node()]++
		}
		if on["a"] != n || on["b"] != n {
			t.Fatalf("of %d sessions the nodes have %v", 2*n, on)
		}
	}
}

// A session takes no call before its node knows of it: one that was over by then would be the node's for ever.
func TestANodeKnowsOfASessionBeforeItsFirstCall(t *testing.T) {
	w := newWorld(t, Settings{Lease: shortLease})
	m, ctx := w.node(Node{ID: "other"}), w.context()
	f, err := join(ctx, w.connect())
	if err != nil {
		t.Fatal(err)
	}
	place, err := f.change(ctx, Place{Session: "s", State: StatePlacing, Node: "n", Epoch: 1})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{fleet: f, Node: Node{ID: "n", Slots: 1}, rt: m.rt, instance: "i", lease: ctx, leased: time.Now().Add(patience), held: map[messages.SessionID]*held{},
		reserved: map[messages.SessionID]int64{}, opened: make(chan opened), over: make(chan messages.SessionID)}
	closed := make(chan error, 1)
	go func() { closed <- (&Session{f, place}).Close(ctx) }()
	n.open(ctx, &nats.Msg{}, opening{Session: "s", Revision: place.revision})
	select {
	case <-n.over:
		t.Fatal("the session is over, and the node does not know of it")
	case <-time.After(shortLease / 2): // in which it would be
	}
	n.settle(<-n.opened)
	n.forget(<-n.over)
	if err := <-closed; err != nil || len(n.held) != 0 {
		t.Errorf("%v; the node has %v", err, n.held)
	}
}

// A node has a session only if the books say so: not one that was given to another, nor one that somebody has, nor by an old entry.
func TestANodeRefusesWhatItDidNotGet(t *testing.T) {
	w := newWorld(t, Settings{})
	m, ctx := w.node(Node{ID: "other"}), w.context()
	f, err := join(ctx, w.connect())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{fleet: f, Node: Node{ID: "n"}, rt: m.rt, instance: "i"}
	for name, place := range map[string]Place{
		"foreign": {State: StatePlacing, Node: "other"}, "waiting": {State: StateWaiting}, "held": {State: StateHeld, Node: "n", Instance: "j"},
		"lost": {State: StateLost, Node: "n"}, "ended": {State: StateEnded, Node: "n"}, "old": {State: StatePlacing, Node: "n"},
	} {
		place.Session, place.Epoch = messages.SessionID(name), 1
		place, err := f.change(ctx, place)
		if err != nil {
			t.Fatal(err)
		}
		revision := place.revision
		if name == "old" {
			if place, err = f.change(ctx, place); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := n.hold(ctx, opening{Session: place.Session, Revision: revision}, ctx); !errors.Is(err, messages.ErrLimitReached) || !containsAll(err.Error(), "given to another node") {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := f.read(ctx, place.Session); err != nil || now != place {
			t.Errorf("%s: the books have %+v, %v; want %+v", name, now, err, place)
		}
	}
	if _, err := n.hold(ctx, opening{Session: "none"}, ctx); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("a session that nobody wants: %v", err)
	}
	if stats, err := m.rt.Stats(ctx); err != nil || stats.Sessions != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}

func TestADrainedNodeLetsItsSessionsEnd(t *testing.T) {
	w := newWorld(t, Settings{})
	n := w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	if err := Drain(ctx, nc, "absent"); !errors.Is(err, messages.ErrUnreachable) {
		t.Errorf("drained a node that is not there: %v", err)
	}
	if err := Drain(ctx, nc, "n"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, nc, Placement{}); !errors.Is(err, messages.ErrLimitReached) || !containsAll(err.Error(), "n: it is draining") {
		t.Errorf("a draining node took a session: %v", err)
	}
	if _, err := s.Exec(ctx, shell("true")); err != nil {
		t.Errorf("a call to a session of a draining node: %v", err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	n.stopped(t)
	if books, err := Look(ctx, nc); err != nil || len(books.Nodes) != 0 {
		t.Errorf("%+v, %v", books, err)
	}
}

// The sandbox is the node's, and one that a machine cannot enforce is refused with the reason.
func TestANodesSandboxCannotBeChanged(t *testing.T) {
	w := newWorld(t, Settings{})
	n := w.node(Node{ID: "n", Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly}})
	nc, ctx := w.connect(), w.context()
	if _, err := n.rt.Enforcement(ctx, execbus.SessionOptions{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly}}); err != nil {
		if _, refused := Open(ctx, nc, Placement{}); refused == nil {
			t.Error("a node opened a session whose sandbox it cannot enforce")
		}
		if !errors.Is(err, messages.ErrUnsupported) {
			t.Fatal(err)
		}
		t.Skip("this machine enforces no sandbox, so that a node's cannot be tried:", err)
	}
	s := w.open(nc, Placement{})
	file := t.TempDir() + "/file"
	err := s.UpdateEnvironment(ctx, messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}})
	if !errors.Is(err, messages.ErrRejected) {
		t.Errorf("a client changed the sandbox: %v", err)
	}
	if result, err := s.Exec(ctx, shell("echo x >"+file)); err == nil && result.Status == messages.StatusExited(0) {
		t.Errorf("it wrote: %v", result)
	}
	if err := s.UpdateEnvironment(ctx, messages.UpdateEnvironment{Approval: &messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}}); !errors.Is(err, messages.ErrRejected) {
		t.Errorf("a client changed who is asked: %v", err)
	}
	// Nor is it lifted by an answer, which a client may give itself, or let a deadline give.
	for _, approval := range []messages.ApprovalMode{messages.ApproveOnRequest, messages.ApproveUntrusted} {
		s := w.open(nc, Placement{Session: execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: approval}, LeastAssurance: messages.AssuranceNone,
			ApprovalDeadline: time.Millisecond, OnDeadline: messages.DecisionApproved}})
		command := shell("echo x >" + file)
		command.SandboxPermissions, command.Justification = messages.PermissionsRequireEscalated, "test"
		if result, err := s.Exec(ctx, command); !errors.Is(err, messages.ErrRejected) {
			t.Errorf("%s: a command without the node's sandbox: %v, %v", approval, result, err)
		}
		if _, err := s.ApplyPatch(ctx, messages.ApplyPatch{Text: "*** Begin Patch\n*** Add File: " + file + "\n+x\n*** End Patch\n"}); err == nil {
			t.Errorf("%s: a patch has gone beyond the node's sandbox", approval)
		}
	}
	if text, err := os.ReadFile(file); err == nil {
		t.Errorf("it was written: %q", text)
	}
}

// Of two random nodes the less loaded one is taken: with three nodes of which two are full, the sessions spread.
func TestOfTwoNodesTheLessLoadedIsTaken(t *testing.T) {
	level := []messages.Assurance{messages.AssuranceNone}
	nodes := []NodeInfo{{ID: "a", Slots: 10, Sessions: 9, Levels: level}, {ID: "b", Slots: 100, Sessions: 20, Levels: level},
		{ID: "memory", Slots: 100, Memory: 100, Reserved: 95, Levels: level}, {ID: "full", Slots: 1, Sessions: 1, Levels: level},
		{ID: "draining", Slots: 9, Draining: true, Levels: level}, {ID: "bare", Slots: 9}}
	chosen := map[string]int{}
	for range 300 {
		info, found, _ := Placement{}.choose(nodes, nil)
		if !found {
			t.Fatal("none was found")
		}
		chosen[info.ID]++
	}
	// b wins against both others: it loses only where it is not among the two, a third of the time. memory never wins.
	if chosen["b"] < 150 || chosen["a"] == 0 || chosen["memory"] != 0 || len(chosen) != 2 {
		t.Errorf("%v", chosen)
	}
	_, found, reasons := Placement{}.choose(nodes[3:], map[string]string{})
	if found || len(reasons) != 3 {
		t.Errorf("%v", reasons)
	}
	if _, found, reasons := (Placement{}).choose(nodes[:1], map[string]string{"a": "it does not answer"}); found || len(reasons) != 1 {
		t.Errorf("a node that has refused is asked again: %v", reasons)
	}
}
