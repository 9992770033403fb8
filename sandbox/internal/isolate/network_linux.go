package isolate

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
)

// Network is a network namespace that several commands share. They can reach each other's servers, and a listener that was made with
// it, and nothing else. It is safe for concurrent use until it is closed.
type Network struct{ user, net int }

// NewNetwork makes a network, in which loopback is up, on this thread. If a port is named, it also returns a socket that listens there
// on 127.0.0.1, which is the caller's; otherwise -1. Nothing in the network can have taken the port before.
func NewNetwork(port uint16) (n *Network, listener int, err error) {
	var b builder
	b.identity()
	socket := birth.NewMemory(0)
	request := birth.Words('l'|'o'<<8, 0, unix.IFF_UP, 0, 0) // ifreq
	b.add(birth.Call("socket", unix.SYS_SOCKET, birth.Number(unix.AF_INET), birth.Number(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), birth.Number(0)).Keep(socket, 0),
		birth.Call("set loopback up", unix.SYS_IOCTL, socket.Word(0), birth.Number(unix.SIOCSIFFLAGS), request),
		birth.Call("close the socket", unix.SYS_CLOSE, socket.Word(0)))
	kept := birth.NewMemory(0, 0, 0)
	if port != 0 {
		b.add(birth.Call("make the proxy's socket", unix.SYS_SOCKET, birth.Number(unix.AF_INET), birth.Number(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), birth.Number(0)).Keep(kept, 2),
			birth.Call("bind the proxy's socket", unix.SYS_BIND, kept.Word(2), loopback(port), birth.Number(unix.SizeofSockaddrInet4)),
			birth.Call("listen for the proxy", unix.SYS_LISTEN, kept.Word(2), birth.Number(backlog)))
	}
	for i, name := range []string{"user", "net"} {
		b.add(birth.Call("open the "+name+" namespace", unix.SYS_OPENAT, here(), birth.Text("/proc/self/ns/"+name),
			birth.Number(unix.O_RDONLY|unix.O_CLOEXEC)).Keep(kept, i))
	}
	words, err := birth.Visit(unix.CLONE_NEWUSER|unix.CLONE_NEWNET, b.steps, kept)
	if err != nil {
		return nil, -1, err
	}
	if listener = -1; port != 0 {
		listener = int(words[2])
	}
	return &Network{int(words[0]), int(words[1])}, listener, nil
}

// backlog is how many connections wait until the host accepts them, if its kernel lets so many wait.
const backlog = 4096

// loopback is a struct sockaddr_in for 127.0.0.1.
func loopback(port uint16) birth.Operand {
	var address [unix.SizeofSockaddrInet4]byte
	binary.NativeEndian.PutUint16(address[0:], unix.AF_INET)
	binary.BigEndian.PutUint16(address[2:], port)
	copy(address[4:], []byte{127, 0, 0, 1})
	return birth.Words(binary.NativeEndian.Uint64(address[0:]), 0)
}

// join returns the steps that enter the network. The user namespace comes first, because it gives the right to enter the
// other.
func (n *Network) join() []birth.Step {
	return []birth.Step{
		birth.System("enter the network's user namespace", unix.SYS_SETNS, uintptr(n.user), unix.CLONE_NEWUSER),
		birth.System("enter the network namespace", unix.SYS_SETNS, uintptr(n.net), unix.CLONE_NEWNET),
	}
}

// Close gives up the network. It exists until the last process in it has ended.
func (n *Network) Close() {
	_ = unix.Close(n.user)
	_ = unix.Close(n.net)
}
