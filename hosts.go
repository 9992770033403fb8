package execbus

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/network"
	"github.com/execbus/execbus/policy/hosts"
	"github.com/execbus/execbus/ptyio"
)

// sessionNetwork is the proxy of one session. It implements actors.Network.
type sessionNetwork struct {
	proxy *network.Proxy
	work  *sync.WaitGroup // of the runtime, which waits for it when it shuts down

	mu       sync.Mutex
	loopback bool // a rule opens the host's
}

// newNetwork makes the proxy of a session.
func (r *Runtime) newNetwork(session messages.SessionID) actors.Network {
	return &sessionNetwork{work: &r.proxies, proxy: network.New(network.Options{
		Record: func(c messages.Connection) {
			r.around.Bus.Publish(messages.NetworkConnection{Origin: messages.Origin{Session: session, At: time.Now()}, Connection: c})
		},
		Upstream: func(u *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: u}) },
	})}
}

// Update implements actors.Network.
func (n *sessionNetwork) Update(s hosts.Snapshot) {
	n.mu.Lock()
	n.loopback = s.Rules.OpensLoopback()
	n.mu.Unlock()
	n.proxy.Update(s)
}

// Serve implements actors.Network.
func (n *sessionNetwork) Serve(listener net.Listener) {
	n.work.Go(func() { _ = n.proxy.Serve(listener) }) // it ends with the last command that can reach the listener
}

// Begin implements actors.Network.
func (n *sessionNetwork) Begin(process messages.ProcessID, env, base []string) []string {
	n.proxy.Begin(process)
	n.mu.Lock()
	loopback := n.loopback
	n.mu.Unlock()
	variables := network.Environment{Address: ptyio.ProxyAddress(), User: n.proxy.Credential(process), LoopbackByProxy: loopback}.Variables(base)
	var all []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if _, ours := variables[name]; !ours {
			all = append(all, entry)
		}
	}
	for name, value := range variables {
		all = append(all, name+"="+value)
	}
	return all
}

// Blocked implements actors.Network.
func (n *sessionNetwork) Blocked(process messages.ProcessID) []messages.Connection {
	return n.proxy.Blocked(process)
}

// End implements actors.Network.
func (n *sessionNetwork) End(process messages.ProcessID) { n.proxy.End(process) }

// Close implements actors.Network.
func (n *sessionNetwork) Close() { n.work.Go(func() { _ = n.proxy.Close() }) }

// checkHosts returns an error for a host in a policy that cannot be read.
func checkHosts(policy *messages.SandboxPolicy) error {
	if policy.Network == nil {
		return nil
	}
	_, err := hosts.NewRules(policy.Network.Hosts)
	return err
}
