package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/network"
	"github.com/execbus/execbus/policy/hosts"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/harness"
)

const (
	// relayed goes through a tunnel in a turn, and relayPiece is how much of it is written at once.
	relayed    = 1 << 30
	relayPiece = 256 << 10
	// idleTunnels are open at once. A process has a descriptor for each side of a tunnel, so two proxies share them.
	idleTunnels = 10_000
	idleProxies = 2
	// connectors connect at the same time, each so often in a turn.
	connectors = 16
	connects   = 50
)

func networkRows() []row {
	return []row{
		{name: "exec-isolated-hosts", about: "exec-result isolated with the network of some hosts, which it does not use, and without a network", metrics: ratio(1.1), open: hosted},
		{name: "proxy-relay", about: "1 GiB through a tunnel for plain TCP, and through a relay in Go", metrics: []metric{{unit: megabytes, judge: atLeast, limit: 0.7}}, open: relays},
		{name: "proxy-first", about: "a connection and the first byte of its server, by CONNECT, and through that relay",
			metrics: []metric{{}, {name: "more", judge: moreMost, limit: 1000}, tail}, open: firstBytes},
		{name: "proxy-connections", about: "the same by 16 at once, for each: 500 µs are 2,000 in a second", metrics: []metric{{judge: most, limit: 500}}, open: connections},
		{name: "proxy-idle", about: "10,000 idle tunnels, through each of which bytes have gone, of two proxies", fresh: true, open: idle,
			metrics: []metric{{name: "rss for each", unit: kibibytes, judge: most, limit: 24}, {name: "pipes", of: "pipes", unit: pieces, judge: most, limit: 0},
				{name: "threads of a proxy", of: "threads", unit: pieces}}},
	}
}

// hosted compares a session whose commands may talk to a host with one that has no network.
func hosted(ctx context.Context, s *scope) pair {
	runtime, _ := s.open(execbus.Options{Spawner: s.spawner(sandbox.Options{})}, execbus.SessionOptions{})
	with := s.inside(runtime, messages.AssuranceIsolated, false)
	must(with.UpdateEnvironment(ctx, messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true,
		Network: &messages.NetworkPolicy{Hosts: []messages.HostRule{{Host: "**.example.com", Decision: messages.HostAllow}}}}}))
	return s.against(ctx, s.inside(runtime, messages.AssuranceIsolated, false), with)
}

// serve serves each connection to a port of this machine in a goroutine, until the row was measured.
func (s *scope) serve(each func(net.Conn)) (address string) {
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	s.after(func() { _ = listener.Close() })
	go accept(listener, each)
	return listener.Addr().String()
}

func accept(listener net.Listener, each func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go each(conn)
	}
}

// drains reads all that comes.
func drains(conn net.Conn) {
	defer conn.Close()
	for buffer := make([]byte, 1<<20); ; {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
	}
}

// greets sends a byte.
func greets(conn net.Conn) {
	defer conn.Close()
	_, _ = conn.Write([]byte("x"))
	_, _ = conn.Read(make([]byte, 1))
}

// bareRelay is a relay in Go that does nothing else.
func (s *scope) bareRelay(to string) (address string) {
	return s.serve(func(near net.Conn) {
		defer near.Close()
		far, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
	})
}

// proxyTo is a proxy that lets plain TCP to one server pass.
func proxyTo(server string, most int) *network.Proxy {
	rules := get(hosts.NewRules([]messages.HostRule{{Host: server, Protocol: messages.HostTCP, Decision: messages.HostAllow}}))
	return network.New(network.Options{Snapshot: hosts.Snapshot{Rules: rules}, MaxConnections: most})
}

func (s *scope) proxyTo(server string) (address string) {
	proxy := proxyTo(server, 0)
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	s.after(func() { _ = proxy.Close() })
	go func() { _ = proxy.Serve(listener) }()
	return listener.Addr().String()
}

// dialer connects to a server in one of both ways.
type dialer func() (*net.TCPConn, error)

func through(relay string) dialer {
	return func() (*net.TCPConn, error) {
		conn, err := net.Dial("tcp", relay)
		if err != nil {
			return nil, err
		}
		return conn.(*net.TCPConn), nil
	}
}

const opened = "HTTP/1.1 200 Connection established\r\n\r\n"

// tunnels connects through a proxy.
func tunnels(proxy, server string) dialer {
	return func() (*net.TCPConn, error) {
		conn, err := through(proxy)()
		if err != nil {
			return nil, err
		}
		answer := make([]byte, len(opened))
		if _, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", server, server); err == nil {
			_, err = io.ReadFull(conn, answer)
		}
		if err == nil && string(answer) != opened {
			err = fmt.Errorf("the proxy answered %q", answer)
		}
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	}
}

// relays sends what the other end reads. Most of the last bytes have been read when the last ones are taken.
func relays(_ context.Context, s *scope) pair {
	server, piece, count := s.serve(drains), make([]byte, relayPiece), s.some(relayed, relayed/16)
	send := func(dial dialer) loop {
		return func(ctx context.Context, took series) {
			conn := get(dial())
			defer conn.Close()
			began := time.Now()
			for sent := 0; sent < count; sent += len(piece) {
				get(conn.Write(piece))
			}
			took.add("", float64(count)/1e6/time.Since(began).Seconds())
			must(ctx.Err())
		}
	}
	return pair{bare: send(through(s.bareRelay(server))), ours: send(tunnels(s.proxyTo(server), server))}
}

// greeted connects, and waits for the server's byte. Without lingering the ports do not run out.
func greeted(dial dialer) error {
	conn, err := dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetLinger(0)
	_, err = conn.Read(make([]byte, 1))
	return err
}

func firstBytes(_ context.Context, s *scope) pair {
	server := s.serve(greets)
	way := func(dial dialer) loop { return timed(func(context.Context) error { return greeted(dial) }) }
	return pair{bare: way(through(s.bareRelay(server))), ours: way(tunnels(s.proxyTo(server), server)), turns: s.turns()}
}

func connections(_ context.Context, s *scope) pair {
	server := s.serve(greets)
	way := func(dial dialer) loop {
		return func(_ context.Context, took series) {
			began := time.Now()
			must(together(connectors, func(int) error {
				for range connects {
					if err := greeted(dial); err != nil {
						return err
					}
				}
				return nil
			}))
			took.add("", micros(time.Since(began))/connectors/connects)
		}
	}
	return pair{bare: way(through(s.bareRelay(server))), ours: way(tunnels(s.proxyTo(server), server))}
}

// idle measures processes that are proxies and nothing else. The servers are another one, and this one has the programs' ends.
func idle(_ context.Context, s *scope) pair {
	return pair{ours: func(ctx context.Context, took series) {
		server := s.helper("sink")("")
		count := s.some(idleTunnels, idleTunnels/10) / idleProxies
		for range idleProxies {
			say := s.helper("proxy")
			proxy := say(server)
			before, own, _ := look(say)
			dial := tunnels(proxy, server)
			for range count {
				conn := get(dial())
				s.after(func() { _ = conn.Close() })
				get(conn.Write(message))
				must(ctx.Err())
			}
			after, pipes, threads := look(say)
			took.add("", float64(after-before)/float64(count))
			took.add("pipes", float64(pipes-own))
			took.add("threads", float64(threads))
		}
	}}
}

// look asks a proxy what it holds.
func look(say func(string) string) (resident, pipes, threads int) {
	get(fmt.Sscan(say("look"), &resident, &pipes, &threads))
	return resident, pipes, threads
}

// helper starts this program as one that answers lines. It ends with its input.
func (s *scope) helper(name string) (say func(string) string) {
	argv := writer(name)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	stdin, stdout := get(cmd.StdinPipe()), bufio.NewReader(get(cmd.StdoutPipe()))
	must(cmd.Start())
	s.after(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return func(text string) string {
		get(io.WriteString(stdin, text+"\n"))
		return strings.TrimSpace(get(stdout.ReadString('\n')))
	}
}

// answer answers the lines of the input until its end.
func answer(out io.Writer, to func(string) string) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Fprintln(out, to(lines.Text()))
	}
}

// manyDescriptors lets this process have as many as it may.
func manyDescriptors() {
	var limit syscall.Rlimit
	must(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	must(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
}

// beSink is a server that reads nothing.
func beSink(out io.Writer) {
	manyDescriptors()
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	held := make(chan net.Conn, idleTunnels) // what nobody holds is closed with the garbage
	go accept(listener, func(conn net.Conn) { held <- conn })
	answer(out, func(string) string { return listener.Addr().String() })
}

// beProxy is a proxy to the server that its first line names. Then it answers each line with what it holds, in KiB, pipes and threads.
func beProxy(out io.Writer) {
	manyDescriptors()
	var proxy *network.Proxy
	answer(out, func(text string) string {
		if proxy == nil {
			proxy = proxyTo(text, idleTunnels)
			listener := get(net.Listen("tcp", "127.0.0.1:0"))
			go func() { _ = proxy.Serve(listener) }()
			return listener.Addr().String()
		}
		time.Sleep(restTime) // until nothing flows
		debug.FreeOSMemory() // and pipes that package net keeps for others are gone
		debug.FreeOSMemory()
		time.Sleep(restTime / 10)
		pipes := 0
		for _, entry := range get(os.ReadDir("/proc/self/fd")) {
			if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
				pipes++
			}
		}
		return fmt.Sprint(get(harness.ResidentKiB(os.Getpid())), pipes, harness.Threads(os.Getpid()))
	})
}
