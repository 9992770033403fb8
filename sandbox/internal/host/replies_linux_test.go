package host

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// The goroutine that sends a start can use its files a little longer than the warden needs to answer. Until it has finished, the birth
// must not be reported: our copies of the files could not be closed.
func TestABirthIsNotReportedWhileTheStartIsStillSent(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.NewConn(pair[0], time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	out := wire.NewOutbox(conn)
	t.Cleanup(func() { _, _ = conn.Close(), unix.Close(pair[1]); out.Abort() })
	p := newProcess(Options{Timeouts: DefaultTimeouts()}, nil)
	p.conn, p.out = conn, out
	for id, size := range []int{1, 6 << 20} { // the socket does not take all of the second
		l, born := p.expect(t, uint64(id)), false
		l.spec.Born = func(ptyio.Leader) { born = true }
		start := &wire.Start{Argv: []string{strings.Repeat("x", size)}}
		if err := out.Start(t.Context(), &wire.Request{ID: l.id, Start: start}, func(error) {}); err != nil {
			t.Fatal(err)
		}
		if size == 1 {
			out.AwaitFiles(l.id)
		}
		held := out.Holds(l.id)
		p.say(l.id, 7)
		if err := <-l.reply; err != nil || born == held || held != (id == 1) {
			t.Errorf("start of %d bytes: %v, held %v, born %v", size, err, held, born)
		}
	}
}

func TestWhatADeadWardenHasWrittenIsReadThoughAnotherCouldWriteMore(t *testing.T) {
	read, write, err := outputPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	p := newProcess(Options{}, read)
	go p.readOutput()
	if _, err := write.WriteString(strings.Repeat("x", 2*maxOutput) + "last"); err != nil {
		t.Fatal(err)
	}
	if output := p.lastOutput(); len(output) != maxOutput || !strings.HasSuffix(output, "last") {
		t.Errorf("%d bytes, %.20q", len(output), output)
	}
}
