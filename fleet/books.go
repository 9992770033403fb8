package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus/messages"
)

// Books are what the fleet knows of its nodes and sessions at one moment.
type Books struct {
	Nodes    []NodeInfo `json:"nodes"`    // that can be reached, by name
	Sessions []Place    `json:"sessions"` // the oldest first; those whose nodes cannot be reached have StateUnreachable
}

// Look reads the books.
func Look(ctx context.Context, nc *nats.Conn) (Books, error) {
	f, err := join(ctx, nc)
	if err != nil {
		return Books{}, err
	}
	var books Books
	if books.Nodes, err = valuesOf(ctx, f.nodes, nodeOf); err != nil {
		return Books{}, failed("read the books", err)
	}
	if books.Sessions, err = valuesOf(ctx, f.place, placeOf); err != nil {
		return Books{}, failed("read the books", err)
	}
	slices.SortFunc(books.Nodes, func(a, b NodeInfo) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(books.Sessions, func(a, b Place) int { return a.At.Compare(b.At) })
	reachable := map[string]bool{}
	for _, info := range books.Nodes {
		reachable[info.Instance] = true
	}
	for i, place := range books.Sessions {
		if place.State == StateHeld && !reachable[place.Instance] {
			books.Sessions[i].State = StateUnreachable
		}
	}
	return books, nil
}

// Drain tells a node to take no further sessions. Those that it has go on; when the last has ended its Serve returns.
func Drain(ctx context.Context, nc *nats.Conn, node string) error {
	text, err := json.Marshal(request{Method: "drain"})
	if err != nil {
		return typed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if _, err := nc.RequestWithContext(ctx, nodeSubject(node), text); err != nil {
		return &messages.Error{Code: messages.ErrUnreachable, Op: "drain", Subject: node, Detail: "no node of this name answers; look at the list of nodes", Like: messages.LikeOf(err)}
	}
	return nil
}

// Connect connects to a NATS server as a fleet needs it: it tries for ever, and sends nothing after a cut that was meant to be sent before
// it. Errors that no call returns, such as those of connecting again, are said nowhere unless an option handles them. Options come behind
// these and may name credentials, an nkey or certificates.
func Connect(url string, options ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(url, append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(reconnectWait),
		nats.PingInterval(DefaultLease), nats.MaxPingsOutstanding(2), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, options...)...)
	if err != nil {
		return nil, failed("connect", err)
	}
	return nc, nil
}
