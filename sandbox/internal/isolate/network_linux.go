package isolate

import (
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
)

// Network is a network namespace that several commands share. They can reach each other's servers and nothing else. It is safe
// for concurrent use until it is closed.
type Network struct{ user, net int }

// NewNetwork makes a network, in which loopback is up, on this thread.
func NewNetwork() (*Network, error) {
	var b builder
	b.identity()
	socket := birth.NewMemory(0)
	request := birth.Words('l'|'o'<<8, 0, unix.IFF_UP, 0, 0) // ifreq
	b.add(birth.Call("socket", unix.SYS_SOCKET, birth.Number(unix.AF_INET), birth.Number(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), birth.Number(0)).Keep(socket, 0),
		birth.Call("set loopback up", unix.SYS_IOCTL, socket.Word(0), birth.Number(unix.SIOCSIFFLAGS), request),
		birth.Call("close the socket", unix.SYS_CLOSE, socket.Word(0)))
	kept := birth.NewMemory(0, 0)
	for i, name := range []string{"user", "net"} {
		b.add(birth.Call("open the "+name+" namespace", unix.SYS_OPENAT, here(), birth.Text("/proc/self/ns/"+name),
			birth.Number(unix.O_RDONLY|unix.O_CLOEXEC)).Keep(kept, i))
	}
	words, err := birth.Visit(unix.CLONE_NEWUSER|unix.CLONE_NEWNET, b.steps, kept)
	if err != nil {
		return nil, err
	}
	return &Network{int(words[0]), int(words[1])}, nil
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
