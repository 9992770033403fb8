package ptyio

import (
	"context"
	"net"
	"net/netip"

	"github.com/execbus/execbus/messages"
)

// Confinement says what children are allowed to do.
type Confinement struct {
	Policy messages.SandboxPolicy
	// Dir and TempDir are absolute paths of directories that workspace-write lets them write, besides those that the policy
	// names; TempDir is empty where there is none. No command can change them.
	Dir, TempDir string
	// Protected are absolute paths of files and directories of the host, such as its rule files, that no command may change wherever
	// they lie. The settings of execbus itself are protected anyway.
	Protected []string
	// Least is what a launch must get. The zero value is explained at messages.Assurance.
	Least messages.Assurance
	// Additional are the extra permissions of one command; nil for none. Relative paths in it are relative to AdditionalDir.
	Additional    *messages.AdditionalPermissions
	AdditionalDir string
	// Proxy, if not nil, gives children that may not use the network one that has nothing but a listener on [ProxyAddress], by which they
	// reach what the owner of Proxy lets them reach. Proxy gets each such listener before the first child that can connect to it is
	// known, serves it in a goroutine, and must not block. The spawner closes the listener when no child can reach it any more. A spawner
	// that cannot do this, or that would leave children another way out, refuses the launch.
	Proxy func(net.Listener) `json:"-"`
	// ByName are ports, at most 32, on which such children also reach hosts by their names, as if they were connected to the network: a
	// resolver at port 53 answers, and what it answers leads to listeners on these ports. Names gets its packets and the listeners
	// with the listener for Proxy, under the same terms. No child can listen on these ports. Without a configuration of resolvers
	// (/etc/resolv.conf) children do not ask that resolver.
	ByName []int                                `json:"-"`
	Names  func(net.PacketConn, []net.Listener) `json:"-"`
}

// ProxyAddress is where children find what Confinement.Proxy serves.
func ProxyAddress() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 61080)
}

// Enclosure is a confinement whose paths the spawner has looked up. If a path leads elsewhere later, launches are refused. It
// is safe for concurrent use.
type Enclosure interface {
	// Confinement is the confinement that it was made from.
	Confinement() Confinement
	// Widen makes an enclosure that allows more, for one command with this directory. Like Spawner.Enclose it looks up the
	// paths now, and may block. The new enclosure is independent of this one and must be released separately.
	Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (Enclosure, error)
	// Check looks whether its paths still lead where they did. It may block. Spawn calls it.
	Check() error
	// Release frees its resources. Later launches with it are refused. It may be called more than once.
	Release()
}

// Keeper is an enclosure that knows what it keeps from commands.
type Keeper interface {
	// Keeps returns the paths that commands must not change although they lie where commands may write, and those that they must not read:
	// absolute, without symbolic links, each with everything below it.
	Keeps() (unwritable, unreadable []string)
}

// Enclosed is an enclosure that holds nothing and looks nothing up: for a spawner that sends paths elsewhere.
func Enclosed(c Confinement) Enclosure { return enclosed{c} }

type enclosed struct{ confinement Confinement }

func (e enclosed) Confinement() Confinement { return e.confinement }

func (e enclosed) Widen(_ context.Context, more messages.AdditionalPermissions, dir string) (Enclosure, error) {
	e.confinement.Additional, e.confinement.AdditionalDir = &more, dir
	return e, nil
}

func (enclosed) Check() error { return nil }

func (enclosed) Release() {}
