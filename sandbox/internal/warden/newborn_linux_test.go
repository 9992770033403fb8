package warden

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// What becomes of a leader is said in any goroutine. The host waits for the birth before it does anything else.
func TestNothingOvertakesTheAnswerToAStart(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*wire.Conn
	for i, fd := range fds {
		if ends[i], err = wire.NewConn(fd, 0, nil); err != nil {
			t.Fatal(err)
		}
		defer ends[i].Close()
	}
	w, host := &warden{conn: ends[0], trees: map[uint64]*tree.Tree{}}, ends[1]
	const starts = 100_000
	go func() {
		for id := range uint64(starts) {
			n := &newborn{start: start{id: id}, unsaid: &wire.Started{PID: 1}}
			var both sync.WaitGroup
			both.Go(func() { w.say(n, wire.Reply{Exited: &tree.Status{}}) })
			w.tell(n)
			both.Wait()
		}
		_ = w.conn.Flush()
	}()
	for id := range uint64(starts) {
		for born := false; ; {
			var r wire.Reply
			if err := host.Receive(&r); err != nil || r.ID != id {
				t.Fatalf("start %d: %+v, %v", id, r, err)
			}
			if born = born || r.Started != nil; !born {
				t.Fatalf("start %d: %+v comes before the answer", id, r)
			}
			if r.Exited != nil {
				break
			}
		}
	}
}
