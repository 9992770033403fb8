package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/proxy"

	"github.com/execbus/execbus/network"
)

func connectUsage() string {
	return `Usage:
  execbus connect [SETTING]... HOST PORT

Connects to a port of a host through the proxy that the environment names, and passes on bytes: standard input to the host, and what
the host sends to standard output. Each direction ends by itself. It is a ProxyCommand for ssh, which reads no proxy variables. In a
sandbox with --allow-host, git is told of it in GIT_SSH_COMMAND; the rule names the port for tcp: --allow-host github.com:22/tcp.

The proxy is that of https_proxy, HTTPS_PROXY, all_proxy or ALL_PROXY, the first that is set: http://, https://, socks5:// or
socks5h://[USER:PASSWORD@]HOST[:PORT]. A proxy looks the host up. Without one, and to hosts that no_proxy or NO_PROXY lists, it
connects by itself.

` + settingsHelp("connect") + `
Exit codes: 0 when both directions have ended, 125 if the proxy does not allow the connection, 1 if it fails, 2 for wrong usage.

Examples:
  ssh -o ProxyCommand="execbus connect %h %p" git@github.com
  execbus connect --proxy socks5h://127.0.0.1:1080 mail.example.com 25
`
}

// Bounds of a connection.
const (
	proxyTimeout  = 10 * time.Second // to connect to the proxy, or to the host by itself
	answerTimeout = 5 * time.Minute  // for the proxy's answer: it may ask a person
	// outlives is for how long the input may be idle after the host has ended its direction: nothing says whether the host still
	// reads.
	outlives = 5 * time.Minute
)

// errNotAllowed says that the proxy refuses, and not that it fails.
var errNotAllowed = errors.New("not allowed")

// connect runs "connect".
func connect(args []string, std streams) int {
	var c config
	rest, code, done := configure("connect", connectUsage(), &c, args, std)
	if done {
		return code
	}
	if len(rest) != 2 {
		return misused(std, "name a host and a port", connectUsage())
	}
	host := strings.TrimSuffix(strings.TrimPrefix(rest[0], "["), "]")
	if port, err := strconv.ParseUint(rest[1], 10, 16); err != nil || port == 0 || host == "" {
		return misused(std, fmt.Sprintf("%q is no host and port; use a port from 1 to 65535", rest), connectUsage())
	}
	to := net.JoinHostPort(host, rest[1])
	through, err := findProxy(c.proxy, host, rest[1])
	if err != nil {
		fmt.Fprintln(std.err, "execbus:", err)
		return exitMisused
	}
	conn, err := dial(through, to)
	if err != nil {
		_ = failed(std, fmt.Errorf("%s: %w", to, err))
		if errors.Is(err, errNotAllowed) {
			return exitRefused
		}
		return exitFailed
	}
	defer conn.Close()
	if err := relay(conn, std); err != nil {
		if gone(err) {
			err = errors.New("the connection was cut at the other side")
		}
		return failed(std, fmt.Errorf("%s: %w", to, err))
	}
	return 0
}

// findProxy is the proxy for a host: the one that a setting names, or one of the environment; nil if there is none.
func findProxy(named, host, port string) (*url.URL, error) {
	variable := "--proxy"
	if named == "" {
		if past(cmp.Or(os.Getenv("no_proxy"), os.Getenv("NO_PROXY")), host, port) {
			return nil, nil
		}
		for _, variable = range []string{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
			if named = os.Getenv(variable); named != "" {
				break
			}
		}
	}
	if named == "" {
		return nil, nil
	}
	if !strings.Contains(named, "://") {
		named = "http://" + named
	}
	found, err := url.Parse(named)
	if err != nil || found.Hostname() == "" {
		return nil, fmt.Errorf("%s is no URL of a proxy; use one such as http://127.0.0.1:3128", variable) // its text may have a password
	}
	if _, known := proxyPorts[found.Scheme]; !known {
		return nil, fmt.Errorf("%s: a proxy cannot be asked by %s; use http, https, socks5 or socks5h", variable, found.Scheme)
	}
	return found, nil
}

// proxyPorts are the ports of proxies whose URL has none.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// past reports whether a list such as "localhost,.example.com,10.0.0.0/8,host:22" has a host. A name stands for those below it, too.
func past(list, host, port string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	address, _ := netip.ParseAddr(host)
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "*" {
			return true
		}
		if name, only, err := net.SplitHostPort(entry); err == nil {
			if only != port {
				continue
			}
			entry = name
		}
		if network, err := netip.ParsePrefix(entry); err == nil && network.Contains(address.Unmap()) {
			return true
		}
		name := strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		if name != "" && (host == name || strings.HasSuffix(host, "."+name) && !address.IsValid()) {
			return true
		}
	}
	return false
}

// dial connects to a host, through a proxy if there is one.
func dial(through *url.URL, to string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: proxyTimeout}
	if through == nil {
		return dialer.Dial("tcp", to)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	at := net.JoinHostPort(through.Hostname(), cmp.Or(through.Port(), proxyPorts[through.Scheme]))
	conn, err := dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("the proxy cannot be reached: %w", err)
	}
	tunnel := conn
	if strings.HasPrefix(through.Scheme, "socks5") {
		err = askSOCKS(ctx, conn, through, to)
	} else {
		tunnel, err = network.Connect(ctx, conn, through, to)
	}
	status, _ := errors.AsType[*network.StatusError](err)
	switch {
	case err == nil:
		return tunnel, nil
	case status != nil && status.Code == http.StatusForbidden:
		err = fmt.Errorf("%w: %s", errNotAllowed, cmp.Or(status.Text, status.Status))
	case strings.Contains(err.Error(), "not allowed by ruleset"): // of SOCKS, whose package has no type for it
		err = fmt.Errorf("%w by the proxy at %s", errNotAllowed, at)
	default:
		err = fmt.Errorf("the proxy at %s: %w", at, err)
	}
	_ = conn.Close()
	return nil, err
}

// askSOCKS lets a proxy connect conn to a host.
func askSOCKS(ctx context.Context, conn net.Conn, through *url.URL, to string) error {
	var user *proxy.Auth
	if through.User != nil {
		password, _ := through.User.Password()
		user = &proxy.Auth{User: through.User.Username(), Password: password}
	}
	socks, err := proxy.SOCKS5("tcp", through.Host, user, proxy.Direct)
	if err == nil { // its other methods hide that one direction can be closed
		_, err = socks.(interface {
			DialWithConn(ctx context.Context, conn net.Conn, network, address string) (net.Addr, error)
		}).DialWithConn(ctx, conn, "tcp", to)
	}
	return err
}

// relay passes on bytes until both directions have ended. An error of one ends both.
func relay(conn net.Conn, std streams) error {
	up, down := make(chan error), make(chan error, 1)
	over := make(chan struct{})
	defer close(over)
	go func() { // it may wait for input when relay returns
		_, err := io.Copy(ticking{conn, up, over}, std.in)
		if half, can := conn.(interface{ CloseWrite() error }); can && err == nil {
			err = half.CloseWrite()
		}
		select {
		case up <- cmp.Or(err, io.EOF):
		case <-over:
		}
	}()
	go func() {
		_, err := io.Copy(std.out, conn)
		if out, can := std.out.(io.Closer); can && err == nil {
			err = out.Close()
		}
		down <- err
	}()
	var idle <-chan time.Time
	for upEnded, downEnded := false, false; !upEnded || !downEnded; {
		select {
		case err := <-up:
			switch {
			case err == io.EOF:
				upEnded = true
			case err != nil && downEnded && gone(err): // the host has ended both directions
				return nil
			case err != nil:
				return err
			}
		case err := <-down:
			if err != nil {
				return err
			}
			downEnded = true
		case <-idle:
			return nil
		}
		if downEnded {
			idle = time.After(outlives)
		}
	}
	return nil
}

// gone reports whether an error says that nobody reads at the other side.
func gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// ticking is a connection that tells of each write, until relay is over.
type ticking struct {
	to    net.Conn
	ticks chan<- error
	over  <-chan struct{}
}

// Write implements io.Writer.
func (t ticking) Write(b []byte) (int, error) {
	n, err := t.to.Write(b)
	if err == nil {
		select {
		case t.ticks <- nil:
		case <-t.over:
			err = net.ErrClosed
		}
	}
	return n, err
}
