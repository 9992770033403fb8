package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pair(t *testing.T, patience time.Duration) (a, b *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = NewConn(fds[0], patience); err != nil {
		t.Fatal(err)
	}
	if b, err = NewConn(fds[1], 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func TestBigValuesAndManyDescriptorsArriveInOrderFromManySenders(t *testing.T) {
	a, b := pair(t, 0)
	const senders, each, count = 8, 10, 35
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for i := range each {
				request := Request{ID: uint64(sender*each + i), Start: &Start{Program: "small"}}
				var files []*os.File
				if i%3 == 0 { // with descriptors; the first one names their message
					named := temporary(t, uint64(sender*each+i))
					defer named.Close()
					files = append([]*os.File{named}, slicesRepeat(null, count-1)...)
					request.Start.Files = count
				}
				if i%4 == 0 {
					request.Start.Argv = []string{strings.Repeat("x", 3<<20)}
				}
				if err := a.Send(&request, files...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	last := map[uint64]uint64{}
	for range senders * each {
		var request Request
		if err := b.Receive(&request); err != nil {
			t.Fatal(err)
		}
		sender := request.ID / each
		if before, seen := last[sender]; seen && request.ID != before+1 || !seen && request.ID%each != 0 {
			t.Errorf("sender %d: %d after %d", sender, request.ID, before)
		}
		last[sender] = request.ID
		checkFiles(t, b, request)
	}
	all.Wait()
}

func slicesRepeat(file *os.File, n int) (files []*os.File) {
	for range n {
		files = append(files, file)
	}
	return files
}

func temporary(t *testing.T, id uint64) *os.File {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		_, err = file.WriteString(strings.Repeat("i", int(id)))
	}
	if err != nil {
		t.Error(err)
	}
	return file
}

func checkFiles(t *testing.T, c *Conn, request Request) {
	t.Helper()
	fds, err := c.TakeFiles(request.Start.Files)
	if err != nil || len(fds) != request.Start.Files {
		t.Fatalf("%d descriptors, %v", len(fds), err)
	}
	if len(fds) == 0 {
		return
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fds[0], &stat); err != nil || stat.Size != int64(request.ID) {
		t.Errorf("message %d has the descriptors of %d", request.ID, stat.Size)
	}
	for _, fd := range fds {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %x, %v", fd, flags, err)
		}
		_ = unix.Close(fd)
	}
}

func TestAnEndWithUnreadDataIsAnErrorAndNoPanic(t *testing.T) {
	a, b := pair(t, 0)
	if err := b.Send(&Reply{ID: 1}); err != nil { // a never reads it: the kernel answers with ECONNRESET
		t.Fatal(err)
	}
	_ = a.Close()
	var request Request
	if err := b.Receive(&request); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
}

func TestEndOfFileIsReported(t *testing.T) {
	a, b := pair(t, 0)
	if err := a.Send(&Request{ID: 1}); err != nil {
		t.Fatal(err)
	}
	_ = a.CloseWrite()
	var request Request
	if err := b.Receive(&request); err != nil || request.ID != 1 {
		t.Errorf("%+v, %v", request, err)
	}
	if err := b.Receive(&request); !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
	if err := b.Send(&Reply{ID: 1}); err != nil {
		t.Errorf("the other direction: %v", err)
	}
}

func TestAClosedFileFailsOneMessageOnly(t *testing.T) {
	a, b := pair(t, 0)
	closed, _ := os.Open(os.DevNull)
	_ = closed.Close()
	if err := a.Send(&Request{ID: 1}, closed); err == nil || errors.Is(err, ErrBroken) {
		t.Errorf("error %v", err)
	}
	if err := a.Send(&Request{ID: 2}); err != nil {
		t.Fatal(err)
	}
	var request Request
	if err := b.Receive(&request); err != nil || request.ID != 2 {
		t.Errorf("%+v, %v", request, err)
	}
}

func TestAReceiverThatDoesNotReadBreaksAnImpatientConnection(t *testing.T) {
	a, _ := pair(t, 20*time.Millisecond)
	err := a.Send(&Request{Start: &Start{Argv: []string{strings.Repeat("x", 8<<20)}}})
	if !errors.Is(err, ErrBroken) {
		t.Errorf("error %v", err)
	}
	if err := a.Send(&Request{}); !errors.Is(err, ErrBroken) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestHeldDescriptorsBlock(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	err = Hold([]*os.File{read, nil, write}, func(fds []int) error {
		if fds[1] != -1 {
			t.Errorf("descriptors %v", fds)
		}
		flags, err := unix.FcntlInt(uintptr(fds[2]), unix.F_GETFL, 0)
		if flags&unix.O_NONBLOCK != 0 {
			t.Error("not blocking")
		}
		_, _ = unix.Write(fds[2], []byte("through"))
		return err
	})
	var got [16]byte
	n, _ := read.Read(got[:])
	if err != nil || !bytes.Equal(got[:n], []byte("through")) {
		t.Errorf("%q, %v", got[:n], err)
	}
}

func TestDescriptorsForWhichThereIsNoRoomFailTheirMessageOnly(t *testing.T) {
	a, b := pair(t, 0)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	const count = 20
	if err := a.Send(&Request{ID: 1, Start: &Start{Files: count}}, slicesRepeat(null, count)...); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(&Request{ID: 2, Start: &Start{Files: 1}}, null); err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: uint64(len(openFiles(t)) + 3), Max: before.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	var request Request
	err = b.Receive(&request)
	if restored := unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil); err != nil || restored != nil {
		t.Fatal(err, restored)
	}
	open := len(openFiles(t))
	if fds, err := b.TakeFiles(count); !errors.Is(err, unix.EMFILE) || fds != nil {
		t.Errorf("%d descriptors, %v", len(fds), err)
	}
	if left := len(openFiles(t)); left >= open {
		t.Errorf("%d descriptors are open, and %d were before", left, open)
	}
	request = Request{}
	if err := b.Receive(&request); err != nil || request.ID != 2 {
		t.Fatalf("%+v, %v", request, err)
	}
	fds, err := b.TakeFiles(1)
	if err != nil || len(fds) != 1 {
		t.Fatalf("%v, %v", fds, err)
	}
	_ = unix.Close(fds[0])
}

func openFiles(t *testing.T) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestAMessageIsBounded(t *testing.T) {
	a, b := pair(t, 0)
	if err := a.Send(&Request{Start: &Start{Argv: []string{strings.Repeat("x", maxMessage)}}}); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("too large a message: %v", err)
	}
	if err := a.write([]byte{0xff, 0xff, 0xff, 0x7f}, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Receive(&Request{}); !errors.Is(err, errMalformed) {
		t.Errorf("a length that nobody sends: %v", err)
	}
}

func TestAMessageThatWasCutOffIsNone(t *testing.T) {
	a, b := pair(t, 0)
	text, err := encode(nil, &Request{ID: 7, End: &End{Grace: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.write(text[:len(text)-1], nil); err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	if err := b.Receive(&Request{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}
