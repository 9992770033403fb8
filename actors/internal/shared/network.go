package shared

import (
	"context"
	"net"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// NetworkOptions are what the network of a session is made from.
type NetworkOptions struct {
	Session messages.SessionID
	// Ask asks a person about a host, and waits. It returns nil after an approval, when Update was called with what allows the host, and
	// otherwise why it is refused. The end of its context withdraws the question.
	Ask func(context.Context, hosts.Request) error
	// AskTimeout is how long it may take at least.
	AskTimeout time.Duration
}

// Network is the way by which the commands of one session reach the hosts that they may talk to. Package execbus hands it in. Its
// methods are safe for concurrent use, and none of them blocks.
type Network interface {
	// Update replaces what it decides from. Connections that are no longer allowed are closed.
	Update(hosts.Snapshot)
	// Serve serves the commands that can reach a listener, until it is closed.
	Serve(net.Listener)
	// ServeNames serves the commands whose programs connect to hosts by name, until the sockets are closed.
	ServeNames(net.PacketConn, []net.Listener)
	// Begin returns the environment of a process that will use it. base is the environment that commands start from.
	Begin(process messages.ProcessID, env, base []string) []string
	// Blocked are the first connections that a process was not allowed to make.
	Blocked(messages.ProcessID) []messages.Connection
	// End ends the connections of a process that has ended.
	End(messages.ProcessID)
	// Close ends all connections.
	Close()
}
