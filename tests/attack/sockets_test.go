//go:build linux

package attack

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// ear listens outside. A process that reaches it has won.
type ear chan struct{}

// heard waits a moment, and reports whether a process has reached the ear.
func (e ear) heard() bool {
	select {
	case <-e:
		return true
	case <-time.After(50 * time.Millisecond):
		return false
	}
}

// streams listens for connections.
func streams(s *scene, network, address string) (ear, net.Addr) {
	l, err := net.Listen(network, address)
	must(s, err)
	s.Cleanup(func() { _ = l.Close() })
	e := make(ear, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			e <- struct{}{}
		}
	}()
	return e, l.Addr()
}

// packets listens for datagrams.
func packets(s *scene, network, address string) (ear, net.Addr) {
	c, err := net.ListenPacket(network, address)
	must(s, err)
	s.Cleanup(func() { _ = c.Close() })
	e := make(ear, 8)
	go func() {
		for {
			if _, _, err := c.ReadFrom(make([]byte, 64)); err != nil {
				return
			}
			e <- struct{}{}
		}
	}()
	return e, c.LocalAddr()
}

// reach turns an attempt to reach an ear into an attack.
func reach(name string, listen func(*scene) ear, act func(places) error) attack {
	ears := map[*scene]ear{}
	return attack{name: name, setup: func(s *scene) { ears[s] = listen(s) }, act: act,
		won: func(s *scene) bool { return ears[s].heard() }}
}

func localhost(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

// connecting connects a socket of a kind.
func connecting(family, kind, protocol int, to func(places) unix.Sockaddr) func(places) error {
	return func(p places) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err != nil {
			return err
		}
		return unix.Connect(fd, to(p))
	}
}

// sending sends a datagram.
func sending(family, kind int, to func(places) unix.Sockaddr) func(places) error {
	return func(p places) error {
		fd, err := unix.Socket(family, kind, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("x"), 0, to(p))
	}
}

func sockets() []attack {
	tcp := func(s *scene) ear {
		e, addr := streams(s, "tcp4", "127.0.0.1:0")
		s.TCP = addr.(*net.TCPAddr).Port
		return e
	}
	udp := func(s *scene) ear {
		e, addr := packets(s, "udp4", "127.0.0.1:0")
		s.UDP = addr.(*net.UDPAddr).Port
		return e
	}
	stream := func(s *scene) ear { e, _ := streams(s, "unix", s.Out+"/s"); return e }
	datagram := func(s *scene) ear { e, _ := packets(s, "unixgram", s.Out+"/s"); return e }
	abstract := func(s *scene) ear {
		s.Abstract = fmt.Sprintf("@execbus-attack-%d-%s", os.Getpid(), s.Out)
		e, _ := streams(s, "unix", s.Abstract[:min(len(s.Abstract), 100)])
		return e
	}
	abstractPackets := func(s *scene) ear {
		s.Abstract = fmt.Sprintf("@execbus-attack-%d-%s", os.Getpid(), s.Out)
		e, _ := packets(s, "unixgram", s.Abstract[:min(len(s.Abstract), 100)])
		return e
	}
	toTCP := func(p places) unix.Sockaddr { return localhost(p.TCP) }
	toUDP := func(p places) unix.Sockaddr { return localhost(p.UDP) }
	toPath := func(p places) unix.Sockaddr { return &unix.SockaddrUnix{Name: p.Out + "/s"} }
	toAbstract := func(p places) unix.Sockaddr { return &unix.SockaddrUnix{Name: p.Abstract[:min(len(p.Abstract), 100)]} }
	list := []attack{
		reach("network: TCP", tcp, connecting(unix.AF_INET, unix.SOCK_STREAM, 0, toTCP)),
		reach("network: Multipath TCP", tcp, connecting(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, toTCP)),
		reach("network: TCP, fast open", tcp, func(p places) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, localhost(p.TCP))
		}),
		reach("network: TCP by the version 6 of it", tcp, connecting(unix.AF_INET6, unix.SOCK_STREAM, 0, func(p places) unix.Sockaddr {
			return &unix.SockaddrInet6{Port: p.TCP, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}
		})),
		reach("network: UDP", udp, sending(unix.AF_INET, unix.SOCK_DGRAM, toUDP)),
		reach("network: UDP, connected", udp, func(p places) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			if err := unix.Connect(fd, localhost(p.UDP)); err != nil {
				return err
			}
			_, err = unix.Write(fd, []byte("x"))
			return err
		}),
		reach("network: a name server", udp, func(p places) error {
			c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", p.UDP))
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"))
			return err
		}),
		reach("network: unix socket with a path", stream, connecting(unix.AF_UNIX, unix.SOCK_STREAM, 0, toPath)),
		reach("network: unix datagram", datagram, sending(unix.AF_UNIX, unix.SOCK_DGRAM, toPath)),
		reach("network: unix datagram from a pair", datagram, func(p places) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendmsg(pair[0], []byte("x"), nil, toPath(p), 0)
		}),
		reach("network: descriptor passing", datagram, func(p places) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendmsg(fd, []byte("x"), unix.UnixRights(0), toPath(p), 0)
		}),
		reach("network: descriptor passing from a pair", datagram, func(p places) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(0), toPath(p), 0)
		}),
		reach("network: abstract socket", abstract, connecting(unix.AF_UNIX, unix.SOCK_STREAM, 0, toAbstract)),
		reach("network: abstract datagram", abstractPackets, sending(unix.AF_UNIX, unix.SOCK_DGRAM, toAbstract)),
		{name: "network: listen for others", act: func(p places) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			if err := os.WriteFile(p.Work+"/port", []byte(l.Addr().String()), 0o644); err != nil {
				return err
			}
			_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(200 * time.Millisecond))
			c, err := l.Accept()
			if err == nil {
				_ = c.Close()
			}
			return err
		}, setup: func(s *scene) {
			go func() {
				for range 100 {
					if at, err := os.ReadFile(s.Work + "/port"); err == nil {
						if c, err := net.Dial("tcp", string(at)); err == nil {
							_ = c.Close()
						}
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
		}},
	}
	with := func(a attack) attack {
		a.name += ", with the network on"
		a.policy = func(p *messages.SandboxPolicy) { p.NetworkAccess = true }
		return a
	}
	list = append(list,
		with(reach("network: unix socket with a path", stream, connecting(unix.AF_UNIX, unix.SOCK_STREAM, 0, toPath))),
		with(reach("network: unix datagram from a pair", datagram, func(p places) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendmsg(pair[0], []byte("x"), nil, toPath(p), 0)
		})),
	)
	for name, kind := range map[string]struct{ family, kind, protocol int }{
		"raw":       {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"packet":    {unix.AF_PACKET, unix.SOCK_RAW, 0},
		"vsock":     {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		"crypto":    {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		"key":       {unix.AF_KEY, unix.SOCK_RAW, 2},
		"tipc":      {unix.AF_TIPC, unix.SOCK_RDM, 0},
		"bluetooth": {unix.AF_BLUETOOTH, unix.SOCK_RAW, 1},
		"xdp":       {unix.AF_XDP, unix.SOCK_RAW, 0},
		"rds":       {unix.AF_RDS, unix.SOCK_SEQPACKET, 0},
		"can":       {unix.AF_CAN, unix.SOCK_RAW, 1},
		"rxrpc":     {unix.AF_RXRPC, unix.SOCK_DGRAM, unix.AF_INET},
		"smc":       {unix.AF_SMC, unix.SOCK_STREAM, 0},
		"audit":     {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
	} {
		list = append(list, attack{name: "socket family: " + name, act: func(places) error {
			fd, err := unix.Socket(kind.family, kind.kind, kind.protocol)
			if err == nil && name == "audit" { // making one is harmless; sending on it is not
				return unix.Sendto(fd, []byte{16, 0, 0, 0, 0xe8, 3, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
			}
			return err
		}})
	}
	return list
}
