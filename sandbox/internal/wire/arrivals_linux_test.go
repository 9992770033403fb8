package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// An arrival wakes who waits for it, but not while somebody else receives alone.
func TestWhoReceivesAloneIsTheOnlyOneThatAnArrivalWakes(t *testing.T) {
	a, b := pair(t, 0)
	arrived := make(chan error)
	await := func() {
		go func() { arrived <- b.Await() }()
		waits := regexp.MustCompile(`\[IO wait\]:\n(?:.+\n)*?.*\(\*Conn\)\.Await`)
		for stacks := make([]byte, 1<<20); !waits.Match(stacks[:runtime.Stack(stacks, true)]); {
			runtime.Gosched()
		}
	}
	send := func(id uint64) {
		t.Helper()
		if err := a.Send(&Reply{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(id uint64) {
		t.Helper()
		var reply Reply
		if received, err := b.TryReceive(&reply); !received || err != nil || reply.ID != id {
			t.Fatal(received, err, reply.ID)
		}
	}
	for round := range uint64(20) {
		await()
		b.Alone(func() {
			send(3 * round)
			if !b.Soon(time.Minute) {
				t.Error("nothing can be received")
			}
			receive(3 * round)
		})
		select {
		case err := <-arrived:
			t.Fatal("another goroutine was woken:", err)
		default:
		}
		send(3*round + 1)
		if err := <-arrived; err != nil {
			t.Fatal(err)
		}
		receive(3*round + 1)
	}
	await()
	_ = b.Close()
	<-arrived
	if received, err := b.TryReceive(&Reply{}); received || err == nil {
		t.Error("a closed connection received", received, err)
	}
}

// Room in the socket must wake nobody who does not wait for it.
func TestThePollerWatchesASocketForArrivalsOnly(t *testing.T) {
	_, b := pair(t, 0)
	var socket uintptr
	if err := b.raw.Control(func(fd uintptr) { socket = fd }); err != nil {
		t.Fatal(err)
	}
	infos, _ := filepath.Glob("/proc/self/fdinfo/*")
	var watches []string
	line := regexp.MustCompile(fmt.Sprintf(`tfd: *%d events: *([0-9a-f]+) `, socket))
	for _, info := range infos {
		text, _ := os.ReadFile(info)
		for _, match := range line.FindAllSubmatch(text, -1) {
			watches = append(watches, string(match[1]))
		}
	}
	if len(watches) != 1 || watches[0] != "19" { // EPOLLIN, and EPOLLERR and EPOLLHUP, which are always watched
		t.Errorf("the socket is watched for %q", watches)
	}
}

func TestAReceiverThatIsAloneLearnsOfAClose(t *testing.T) {
	_, b := pair(t, 0)
	_ = b.Close()
	rested := make(chan struct{})
	go func() {
		b.Alone(func() { _ = b.rest() })
		close(rested)
	}()
	select {
	case <-rested:
	case <-time.After(long):
		t.Fatal("it waits on")
	}
}
