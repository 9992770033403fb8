package host

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// connected makes a warden with one unanswered start. Messages to the warden are lost.
func connected(t *testing.T) (*process, *leader) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(pair[1])
	conn, err := wire.NewConn(pair[0], time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	out := wire.NewOutbox(conn)
	t.Cleanup(func() { _ = conn.Close(); out.Abort() })
	p := newProcess(Options{Timeouts: DefaultTimeouts()}, nil)
	p.conn, p.out = conn, out
	return p, p.expect(t, 1)
}

// expect adds a start whose leader must not report anything.
func (p *process) expect(t *testing.T, id uint64) *leader {
	l := &leader{process: p, id: id, reply: make(chan error, 1), over: make(chan struct{}), spec: ptyio.Start{
		Born:      func(ptyio.Leader) {},
		Exited:    func(status messages.ExitStatus, _ error) { t.Errorf("start %d: exited, %v", id, status) },
		TreeEnded: func(messages.TreeReport) { t.Errorf("start %d: ended", id) },
	}}
	p.leaders[id] = l
	return l
}

func (p *process) say(id uint64, pid int) {
	p.dispatch(wire.Reply{ID: id, Started: &wire.Started{PID: pid}})
}

func TestAStartThatHangsFailsWithTheReason(t *testing.T) {
	p, l := connected(t)
	l.spec.Program = "/bin/true"
	p.dispatch(wire.Reply{ID: 1, Failed: &wire.Failed{Step: "execve", Errno: unix.ETIMEDOUT}})
	if err := <-l.reply; !strings.Contains(err.Error(), "/bin/true") || !strings.Contains(err.Error(), "within 4s") {
		t.Error(err)
	}
}

// A start may have chosen a warden that dies, and is replaced, before the start is sent.
func TestAStartOnAWardenThatWasReplacedIsMadeByTheNext(t *testing.T) {
	p, _ := connected(t)
	close(p.ready)
	p.dead, p.retired, p.closing = true, true, true
	if _, err := p.start(t.Context(), Start{}); err != errRetired {
		t.Error(err)
	}
}

// A warden sends what it has to say in as few replies as it can.
func TestOneReplyMayTellTheWholeLifeOfATree(t *testing.T) {
	p, l := connected(t)
	var told []string
	l.spec = ptyio.Start{
		Born:       func(ptyio.Leader) { told = append(told, "born") },
		Exited:     func(messages.ExitStatus, error) { told = append(told, "exited") },
		Background: func(count int) { told = append(told, fmt.Sprint("left ", count)) },
		TreeEnded:  func(messages.TreeReport) { told = append(told, "ended") },
	}
	p.dispatch(wire.Reply{ID: 1, Started: &wire.Started{PID: 7}, Exited: &tree.Status{}, Left: 2, Ended: &tree.Report{}})
	if want := []string{"born", "exited", "left 2", "ended"}; !slices.Equal(told, want) || len(l.reply) != 1 {
		t.Errorf("%v, %d answers", told, len(l.reply))
	}
}

func TestOnlyStopsInARowCount(t *testing.T) {
	pidfd := -1
	sleeper := exec.Command("sleep", "1000")
	sleeper.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	p := newProcess(Options{Timeouts: DefaultTimeouts()}, nil)
	p.pid, p.pidfd = sleeper.Process.Pid, os.NewFile(uintptr(pidfd), "pidfd")
	defer p.pidfd.Close()
	p.stops = maxStops - 1
	if p.watch(); p.stops != 0 {
		t.Errorf("it runs, and was found stopped %d times in a row", p.stops)
	}
}
