package execbus

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
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
	proxy   *network.Proxy
	program string          // by which ssh reaches hosts
	work    *sync.WaitGroup // of the runtime, which waits for it when it shuts down

	mu       sync.Mutex
	loopback bool // a rule opens the host's
}

// newNetwork makes the proxy of a session.
func (r *Runtime) newNetwork(o actors.NetworkOptions, internet func(*network.Options)) actors.Network {
	options := network.Options{
		Ask: func(ctx context.Context, q network.Question) error {
			return o.Ask(ctx, hosts.Request{Process: q.Process, Host: q.Host, Port: q.Port, Protocol: q.Protocol})
		},
		AskTimeout: max(network.DefaultAskTimeout, o.AskTimeout),
		Record: func(c messages.Connection) {
			r.around.Telemetry.Connected(c)
			r.around.Bus.Publish(messages.NetworkConnection{Origin: messages.Origin{Session: o.Session, Process: c.Process, At: time.Now()}, Connection: c})
		},
		Upstream: func(u *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: u}) },
	}
	if internet != nil {
		internet(&options)
	}
	return &sessionNetwork{work: &r.proxies, program: r.program, proxy: network.New(options)}
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

// ServeNames implements actors.Network.
func (n *sessionNetwork) ServeNames(packets net.PacketConn, listeners []net.Listener) {
	n.work.Go(func() { n.proxy.ServeNames(packets, listeners) })
}

// Begin implements actors.Network.
func (n *sessionNetwork) Begin(process messages.ProcessID, env, base []string) []string {
	n.proxy.Begin(process)
	n.mu.Lock()
	loopback := n.loopback
	n.mu.Unlock()
	users := slices.Concat(base, env) // what the host has, too: a command may have been given little of it, and needs its certificates
	variables := network.Environment{Address: ptyio.ProxyAddress(), User: n.proxy.Credential(process), LoopbackByProxy: loopback, Program: n.program}.Variables(users)
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

// findProgram is the path of the program execbus, for commands; empty if there is none. A relative path in PATH means something else
// to each command.
func findProgram(named string) string {
	if named != "" {
		return named
	}
	found, err := exec.LookPath("execbus")
	if err != nil || !filepath.IsAbs(found) {
		return ""
	}
	return found
}

// checkHosts returns an error for a host in a policy that cannot be read.
func checkHosts(policy *messages.SandboxPolicy) error {
	if policy.Network == nil {
		return nil
	}
	_, err := hosts.NewRules(policy.Network.Hosts)
	return err
}
