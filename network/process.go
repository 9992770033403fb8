package network

import (
	"errors"
	"slices"

	"github.com/execbus/execbus/messages"
)

// Begin makes the proxy keep what a process is not allowed, until End. A process that has begun goes on.
func (p *Proxy) Begin(process messages.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, begun := p.blocked[process]; !begun {
		p.blocked[process] = nil
	}
}

// note keeps what a process was not allowed, before the program learns of it. Of equal connections it keeps one, and no more than
// messages.MaxBlockedHosts.
func (c *connection) note(err error) {
	r, is := errors.AsType[*refusal](err)
	if c == nil || !is || r.reason == "" || c.record.Process == 0 {
		return
	}
	record, p := c.record, c.proxy
	record.Reason, record.Suggestion = r.text, r.suggestion
	p.mu.Lock()
	defer p.mu.Unlock()
	all, begun := p.blocked[record.Process]
	if !begun || len(all) >= messages.MaxBlockedHosts || slices.ContainsFunc(all, func(other messages.Connection) bool {
		return other.Host == record.Host && other.Port == record.Port && other.Protocol == record.Protocol
	}) {
		return
	}
	p.blocked[record.Process] = append(all, record)
}

// Blocked are the first connections that a process was not allowed to make, between Begin and End.
func (p *Proxy) Blocked(process messages.ProcessID) []messages.Connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.blocked[process])
}

// End ends the connections of a process that has ended, and forgets what it was not allowed. What the process had sent through a
// tunnel still arrives, if the other side takes it within a second. With the last process that has begun, those
// connections end, too, that did not say whose they are: a program that is gone need not have closed them, and not be seen to.
func (p *Proxy) End(process messages.ProcessID) {
	p.mu.Lock()
	_, begun := p.blocked[process]
	delete(p.blocked, process)
	last := begun && len(p.blocked) == 0
	ending := map[*connection]string{}
	for c := range p.live {
		switch {
		case c.request.Process == process:
			ending[c] = "its process has ended"
		case c.request.Process == 0 && last:
			ending[c] = "the last process has ended"
		}
	}
	p.mu.Unlock()
	for c, why := range ending {
		c.finish(why)
	}
}
