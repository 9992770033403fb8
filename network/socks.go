package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// Numbers of SOCKS5 (RFC 1928, RFC 1929).
const (
	socksVersion    = 5
	socksConnect    = 1
	socksAnonymous  = 0
	socksPassword   = 2
	socksNoMethod   = 255
	socksIPv4       = 1
	socksName       = 3
	socksIPv6       = 4
	passwordVersion = 1

	socksDone              = 0
	socksFailed            = 1
	socksNotAllowed        = 2
	socksHostUnreachable   = 4
	socksRefused           = 5
	socksNoSuchCommand     = 7
	socksNoSuchAddressKind = 8
)

// serveSOCKS serves a connection that begins with the byte of SOCKS5.
func (p *Proxy) serveSOCKS(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(headerTimeout))
	c, err := p.readSOCKS(conn)
	conn.SetDeadline(time.Time{})
	if err == nil {
		var far net.Conn
		if far, err = c.openWatched(conn); err == nil {
			c.tunnel(conn, far, nil, func(r *refusal) string {
				if r != nil {
					return string(socksReply(r.code))
				}
				return string(socksReply(socksDone))
			})
			return
		}
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		c.note(err)
		conn.SetWriteDeadline(time.Now().Add(headerTimeout))
		conn.Write(socksReply(r.code))
	}
	conn.Close()
	if c != nil {
		c.end(err)
	}
	p.release(conn)
}

func socksReply(code byte) []byte { return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0} }

// openWatched opens the tunnel, unless the program hangs up meanwhile.
func (c *connection) openWatched(conn net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithCancel(c.proxy.ended)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if _, err := peek(conn); err != nil {
			cancel()
		}
	}()
	far, err := c.open(ctx)
	conn.SetReadDeadline(time.Unix(1, 0)) // ends the watch
	<-watched
	conn.SetReadDeadline(time.Time{})
	return far, err
}

// readSOCKS reads a greeting and a request. The connection is nil where no host was named.
func (p *Proxy) readSOCKS(conn net.Conn) (*connection, error) {
	process, err := p.greet(conn)
	if err != nil {
		return nil, err
	}
	head, err := read(conn, 4)
	if err != nil {
		return nil, err
	}
	c := p.begin(hosts.Request{Process: process}, "")
	switch {
	case head[0] != socksVersion || head[2] != 0:
		return c, &refusal{code: socksFailed, text: "the request is not one of SOCKS5"}
	case head[1] != socksConnect:
		return c, &refusal{code: socksNoSuchCommand, text: "of SOCKS5 only the command to connect is served"}
	}
	var written string
	var host hosts.Host
	switch head[3] {
	case socksIPv4, socksIPv6:
		raw, err := read(conn, map[byte]int{socksIPv4: 4, socksIPv6: 16}[head[3]])
		if err != nil {
			return c, err
		}
		address, _ := netip.AddrFromSlice(raw)
		written = address.String()
	case socksName:
		length, err := read(conn, 1)
		if err != nil {
			return c, err
		}
		name, err := read(conn, int(length[0]))
		if err != nil {
			return c, err
		}
		written = string(name)
	default:
		return c, &refusal{code: socksNoSuchAddressKind, text: "there is no such kind of address in SOCKS5"}
	}
	raw, err := read(conn, 2)
	if err != nil {
		return c, err
	}
	port := binary.BigEndian.Uint16(raw)
	if host, err = hosts.Parse(written); err == nil && port == 0 {
		err = errors.New("0 is no port")
	}
	c = p.begin(hosts.Request{Process: process, Host: host, Port: port}, written)
	if err != nil {
		return c, &refusal{code: socksNotAllowed, text: c.record.Host + " is no host to connect to: " + err.Error()}
	}
	return c, nil
}

// greet chooses the way in which the program says who it is: by its credential, or not at all.
func (p *Proxy) greet(conn net.Conn) (messages.ProcessID, error) {
	head, err := read(conn, 2)
	if err != nil {
		return 0, err
	}
	methods, err := read(conn, int(head[1]))
	if err != nil {
		return 0, err
	}
	switch {
	case slices.Contains(methods, socksPassword):
		return p.authenticate(conn)
	case slices.Contains(methods, socksAnonymous):
		_, err = conn.Write([]byte{socksVersion, socksAnonymous})
		return 0, err
	}
	conn.Write([]byte{socksVersion, socksNoMethod})
	return 0, errors.New("the program knows no way to log in that this proxy knows")
}

func (p *Proxy) authenticate(conn net.Conn) (messages.ProcessID, error) {
	if _, err := conn.Write([]byte{socksVersion, socksPassword}); err != nil {
		return 0, err
	}
	var fields [2]string
	head, err := read(conn, 1)
	for i := 0; i < len(fields) && err == nil; i++ {
		var length, field []byte
		if length, err = read(conn, 1); err == nil {
			field, err = read(conn, int(length[0]))
		}
		fields[i] = string(field)
	}
	if err != nil {
		return 0, err
	}
	process, ok := p.process(fields[0], fields[1])
	if !ok || head[0] != passwordVersion {
		conn.Write([]byte{passwordVersion, 1})
		return 0, errors.New("the credential for the proxy is not one of this proxy")
	}
	_, err = conn.Write([]byte{passwordVersion, 0})
	return process, err
}

func read(conn net.Conn, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(conn, b)
	return b, err
}
