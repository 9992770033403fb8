package isolate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// rule makes a rule of a plan.
func rule(t testing.TB, path string, access confine.Access) confine.Rule {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return confine.Rule{Path: path, Access: access, Device: stat.Dev, Inode: stat.Ino, Directory: stat.Mode&unix.S_IFMT == unix.S_IFDIR, File: -1}
}

// isolated is a running command.
type isolated struct {
	*birth.Child
	output, reports *os.File
}

var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/nonexistent"}

// start starts a shell.
func start(t testing.TB, plan *confine.Plan, network *Network, script string) (*isolated, error) {
	t.Helper()
	output, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reports, report, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	kind := seccomp.Kind{Network: seccomp.Private}
	if network == nil {
		kind.Network = seccomp.On
	}
	n, err := birth.BeginNamespaced(Namespaced(Launch{Plan: plan, Files: []int{-1, int(out.Fd()), int(out.Fd())}, Report: int(report.Fd()),
		Network: network, Program: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: environment,
		Filter: seccomp.Filter(kind)}))
	_, _ = out.Close(), report.Close()
	t.Cleanup(func() { _, _ = output.Close(), reports.Close() })
	if err != nil {
		return nil, err
	}
	if err = n.Wait(); err != nil {
		n.Release()
		n.Reap()
		_ = unix.Close(n.PIDFD)
		return nil, err
	}
	n.Release()
	return &isolated{n, output, reports}, nil
}

// end waits until the command has ended, and ends the processes that it left behind.
func (i *isolated) end(t testing.TB) (output string, status syscall.WaitStatus) {
	t.Helper()
	var record birth.Record
	for record.PID == 0 {
		if err := binary.Read(i.reports, binary.NativeEndian, &record); err != nil {
			t.Error(err)
			break
		}
	}
	_ = i.Kill()
	i.Reap()
	_ = unix.Close(i.PIDFD)
	text, err := io.ReadAll(i.output)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(text)), syscall.WaitStatus(record.Status)
}

// run runs a shell. It skips the test if there are no namespaces.
func run(t testing.TB, plan *confine.Plan, script string) (output string, status syscall.WaitStatus) {
	t.Helper()
	i, err := start(t, plan, network(t), script)
	if err != nil {
		t.Fatal(err)
	}
	return i.end(t)
}

// network makes a network for this test.
func network(t testing.TB) *Network {
	t.Helper()
	if err, _ := Probe(true); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	n, sockets, err := NewNetwork(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	for _, socket := range sockets {
		_ = unix.Close(socket)
	}
	return n
}

func TestOnlyThePlacesOfThePlanCanBeWritten(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"work/.git/hooks", "work/sub", "work/vendor/lib/.git", "work/secret", "outside"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"work/.git/config", "work/secret/key", "work/token", "outside/file"} {
		if err := os.WriteFile(filepath.Join(base, file), []byte("old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(base, "work")
	plan := &confine.Plan{Rules: []confine.Rule{rule(t, work, confine.Write), rule(t, work+"/.git", confine.Read),
		{Path: work + "/.agents", Access: confine.Read, File: -1}, rule(t, work+"/secret", confine.Nothing), rule(t, work+"/token", confine.Nothing), rule(t, work+"/vendor/lib/.git", confine.Read)}}
	defer hold(t, plan).Release()
	output, status := run(t, plan, `cd `+work+`
try() { if sh -c "$1" >/dev/null 2>&1; then echo "yes: $1"; else echo "no: $1"; fi; }
try 'echo new > sub/new'
try 'mkdir made && rmdir made'
try 'echo new > .git/config'
try 'echo new > .git/hooks/post-commit'
try 'mv .git gone'
try 'rm -r .git'
try 'chmod 700 .git/hooks'
try 'touch .git/config'
try 'mv vendor sold'
try 'mv vendor/lib vendor/sold'
try 'touch vendor/lib/.git/config'
try 'touch vendor/lib/file'
try 'mkdir -p .agents/new'
try 'rm -f .agents'
try 'cat .git/config'
try 'ls secret'
try 'cat secret/key'
try 'cat token'
try 'echo new > ../outside/file'
try 'touch ../outside/file'
try 'chmod 777 ../outside'
try 'cat ../outside/file'
try 'echo x > /dev/shm/x'
try 'echo x > /dev/null'
try 'echo x > /dev/x'
try 'head -c1 /dev/urandom'
try 'mount -t tmpfs none sub'
try 'unshare -Ur true'
try 'umount .git'
try 'cat /proc/self/status'
try 'test $(ls -d /proc/[0-9]* | wc -l) -lt 8'
try 'echo 1 > /proc/sys/kernel/panic'
try 'cat /proc/kcore'
`)
	want := `yes: echo new > sub/new
yes: mkdir made && rmdir made
no: echo new > .git/config
no: echo new > .git/hooks/post-commit
no: mv .git gone
no: rm -r .git
no: chmod 700 .git/hooks
no: touch .git/config
no: mv vendor sold
no: mv vendor/lib vendor/sold
no: touch vendor/lib/.git/config
yes: touch vendor/lib/file
no: mkdir -p .agents/new
no: rm -f .agents
yes: cat .git/config
no: ls secret
no: cat secret/key
no: cat token
no: echo new > ../outside/file
no: touch ../outside/file
no: chmod 777 ../outside
yes: cat ../outside/file
yes: echo x > /dev/shm/x
yes: echo x > /dev/null
no: echo x > /dev/x
yes: head -c1 /dev/urandom
no: mount -t tmpfs none sub
no: unshare -Ur true
no: umount .git
yes: cat /proc/self/status
yes: test $(ls -d /proc/[0-9]* | wc -l) -lt 8
no: echo 1 > /proc/sys/kernel/panic
no: cat /proc/kcore`
	if output != want || status != 0 {
		t.Errorf("status %#x\n%s", status, difference(want, output))
	}
	if text, err := os.ReadFile(work + "/sub/new"); err != nil || string(text) != "new\n" {
		t.Errorf("what was written is %q, %v", text, err)
	}
}

func difference(want, got string) (lines string) {
	wanted := strings.Split(want, "\n")
	for i, line := range strings.Split(got, "\n") {
		if i >= len(wanted) || wanted[i] != line {
			lines += line + "\n"
		}
	}
	return lines
}

func TestTheUserIsTheSameAndHasNoRights(t *testing.T) {
	output, status := run(t, &confine.Plan{}, `id -u; id -g; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t'; echo $$; cat /proc/1/environ`)
	want := fmt.Sprintf("%d\n%d\nCapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\n"+
		"CapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n2\ncat: /proc/1/environ: No such file or directory", os.Getuid(), os.Getgid())
	if output != want || status.ExitStatus() != 1 {
		t.Errorf("status %#x\n%s", status, output)
	}
}

func TestCommandsShareANetwork(t *testing.T) {
	python := needPython(t)
	shared := network(t)
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	port := outside.Addr().(*net.TCPAddr).Port
	server, err := start(t, &confine.Plan{}, shared, python+` -c '
import socket
s = socket.create_server(("127.0.0.1", 4567))
print("ready", flush=True)
s.accept()[0].sendall(b"answer")'`)
	if err != nil {
		t.Fatal(err)
	}
	var ready [6]byte
	if _, err := io.ReadFull(server.output, ready[:]); err != nil {
		t.Fatal(err)
	}
	client, err := start(t, &confine.Plan{}, shared, python+` -c '
import socket
print(socket.create_connection(("127.0.0.1", 4567)).recv(9))
try: socket.create_connection(("127.0.0.1", `+strconv.Itoa(port)+`), 5); print("outside")
except ConnectionRefusedError: print("refused")
try: socket.create_connection(("192.0.2.1", 80), 5); print("outside")
except OSError as e: print(e.errno)'`)
	if err != nil {
		t.Fatal(err)
	}
	if output, status := client.end(t); status != 0 || output != "b'answer'\nrefused\n"+strconv.Itoa(int(unix.ENETUNREACH)) {
		t.Errorf("status %#x: %s", status, output)
	}
	if output, status := server.end(t); status != 0 {
		t.Errorf("status %#x: %s", status, output)
	}
	with, err := start(t, &confine.Plan{Network: true}, nil, python+` -c '
import socket
socket.create_connection(("127.0.0.1", `+strconv.Itoa(port)+`), 5); print("outside")'`)
	if err != nil {
		t.Fatal(err)
	}
	if output, _ := with.end(t); output != "outside" {
		t.Errorf("with the host's network: %s", output)
	}
}

func needPython(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3", "/usr/local/bin/python3"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skip("no python3 here")
	return ""
}

func TestTheEndOfTheFirstProcessIsTheEndOfAll(t *testing.T) {
	i, err := start(t, &confine.Plan{}, network(t), `(setsid sleep 1000 &) ; setsid sleep 1000 & echo ready; sleep 1000`)
	if err != nil {
		t.Fatal(err)
	}
	var ready [6]byte
	if _, err := io.ReadFull(i.output, ready[:]); err != nil {
		t.Fatal(err)
	}
	if err := i.Kill(); err != nil {
		t.Fatal(err)
	}
	i.Reap()
	_ = unix.Close(i.PIDFD)
	if rest, err := io.ReadAll(i.output); err != nil || len(bytes.TrimSpace(rest)) > 0 { // no process holds it open
		t.Errorf("%q, %v", rest, err)
	}
}

func TestAPlaceThatIsAnotherNowIsRefused(t *testing.T) {
	base := t.TempDir()
	work, other := filepath.Join(base, "work"), filepath.Join(base, "other")
	for _, dir := range []string{work, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found := rule(t, work, confine.Write)
	for _, change := range []struct {
		what  func() error
		step  string
		errno unix.Errno
	}{
		{func() error { return errors.Join(os.Rename(work, work+"-before"), os.Symlink(other, work)) }, "writable " + found.Path, unix.ELOOP},
		{func() error { return errors.Join(os.Remove(work), os.Mkdir(work, 0o755)) },
			"writable " + found.Path + ": it is not what it was when the policy was set", unix.EAGAIN},
		{func() error { return os.Remove(work) }, "writable " + found.Path, unix.ENOENT},
	} {
		if err := change.what(); err != nil {
			t.Fatal(err)
		}
		_, err := start(t, &confine.Plan{Rules: []confine.Rule{found}}, network(t), "true")
		if failed, ok := errors.AsType[*birth.Error](err); !ok || failed.Step != change.step || failed.Errno != change.errno {
			t.Errorf("%v instead of %s: %v", err, change.step, change.errno)
		}
	}
}

func TestAProbeSaysWhichStepIsRefused(t *testing.T) {
	network(t)
	for _, own := range []bool{true, false} {
		err, _ := Probe(own)
		if err != nil {
			t.Errorf("the rest of the tests works, and a probe says: %v", err)
		}
	}
}
