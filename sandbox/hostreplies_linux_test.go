package sandbox

import (
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// The host needs neither a poller nor a goroutine for the output of a command whose exit it knows at its birth.
func TestTheBirthOfAShortCommandSaysThatItIsOver(t *testing.T) {
	spawner, err := newDefault(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer spawner.Close()
	w := spawner.(*wardens)
	t.Run("warden", func(t *testing.T) { testShortCommand(t, asked{w, w.mirror.begun.Load()}) })
	direct := newForking()
	defer direct.Close()
	t.Run("direct", func(t *testing.T) { testShortCommand(t, direct) })
}

func testShortCommand(t *testing.T, starter ptyio.Starter) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); { // on a busy machine no command is short
		var events []string
		var known bool
		ended := make(chan struct{})
		_, err := starter.Start(t.Context(), ptyio.Start{Program: "/bin/true", Argv: []string{"true"}, Dir: "/",
			Files: []*os.File{null, null, null}, Taken: func() {},
			Born:      func(_ ptyio.Leader, over bool) { events, known = append(events, "born"), over },
			Exited:    func(messages.ExitStatus, error) { events = append(events, "exited") },
			TreeEnded: func(messages.TreeReport) { events = append(events, "ended"); close(ended) },
		})
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		if got := len(events); got != 3 || events[0] != "born" || events[1] != "exited" {
			t.Fatal(events)
		}
		if known {
			return
		}
	}
	t.Error("no birth did")
}

// A start may be receiving an exit when the connection fails. The end of the tree must come after that exit all the same.
func TestALostTreeEndsAfterAnExitThatAStartIsReceiving(t *testing.T) {
	spawner, err := newDefault(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer spawner.Close()
	w := spawner.(*wardens)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	exiting, proceed, exited, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	_, err = asked{w, w.mirror.begun.Load()}.Start(t.Context(), ptyio.Start{Program: "/bin/sh", Dir: "/", Keep: true,
		Argv: []string{"sh", "-c", "sleep 1000 & read line"}, Files: []*os.File{read, nil, nil}, Taken: func() {},
		Born:       func(ptyio.Leader, bool) {},
		Background: func(int) {},
		Exited:     func(messages.ExitStatus, error) { close(exiting); <-proceed; close(exited) },
		TreeEnded:  func(messages.TreeReport) { close(ended) },
	})
	if err != nil {
		t.Fatal(err)
	}
	p := w.current
	p.receiving.Lock() // as a start does
	go p.conn.Alone(func() {
		defer p.receiving.Unlock()
		_ = write.Close()
		for received := false; !received; received, _ = p.receive() {
			p.conn.Soon(time.Second)
		}
	})
	<-exiting
	_ = p.conn.Close() // as the outbox does when it cannot write
	p.kill()
	waits := regexp.MustCompile(`\[sync\.Mutex\.Lock.*\]:\n(?:.+\n)*?.*\(\*wardenProcess\)\.serve`)
	for stacks := make([]byte, 1<<20); !waits.Match(stacks[:runtime.Stack(stacks, true)]); runtime.Gosched() {
		select {
		case <-ended:
			t.Fatal("the tree has ended before the exit was reported")
		default:
		}
	}
	close(proceed)
	<-exited
	<-ended
}

// Nothing more may arrive after a message that nobody understands.
func TestAConnectionThatFailsWhileAStartReceivesIsClosed(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	p := &wardenProcess{}
	if p.conn, err = wire.NewConn(fds[0], 0, nil); err != nil {
		t.Fatal(err)
	}
	defer p.conn.Close()
	if _, err := unix.Write(fds[1], []byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	p.hear(&wardenLeader{reply: make(chan error, 1)})
	over := make(chan error)
	go func() { over <- p.conn.Await() }()
	select {
	case err := <-over:
		if err == nil {
			t.Error("something can be received")
		}
	case <-time.After(20 * time.Second):
		t.Error("its reader is not told")
	}
}
