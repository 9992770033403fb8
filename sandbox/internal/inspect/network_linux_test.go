package inspect

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// beInANetwork listens in a network namespace of its own, gives its input a netlink socket from there, and waits for the end of that.
func beInANetwork() {
	must := func(err error) {
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
	for _, network := range []string{"tcp4", "tcp6"} {
		listener, err := net.Listen(network, ":0")
		if network == "tcp6" && err != nil {
			continue // there is no IPv6
		}
		must(err)
		defer listener.Close()
	}
	asks, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	must(err)
	must(unix.Bind(asks, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	at, err := unix.Getsockname(asks)
	must(err)
	other, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	must(err)
	must(unix.Sendto(other, answer(unix.NLMSG_DONE, 0), 0, at)) // this needs a right, which the user of the namespace has
	must(unix.Sendmsg(0, []byte("x"), unix.UnixRights(asks), nil, 0))
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// answer is a message such as the kernel sends.
func answer(kind uint16, number int32) []byte {
	p := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+4)
	p = binary.NativeEndian.AppendUint16(p, kind)
	p = append(p, make([]byte, unix.SizeofNlMsghdr-len(p))...)
	return binary.NativeEndian.AppendUint32(p, uint32(number))
}

// network starts this program again in a network namespace of its own. It returns the process's directory and a netlink socket from there.
func network(t *testing.T) (process string, asks *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer theirs.Close()
	var said bytes.Buffer
	command := exec.Command(os.Args[0])
	command.Env, command.Stdin, command.Stderr = append(os.Environ(), helper+"=network"), theirs, &said
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	if err := command.Start(); err != nil {
		_ = ours.Close()
		t.Skip("skipped: there are no namespaces here: ", err)
	}
	_ = theirs.Close()
	t.Cleanup(func() {
		_ = ours.Close()
		_ = command.Wait()
	})
	control := make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := unix.Recvmsg(int(ours.Fd()), make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if n != 1 || err != nil {
		_ = command.Wait()
		t.Skipf("skipped: there is no netlink for listening sockets here: %v, %s", err, said.String())
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	asks = os.NewFile(uintptr(fds[0]), "netlink")
	t.Cleanup(func() { _ = asks.Close() })
	return "/proc/" + strconv.Itoa(command.Process.Pid), asks
}

// inodes are sorted.
func inodes(sockets []socket) (all []uint64) {
	for _, s := range sockets {
		all = append(all, s.inode)
	}
	slices.Sort(all)
	return all
}

func TestANetworkIsAskedByASocketFromThere(t *testing.T) {
	process, asks := network(t)
	table, err := lookUp(process, false, nil)
	if err != nil || len(table) == 0 {
		t.Fatalf("its tables: %v, %v", table, err)
	}
	fd := int(asks.Fd())
	if text, err := receive(fd, make([]byte, 1024)); err != unix.EAGAIN {
		t.Errorf("a message that the kernel did not send was read: %q, %v", text, err)
	}
	for range 3 {
		found, err := lookUp("/proc/none", false, asks) // has no tables
		if err != nil || !slices.Equal(inodes(found), inodes(table)) {
			t.Errorf("%v, %v, and the tables have %v", found, err, table)
		}
		for _, s := range found {
			if !slices.ContainsFunc(table, func(other socket) bool { return other == s }) {
				t.Errorf("%v is not in %v", s, table)
			}
		}
		// The answers of a request that has failed must not be taken for those of the next.
		if err := request(fd, unix.AF_INET); err != nil {
			t.Error(err)
		}
	}
	_ = asks.Close()
	if found, err := ask(asks); err == nil {
		t.Errorf("a closed socket answers %v", found)
	}
	if found, err := lookUp(process, false, asks); err != nil || !slices.Equal(inodes(found), inodes(table)) {
		t.Errorf("without it: %v, %v", found, err)
	}
}

func TestTheAnswersOfTheSystem(t *testing.T) {
	one := answer(sockDiagByFam, 0)[:unix.SizeofNlMsghdr]
	one = append(one, make([]byte, 72)...)
	binary.NativeEndian.PutUint32(one, uint32(len(one)))
	body := one[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_INET
	binary.BigEndian.PutUint16(body[4:], 80)
	copy(body[8:], []byte{127, 0, 0, 1})
	binary.NativeEndian.PutUint32(body[68:], 7)
	want := socket{7, netip.MustParseAddrPort("127.0.0.1:80")}
	long := slices.Clone(one)
	binary.NativeEndian.PutUint32(long, uint32(len(long)+1))
	for name, c := range map[string]struct {
		answers []byte
		found   int
		over    bool
		err     error
	}{
		"some, and more to come": {append(slices.Clone(one), one...), 2, false, nil},
		"the last":               {append(slices.Clone(one), answer(unix.NLMSG_DONE, 0)...), 1, true, nil},
		"TCP is not known":       {answer(unix.NLMSG_DONE, -int32(unix.ENOENT)), 0, false, unix.ENOENT},
		"refused":                {answer(unix.NLMSG_ERROR, -int32(unix.EPERM)), 0, false, unix.EPERM},
		"longer than what came":  {long, 0, false, unix.EPROTO},
		"shorter than its head":  {make([]byte, unix.SizeofNlMsghdr), 0, false, unix.EPROTO},
		"an end without a body":  {append([]byte{unix.SizeofNlMsghdr}, answer(unix.NLMSG_DONE, 0)[1:unix.SizeofNlMsghdr]...), 0, false, unix.EPROTO},
	} {
		found, over, err := read(c.answers, nil)
		if len(found) != c.found || over != c.over || err != c.err || c.found > 0 && found[0] != want {
			t.Errorf("%s: %v, %v, %v", name, found, over, err)
		}
	}
}
