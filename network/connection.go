package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// connection is one connection of a command, or one request in plain HTTP, from the request to the record.
type connection struct {
	proxy   *Proxy
	request hosts.Request
	verdict hosts.Verdict
	// upstream is the proxy by which the host is reached; nil if there is none.
	upstream *url.URL
	record   messages.Connection
	// cut ends it, and drain lets it end with what the program has sent; both are set by live. why is set by stop. All under the
	// proxy's lock.
	cut, drain func()
	why        string
}

func (p *Proxy) begin(request hosts.Request, written string) *connection {
	c := &connection{proxy: p, request: request}
	c.record = messages.Connection{Process: request.Process, Host: request.Host.String(), Port: request.Port, Protocol: request.Protocol, Began: time.Now()}
	if c.record.Host == "" {
		c.record.Host = messages.Visible(written[:min(len(written), 300)])
	}
	return c
}

// settle decides about the connection: about its name, then about what that leads to.
func (c *connection) settle(ctx context.Context) error {
	p := c.proxy
	v, err := p.judge(ctx, c.request)
	c.take(v)
	if err != nil {
		return err
	}
	addresses, err := p.lookup(ctx, c.request.Host)
	if err != nil {
		return err
	}
	c.request.Addresses, c.request.Own = addresses, p.ownAddresses()
	v, err = p.judge(ctx, c.request)
	c.take(v)
	if err != nil {
		return err
	}
	if p.options.Upstream != nil {
		scheme := map[messages.HostProtocol]string{messages.HostHTTP: "http"}[v.Protocol]
		if scheme == "" {
			scheme = "https"
		}
		c.upstream, err = p.options.Upstream(&url.URL{Scheme: scheme, Host: c.request.Host.Authority(c.request.Port)})
		if err == nil && c.upstream != nil && c.upstream.Scheme != "http" && c.upstream.Scheme != "https" {
			err = errors.New("its scheme is neither http nor https")
		}
		if err != nil {
			return unreachable(socksFailed, "the upstream proxy cannot be used: %v", err)
		}
		if c.upstream != nil {
			c.record.Upstream = c.upstream.Redacted()
		}
	}
	return nil
}

// take keeps a verdict. What a tunnel may carry is settled with the first one.
func (c *connection) take(v hosts.Verdict) {
	c.verdict, c.request.Protocol, c.record.Protocol, c.record.By, c.record.Suggestion = v, v.Protocol, v.Protocol, v.By, nil
}

// lookup finds what a host leads to. A name with a dot is never completed with the domains that this machine searches.
func (p *Proxy) lookup(ctx context.Context, host hosts.Host) ([]netip.Addr, error) {
	if address, is := host.Address(); is {
		return []netip.Addr{address}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	type found struct {
		addresses []netip.Addr
		err       error
	}
	answer := make(chan found, 1) // some resolvers do not heed their context
	select {
	case p.lookups <- struct{}{}:
		go func() {
			addresses, err := p.options.Resolver.LookupNetIP(ctx, "ip", absolute(host.String()))
			<-p.lookups
			answer <- found{addresses, err}
		}()
	case <-ctx.Done():
	}
	var f found
	select {
	case f = <-answer:
	case <-ctx.Done():
		f.err = errors.New("the resolver did not answer in time")
	}
	if f.err != nil || len(f.addresses) == 0 {
		return nil, unreachable(socksHostUnreachable, "%s has no address: %v", host, f.err)
	}
	addresses := slices.Clone(f.addresses[:min(len(f.addresses), maxAddresses)])
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, nil
}

func absolute(name string) string {
	for _, c := range name {
		if c == '.' {
			return name + "."
		}
	}
	return name
}

// ownAddresses are the addresses of this machine, at most a second old.
func (p *Proxy) ownAddresses() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.ownSince) < time.Second {
		return p.own
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return p.own
	}
	var own []netip.Addr
	for _, a := range interfaces {
		if n, ok := a.(*net.IPNet); ok {
			if address, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, address.Unmap())
			}
		}
	}
	p.own, p.ownSince = own, time.Now()
	return own
}

// checkedAddress is the key of the address that a dial was allowed for.
type checkedAddress struct{}

// sameAddress runs between a socket's birth and its connect: the address must be the one that was allowed.
func sameAddress(ctx context.Context, _, address string, _ syscall.RawConn) error {
	allowed, is := ctx.Value(checkedAddress{}).(netip.AddrPort)
	if !is {
		return nil // an upstream proxy, which the host's configuration names
	}
	if real, err := netip.ParseAddrPort(address); err != nil || netip.AddrPortFrom(real.Addr().Unmap(), real.Port()) != allowed {
		return fmt.Errorf("the connection would go to %s, and %s was allowed", address, allowed)
	}
	return nil
}

// dial connects to one of the addresses that were allowed, in their order.
func (c *connection) dial(ctx context.Context) (net.Conn, error) {
	var last error
	for _, address := range c.request.Addresses {
		at := netip.AddrPortFrom(address, c.request.Port)
		one, cancel := context.WithTimeout(context.WithValue(ctx, checkedAddress{}, at), dialTimeout)
		conn, err := c.proxy.options.Dial(one, "tcp", at.String())
		cancel()
		if err == nil {
			c.record.Address = at
			return conn, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	code := byte(socksHostUnreachable)
	if errors.Is(last, syscall.ECONNREFUSED) {
		code = socksRefused
	}
	return nil, unreachable(code, "%s cannot be reached: %v", c.request.Host, last)
}

// connectUpstream connects to the upstream proxy.
func (c *connection) connectUpstream(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	port := c.upstream.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[c.upstream.Scheme]
	}
	conn, err := c.proxy.options.Dial(ctx, "tcp", net.JoinHostPort(c.upstream.Hostname(), port))
	if err != nil {
		return nil, c.upstreamFailed(err)
	}
	return conn, nil
}

func (c *connection) upstreamFailed(err error) error {
	return unreachable(socksHostUnreachable, "the upstream proxy %s: %v", c.upstream.Redacted(), err)
}

// dialUpstream connects to the upstream proxy, and lets a tunnel be made to the host by its name.
func (c *connection) dialUpstream(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	conn, err := c.connectUpstream(ctx)
	if err != nil {
		return nil, err
	}
	far, err := Connect(ctx, conn, c.upstream, c.request.Host.Authority(c.request.Port))
	if err != nil {
		return nil, c.upstreamFailed(err)
	}
	return far, nil
}

// live puts the connection into the table of those that Update judges again, unless it is refused by now. drain is called once the program
// is gone.
func (c *connection) live(cut, drain func()) error {
	p := c.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.Err() != nil {
		return errEnded
	}
	if v := p.snapshot.Decide(c.request); v.Action != hosts.Allow {
		return refused(v, "it is no longer allowed: "+v.Text)
	}
	c.cut, c.drain = cut, drain
	p.live[c] = true
	return nil
}

// stop ends a connection that is live, at once.
func (c *connection) stop(why string) { c.stopping(why, func() func() { return c.cut }) }

// finish ends a connection that is live and whose program is gone: what the program has sent still arrives.
func (c *connection) finish(why string) { c.stopping(why, func() func() { return c.drain }) }

// stopping keeps why it ends, of which the first counts, and ends it in the way that is chosen.
func (c *connection) stopping(why string, way func() func()) {
	p := c.proxy
	p.mu.Lock()
	end := way()
	if c.why == "" {
		c.why = why
	}
	p.mu.Unlock()
	if end != nil {
		end()
	}
}

// end records the connection, with the reason that it was refused or ended for.
func (c *connection) end(err error) {
	p := c.proxy
	p.mu.Lock()
	delete(p.live, c)
	stopped := c.why
	p.mu.Unlock()
	if r, ok := errors.AsType[*refusal](err); ok {
		c.record.Suggestion = r.suggestion
	}
	switch {
	case stopped != "":
		c.record.Reason = stopped
	case err != nil:
		c.record.Reason = err.Error()
	}
	p.recorded(c.record)
}
