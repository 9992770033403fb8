package isolate

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
)

// Network is a network namespace that several commands share. They can reach each other's servers, and a listener that was made with
// it, and nothing else. It is safe for concurrent use until it is closed.
type Network struct {
	user, net int
	// Asks says that the first of its sockets asks who listens in it.
	Asks bool
}

// NewNetwork makes a network, in which loopback is up, on this thread. It also returns sockets in it, which are the caller's. The first is
// of netlink, and asks who listens there (sock_diag); Asks is false where the system has no such sockets. If a port for a proxy is
// named, the next listens there on 127.0.0.1. With ports by name there is one for datagrams on port 53 of 127.0.0.1, and one for each
// of these ports, on every address; those of 198.18.0.0/15 lead there. Nothing in the network can have taken a port before.
func NewNetwork(proxy int, byName []int) (n *Network, sockets []int, err error) {
	var b builder
	b.identity()
	socket := birth.NewMemory(0)
	request := func(name string, third, fourth uint64) birth.Operand { // ifreq
		var words [5]uint64
		for i := range len(name) {
			words[0] |= uint64(name[i]) << (8 * i)
		}
		words[2], words[3] = third, fourth
		return birth.Words(words[:]...)
	}
	b.add(birth.Call("socket", unix.SYS_SOCKET, birth.Number(unix.AF_INET), birth.Number(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), birth.Number(0)).Keep(socket, 0),
		birth.Call("set loopback up", unix.SYS_IOCTL, socket.Word(0), birth.Number(unix.SIOCSIFFLAGS), request("lo", unix.IFF_UP, 0)))
	if len(byName) > 0 { // a prefix of an address of loopback is local as a whole
		address, mask := inet([4]byte{198, 18, 0, 0}, 0), inet([4]byte{255, 254, 0, 0}, 0)
		b.add(birth.Call("add the addresses of names", unix.SYS_IOCTL, socket.Word(0), birth.Number(unix.SIOCSIFADDR), request("lo:n", address[0], address[1])),
			birth.Call("add all of them", unix.SYS_IOCTL, socket.Word(0), birth.Number(unix.SIOCSIFNETMASK), request("lo:n", mask[0], mask[1])))
	}
	b.add(birth.Call("close the socket", unix.SYS_CLOSE, socket.Word(0)))
	kept := birth.NewMemory(make([]uint64, 2+1+2+len(byName))...)
	b.add(birth.Call("make the socket that asks who listens", unix.SYS_SOCKET, birth.Number(unix.AF_NETLINK),
		birth.Number(unix.SOCK_RAW|unix.SOCK_CLOEXEC), birth.Number(unix.NETLINK_SOCK_DIAG)).Keep(kept, 2).MayFail())
	count := 1
	bound := func(what string, kind int, address [2]uint64) {
		at := 2 + count
		count++
		b.add(birth.Call("make the socket for "+what, unix.SYS_SOCKET, birth.Number(unix.AF_INET), birth.Number(kind|unix.SOCK_CLOEXEC), birth.Number(0)).Keep(kept, at),
			birth.Call("bind the socket for "+what, unix.SYS_BIND, kept.Word(at), birth.Words(address[:]...), birth.Number(unix.SizeofSockaddrInet4)))
		if kind == unix.SOCK_STREAM {
			b.add(birth.Call("listen for "+what, unix.SYS_LISTEN, kept.Word(at), birth.Number(backlog)))
		}
	}
	if loopback := [4]byte{127, 0, 0, 1}; proxy != 0 {
		bound("the proxy", unix.SOCK_STREAM, inet(loopback, proxy))
		if len(byName) > 0 {
			bound("names", unix.SOCK_DGRAM, inet(loopback, 53))
		}
		for _, port := range byName {
			bound("hosts by name", unix.SOCK_STREAM, inet([4]byte{}, port))
		}
	}
	for i, name := range []string{"user", "net"} {
		b.add(birth.Call("open the "+name+" namespace", unix.SYS_OPENAT, here(), birth.Text("/proc/self/ns/"+name),
			birth.Number(unix.O_RDONLY|unix.O_CLOEXEC)).Keep(kept, i))
	}
	words, err := birth.Visit(unix.CLONE_NEWUSER|unix.CLONE_NEWNET, b.steps, kept)
	if err != nil {
		return nil, nil, err
	}
	n = &Network{user: int(words[0]), net: int(words[1]), Asks: int(words[2]) >= 0} // otherwise it is a negative errno
	first := 2
	if !n.Asks {
		first++
	}
	for _, word := range words[first : 2+count] {
		sockets = append(sockets, int(word))
	}
	return n, sockets, nil
}

// backlog is how many connections wait until the host accepts them, if its kernel lets so many wait.
const backlog = 4096

// inet is a struct sockaddr_in.
func inet(address [4]byte, port int) [2]uint64 {
	var raw [unix.SizeofSockaddrInet4]byte
	binary.NativeEndian.PutUint16(raw[0:], unix.AF_INET)
	binary.BigEndian.PutUint16(raw[2:], uint16(port))
	copy(raw[4:], address[:])
	return [2]uint64{binary.NativeEndian.Uint64(raw[0:]), binary.NativeEndian.Uint64(raw[8:])}
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
