package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/procs"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// killedChild makes a warden whose child with this pid was killed, and one unanswered start. Messages to the warden are
// lost.
func killedChild(t *testing.T, pid int) (*process, *leader) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(pair[1])
	conn, err := wire.NewConn(pair[0], time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := wire.NewOutbox(conn)
	t.Cleanup(func() { _ = conn.Close(); out.Abort() })
	p := newProcess(Options{Timeouts: DefaultTimeouts()}, nil)
	p.conn, p.out, p.killed = conn, out, pid
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

func TestAKilledChildIsNoLeaderForWhoGivesUpAtThatInstant(t *testing.T) {
	p, l := killedChild(t, 7)
	p.say(1, 7)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if leader, err := l.abandon(ctx); leader != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", leader, err)
	}
	p.dispatch(wire.Reply{ID: 1, Exited: &tree.Status{}, Ended: &tree.Report{}})
}

func TestAKilledChildThatNobodyWaitsForDoesNotFailALaterStart(t *testing.T) {
	p, l := killedChild(t, 7)
	l.abandoned = true
	p.say(1, 7)
	later := p.expect(t, 2)
	p.say(2, 7) // the pid is used again
	if err := <-later.reply; err != nil {
		t.Error(err)
	}
}

// hangingWarden uses a bash in place of a warden. Its subshell waits without having executed anything, as a child does.
func hangingWarden(t *testing.T) (p *process, end func() error) {
	t.Helper()
	pidfd := -1
	bash := exec.Command("bash", "-c", "(echo waits; read line); exit 7")
	bash.SysProcAttr = &syscall.SysProcAttr{PidFD: &pidfd}
	input, err := bash.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := bash.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(pidfd), "pidfd")
	t.Cleanup(func() { _ = bash.Process.Kill(); _ = input.Close(); _ = file.Close() })
	if _, err := output.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	p = newProcess(Options{Timeouts: DefaultTimeouts()}, nil)
	p.pid, p.pidfd = bash.Process.Pid, file
	p.expect(t, 1).asked = time.Now().Add(-time.Hour)
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, found := procs.FindUnexecuted(p.pid); found {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the subshell was not found waiting")
		}
	}
	return p, bash.Wait
}

func TestAChildThatHangsIsKilledAfterSoManyLooks(t *testing.T) {
	p, end := hangingWarden(t)
	for range maxHungLooks - 1 {
		p.watchStart()
	}
	if _, found := procs.FindUnexecuted(p.pid); !found || p.killed != 0 {
		t.Fatal("it was killed before its time")
	}
	p.watchStart()
	if failed, ok := errors.AsType[*exec.ExitError](end()); !ok || failed.ExitCode() != 7 || p.killed == 0 {
		t.Errorf("the parent, which lives on: %v", failed)
	}
}

func TestAWardenThatHangsOnIsKilled(t *testing.T) {
	p, end := hangingWarden(t)
	p.hanging, _ = procs.FindUnexecuted(p.pid)
	p.looks = maxHungLooks // it was killed in vain, as a process that waits for a disk
	for range maxDeadLooks - maxHungLooks {
		p.watchStart()
	}
	failed, ok := errors.AsType[*exec.ExitError](end())
	if !ok || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v", failed)
	}
}

// A start may have chosen a warden that dies, and is replaced, before the start is sent.
func TestAStartOnAWardenThatWasReplacedIsMadeByTheNext(t *testing.T) {
	p, _ := killedChild(t, 7)
	close(p.ready)
	p.dead, p.retired, p.closing = true, true, true
	if _, err := p.start(t.Context(), ptyio.Start{}); err != errRetired {
		t.Error(err)
	}
}

// A warden sends what it has to say in as few replies as it can.
func TestOneReplyMayTellTheWholeLifeOfATree(t *testing.T) {
	p, l := killedChild(t, 0)
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
