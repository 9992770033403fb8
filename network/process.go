package network

import (
	"errors"
	"slices"

	"github.com/execbus/execbus/messages"
)

// Begin makes the proxy keep what a process is not allowed, until End.
func (p *Proxy) Begin(process messages.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked[process] = nil
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

// End ends the connections of a process that has ended, and forgets what it was not allowed.
func (p *Proxy) End(process messages.ProcessID) {
	p.mu.Lock()
	delete(p.blocked, process)
	var left []*connection
	for c := range p.live {
		if c.request.Process == process {
			left = append(left, c)
		}
	}
	p.mu.Unlock()
	for _, c := range left {
		c.stop("its process has ended")
	}
}
