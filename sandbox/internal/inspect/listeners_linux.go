package inspect

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// socket is a TCP socket that listens.
type socket struct {
	inode   uint64
	address netip.AddrPort
}

// snapshot is the listening sockets of one network namespace.
type snapshot struct {
	mu      sync.Mutex // held while they are looked up: others wait for the result
	at      time.Time
	sockets []socket
	err     error
}

// fresh is how long a snapshot serves others, and maxSnapshots how many there are.
const (
	fresh        = 15 * time.Millisecond
	maxSnapshots = 1024
)

// snapshots are shared by all trees: many commands may be in one namespace.
var snapshots = struct {
	mu    sync.Mutex
	known map[uint64]*snapshot // by the namespace's inode
}{known: map[uint64]*snapshot{}}

func snapshotOf(namespace uint64) *snapshot {
	snapshots.mu.Lock()
	defer snapshots.mu.Unlock()
	s := snapshots.known[namespace]
	if s == nil {
		if len(snapshots.known) >= maxSnapshots {
			clear(snapshots.known)
		}
		s = &snapshot{}
		snapshots.known[namespace] = s
	}
	return s
}

// Listeners are the listening sockets of one tree. It remembers whose a socket is, so that descriptors are read only when there is a new one.
// It is not safe for concurrent use.
type Listeners struct {
	Tree  Tree
	owned map[uint64]owner // the sockets of the last look, by inode
}

// owner is who has a socket: nobody of the tree, if the pid is zero. A member may have been missed, because it was forked or became an
// orphan while the others were looked at. So a stranger's socket is looked up again, at the looks 1, 2, 4, 8 and so on.
type owner struct {
	pid     int
	program string
	looks   uint
}

// Look returns the sockets on which members listen.
func (l *Listeners) Look() (found []ptyio.Listener, err error) {
	leader := "/proc/" + strconv.Itoa(l.Tree.Leader)
	var ns, own unix.Stat_t
	if err := unix.Stat(leader+"/ns/net", &ns); err != nil {
		if procs.Gone(err) {
			return nil, nil
		}
		return nil, err
	}
	_ = unix.Stat("/proc/self/ns/net", &own)
	s := snapshotOf(ns.Ino)
	s.mu.Lock()
	if time.Since(s.at) > fresh {
		s.sockets, s.err = lookUp(leader, ns.Ino == own.Ino, l.Tree.Network)
		s.at = time.Now()
	}
	sockets, err := s.sockets, s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	l.assign(sockets)
	for _, socket := range sockets {
		if o := l.owned[socket.inode]; o.pid != 0 {
			found = append(found, ptyio.Listener{Address: socket.address, PID: o.pid, Program: o.program})
		}
	}
	return found, nil
}

// assign finds the owners of new sockets, and forgets those that are gone.
func (l *Listeners) assign(sockets []socket) {
	known := make(map[uint64]owner, len(sockets))
	open := map[uint64]bool{}
	for _, s := range sockets {
		o := l.owned[s.inode]
		if o.pid == 0 {
			o.looks++
			if o.looks&(o.looks-1) == 0 {
				open[s.inode] = true
			}
		}
		known[s.inode] = o
	}
	l.owned = known
	if len(open) == 0 {
		return
	}
	_, _ = l.Tree.each(func(p procs.Process) bool {
		for _, inode := range socketsOf(p.PID) {
			if open[inode] {
				known[inode] = owner{pid: p.PID, program: p.Name}
				delete(open, inode)
			}
		}
		return len(open) > 0
	})
}

// maxDescriptors bounds the descriptors of one member that are read.
const maxDescriptors = 4096

// socketsOf lists the inodes of the sockets that a process has open.
func socketsOf(pid int) (inodes []uint64) {
	base := "/proc/" + strconv.Itoa(pid) + "/fd"
	folder, err := os.Open(base)
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, _ := folder.Readdirnames(maxDescriptors)
	var room [64]byte
	for _, name := range names {
		n, err := unix.Readlink(base+"/"+name, room[:])
		if err != nil {
			continue
		}
		if text, is := strings.CutPrefix(string(room[:n]), "socket:["); is {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
				inodes = append(inodes, inode)
			}
		}
	}
	return inodes
}

// lookUp asks the kernel for the listening sockets of the namespace of a process. Where nobody can be asked, the files tell that the kernel
// makes of all sockets, which takes a hundred times as long.
func lookUp(process string, ours bool, there *os.File) ([]socket, error) {
	if ours {
		if found, err := askHere(); err == nil {
			return found, nil
		}
	} else if found, err := ask(there); err == nil { // it fails without a socket
		return found, nil
	}
	v4, err := readTable(process + "/net/tcp")
	if err != nil {
		return nil, err
	}
	v6, _ := readTable(process + "/net/tcp6") // there is none without IPv6
	return append(v4, v6...), nil
}

const (
	tcpListen     = 10
	sockDiagByFam = 20 // SOCK_DIAG_BY_FAMILY
)

// askHere asks for the namespace of this thread.
func askHere() (found []socket, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return diagnose(fd)
}

// ask asks for the namespace in which a netlink socket was made. The socket may be closed meanwhile.
func ask(there *os.File) (found []socket, err error) {
	raw, err := there.SyscallConn()
	if err != nil {
		return nil, err
	}
	if failed := raw.Control(func(fd uintptr) { found, err = diagnose(int(fd)) }); failed != nil {
		return nil, failed
	}
	return found, err
}

// diagnose asks by a netlink socket, which one caller uses at a time.
func diagnose(fd int) (found []socket, err error) {
	room := make([]byte, 32<<10)
	for err == nil { // an earlier request may have failed before all of its answers were read
		_, err = receive(fd, room)
	}
	if err != unix.EAGAIN {
		return nil, err
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if found, err = dump(fd, family, room, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// receive reads what the kernel has answered: it does so before a call returns.
func receive(fd int, room []byte) (answers []byte, err error) {
	for {
		n, from, err := unix.Recvfrom(fd, room, unix.MSG_DONTWAIT)
		switch sender, _ := from.(*unix.SockaddrNetlink); {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case sender != nil && sender.Pid == 0: // root in the namespace can send, too
			return room[:n], nil
		}
	}
}

// dump sends one request, and adds what is answered.
func dump(fd int, family byte, room []byte, found []socket) ([]socket, error) {
	if err := request(fd, family); err != nil {
		return nil, err
	}
	for {
		answers, err := receive(fd, room)
		if err != nil {
			return nil, err
		}
		var over bool
		if found, over, err = read(answers, found); over || err != nil {
			return found, err
		}
	}
}

// request sends an inet_diag_req_v2 behind its header.
func request(fd int, family byte) error {
	message := make([]byte, unix.SizeofNlMsghdr+56)
	header := (*unix.NlMsghdr)(unsafe.Pointer(&message[0]))
	header.Len, header.Type, header.Flags = uint32(len(message)), sockDiagByFam, unix.NLM_F_REQUEST|unix.NLM_F_DUMP
	body := message[unix.SizeofNlMsghdr:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], 1<<tcpListen)
	return unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// read adds the sockets of some answers. over says that there are no more.
func read(answers []byte, found []socket) (all []socket, over bool, err error) {
	for len(answers) >= unix.SizeofNlMsghdr {
		h := (*unix.NlMsghdr)(unsafe.Pointer(&answers[0]))
		length := int(h.Len)
		if length < unix.SizeofNlMsghdr || length > len(answers) {
			return nil, false, unix.EPROTO
		}
		body := answers[unix.SizeofNlMsghdr:length]
		switch h.Type {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			if len(body) < 4 {
				return nil, false, unix.EPROTO
			}
			if errno := -int32(binary.NativeEndian.Uint32(body)); errno != 0 { // such as ENOENT: it knows nothing of TCP
				return nil, false, unix.Errno(errno)
			}
			return found, true, nil
		}
		if s, ok := diagnosed(body); ok {
			found = append(found, s)
		}
		answers = answers[min((length+3)&^3, len(answers)):]
	}
	return found, false, nil
}

// diagnosed reads an inet_diag_msg.
func diagnosed(m []byte) (s socket, ok bool) {
	const size, port, address, inode = 72, 4, 8, 68
	if len(m) < size {
		return s, false
	}
	ip := netip.AddrFrom16([16]byte(m[address : address+16]))
	if m[0] == unix.AF_INET {
		ip = netip.AddrFrom4([4]byte(m[address : address+4]))
	}
	return socket{uint64(binary.NativeEndian.Uint32(m[inode:])), netip.AddrPortFrom(ip, binary.BigEndian.Uint16(m[port:]))}, true
}

// readTable reads a file such as /proc/PID/net/tcp, up to the listening sockets, which come first.
func readTable(path string) (found []socket, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 10 || string(fields[3]) != "0A" {
			continue
		}
		address, ok := tableAddress(string(fields[1]))
		inode, err := strconv.ParseUint(string(fields[9]), 10, 64)
		if ok && err == nil {
			found = append(found, socket{inode, address})
		}
	}
	return found, nil
}

// tableAddress reads an address such as 0100007F:1F90: words in the machine's order, and the port.
func tableAddress(text string) (address netip.AddrPort, ok bool) {
	digits, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(digits)%8 != 0 {
		return address, false
	}
	var raw []byte
	for ; digits != ""; digits = digits[8:] {
		word, err := strconv.ParseUint(digits[:8], 16, 32)
		if err != nil {
			return address, false
		}
		raw = binary.NativeEndian.AppendUint32(raw, uint32(word))
	}
	ip, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(ip, uint16(number)), ok
}
