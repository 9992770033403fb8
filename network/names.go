package network

import (
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// Bounds of names.
const (
	maxNames     = 4096    // that have an address; the one that was asked about least recently loses it
	maxQuery     = 4 << 10 // bytes
	nameLifetime = 1       // in seconds: how long programs may keep an answer
)

// named are the addresses that stand for hosts where programs connect by name: those of 198.18.0.0/15, which are on no network. An address
// is given again when all others have been.
type named struct {
	addresses map[hosts.Host]netip.Addr
	hosts     map[netip.Addr]hosts.Host
	recent    []hosts.Host // the last one is the one that was asked about last
	given     uint32
}

// addressOf gives a host an address.
func (p *Proxy) addressOf(host hosts.Host) netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := &p.named
	if at := slices.Index(n.recent, host); at >= 0 {
		n.recent = slices.Delete(n.recent, at, at+1)
	} else {
		if len(n.recent) == maxNames {
			oldest := n.recent[0]
			n.recent = slices.Delete(n.recent, 0, 1)
			delete(n.hosts, n.addresses[oldest])
			delete(n.addresses, oldest)
		}
		n.given = n.given%(1<<17-2) + 1 // neither the first nor the last of the range
		address := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 198<<24|18<<16+n.given)))
		n.addresses[host], n.hosts[address] = address, host
	}
	n.recent = append(n.recent, host)
	return n.addresses[host]
}

// hostAt is the host that an address stands for.
func (p *Proxy) hostAt(address netip.Addr) (hosts.Host, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	host, known := p.named.hosts[address.Unmap()]
	return host, known
}

// ServeNames serves programs that connect by name, until Close or until the sockets are closed, and closes them. Packets brings queries of the
// DNS. Names that may be connected to on the port of a listener, or that are asked about, get an address; others do not exist. No query
// goes further than here. The listeners get the connections to such addresses, which are judged like those that come to the proxy, as those
// of process 0.
func (p *Proxy) ServeNames(packets net.PacketConn, listeners []net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	var ports []uint16
	for _, listener := range listeners {
		ports = append(ports, netip.MustParseAddrPort(listener.Addr().String()).Port())
		all.Go(func() { _ = p.serve(listener, p.serveNamed) })
	}
	defer packets.Close()
	p.mu.Lock()
	ended := p.ended.Err() != nil
	p.listeners[packets] = true
	p.mu.Unlock()
	for query := make([]byte, maxQuery); !ended; {
		n, from, err := packets.ReadFrom(query)
		if err != nil {
			break
		}
		if answer := p.answerQuery(query[:n], ports); answer != nil {
			_, _ = packets.WriteTo(answer, from)
		}
	}
	p.mu.Lock()
	delete(p.listeners, packets)
	p.mu.Unlock()
}

// answerQuery answers a query of the DNS; nil where there is no question to answer.
func (p *Proxy) answerQuery(query []byte, ports []uint16) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	reply := dnsmessage.Header{ID: header.ID, Response: true, OpCode: header.OpCode, RecursionDesired: header.RecursionDesired, RecursionAvailable: true}
	var address netip.Addr
	switch {
	case header.OpCode != 0 || question.Class != dnsmessage.ClassINET:
		reply.RCode = dnsmessage.RCodeNotImplemented
	default:
		var exists bool
		if address, exists = p.lookupNamed(question, ports); !exists {
			reply.RCode = dnsmessage.RCodeNameError
		}
	}
	b := dnsmessage.NewBuilder(nil, reply)
	_ = b.StartQuestions()
	_ = b.Question(question)
	if address.IsValid() {
		_ = b.StartAnswers()
		_ = b.AResource(dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: nameLifetime}, dnsmessage.AResource{A: address.As4()})
	}
	answer, err := b.Finish()
	if err != nil {
		return nil
	}
	return answer
}

// lookupNamed says whether a name exists, and its address if that is what is asked for.
func (p *Proxy) lookupNamed(question dnsmessage.Question, ports []uint16) (address netip.Addr, exists bool) {
	host, err := hosts.Parse(question.Name.String())
	if _, literal := host.Address(); err != nil || literal {
		return address, false
	}
	snapshot, _ := p.current()
	var why *connection
	for _, port := range ports {
		for _, protocol := range []messages.HostProtocol{"", messages.HostHTTP} {
			request := hosts.Request{Host: host, Port: port, Protocol: protocol}
			v := snapshot.Decide(request)
			if v.Action != hosts.Deny {
				if question.Type == dnsmessage.TypeA {
					address = p.addressOf(host)
				}
				return address, true
			}
			if why == nil || port == 443 && protocol == "" {
				why = p.begin(request, "")
				why.take(v)
				why.record.Suggestion, why.record.Reason = v.Suggestion, v.Text
			}
		}
	}
	if why != nil && question.Type == dnsmessage.TypeA {
		p.recorded(why.record)
	}
	return address, false
}

// namedConn is a connection to an address that stands for a host, over which a program speaks plain HTTP.
type namedConn struct {
	net.Conn
	host hosts.Host
	port uint16
}

// serveNamed serves a connection to an address that stands for a host. Its program does not know of a proxy: it is told by TLS or HTTP if
// it is refused, and otherwise by the end.
func (p *Proxy) serveNamed(conn net.Conn) {
	at := netip.MustParseAddrPort(conn.LocalAddr().String())
	host, known := p.hostAt(at.Addr())
	if !known { // 127.0.0.1 leads here, too
		conn.Close()
		p.release(conn)
		return
	}
	request := hosts.Request{Host: host, Port: at.Port()}
	snapshot, _ := p.current()
	first := byte(recordHandshake)
	if v := snapshot.Decide(request); v.Protocol != messages.HostTCP { // there the server may speak first
		var err error
		conn.SetReadDeadline(time.Now().Add(headerTimeout))
		first, err = peek(conn)
		conn.SetReadDeadline(time.Time{})
		if err != nil {
			conn.Close()
			p.release(conn)
			return
		}
	}
	if first != recordHandshake {
		if !p.feed.put(&namedConn{conn, host, at.Port()}) {
			conn.Close()
			p.release(conn)
		}
		return
	}
	c := p.begin(request, "")
	far, err := c.openWatched(conn)
	if err != nil {
		c.note(err)
		if c.record.Protocol != messages.HostTCP {
			c.farewell(conn, []byte{first}, err)
		}
		p.hangUp(conn)
		c.end(err)
		p.release(conn)
		return
	}
	c.tunnel(conn, far, nil, func(*refusal) string { return "" })
}

// serveNamedHTTP serves a request that came over a connection to a host, for no other than that.
func (p *Proxy) serveNamedHTTP(w http.ResponseWriter, r *http.Request, conn *namedConn) {
	c := p.begin(hosts.Request{Host: conn.host, Port: conn.port, Protocol: messages.HostHTTP}, "")
	authority := r.Host
	if _, _, err := net.SplitHostPort(authority); err != nil {
		authority += ":80"
	}
	host, _, err := hosts.ParseAuthority(authority)
	switch {
	case r.Method == http.MethodConnect:
		c.refuseHTTP(w, r, malformed("this is no proxy; the one that the proxy variables name is"))
	case err != nil || host != conn.host:
		c.refuseHTTP(w, r, &refusal{status: http.StatusMisdirectedRequest, reason: hosts.NotAllowed, decision: "deny", protocol: messages.HostHTTP,
			text: "the request is for another host, " + messages.Visible(r.Host[:min(len(r.Host), 300)])})
	default:
		c.exchange(w, r)
	}
}
