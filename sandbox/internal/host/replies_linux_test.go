package host

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/tree"
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

// An answer can be on its way when the warden has refused an execution. The judge is told what became of it, in time for the end of the tree.
func TestAJudgeLearnsWhetherItsAnswerWasInTime(t *testing.T) {
	for _, test := range []struct {
		name  string
		reply wire.Reply
		want  error
	}{
		{"in time", wire.Reply{Settled: &wire.Settled{Number: 7, Fate: executions.Passed}}, nil},
		{"late", wire.Reply{Settled: &wire.Settled{Number: 7, Fate: executions.Late}}, ptyio.ErrJudgedLate},
		{"gone", wire.Reply{Settled: &wire.Settled{Number: 7, Fate: executions.Gone}}, ptyio.ErrCallerGone},
		{"over", wire.Reply{Ended: &tree.Report{}}, ptyio.ErrCallerGone},
	} {
		for _, answered := range []bool{true, false} { // otherwise it answers after all that
			p, l := connected(t)
			settled, judging, answer := make(chan error, 2), make(chan context.Context, 1), make(chan bool)
			var said atomic.Int32
			ended := make(chan int32, 1)
			l.spec.Exited, l.spec.TreeEnded = func(messages.ExitStatus, error) {}, func(messages.TreeReport) { ended <- said.Load() }
			l.spec.Executions = &ptyio.Executions{Judge: func(ctx context.Context, _ ptyio.Execution, _ func()) (ptyio.Verdict, func(error)) {
				judging <- ctx
				<-answer
				return ptyio.Allowed, func(fate error) {
					said.Add(1)
					settled <- fate
				}
			}}
			l.judging = map[uint64]*judgement{}
			p.executions(wire.Reply{ID: l.id, Execution: &wire.Execution{Number: 7}})
			ctx := <-judging
			if answered {
				close(answer)
				for noted := false; !noted; runtime.Gosched() {
					p.mu.Lock()
					noted = l.judging[7].settled != nil
					p.mu.Unlock()
				}
			} else if test.want == nil {
				continue
			}
			test.reply.ID = l.id
			if !p.executions(test.reply) {
				p.dispatch(test.reply)
			}
			if answered && len(settled) != 1 {
				t.Errorf("%s: nothing was said before what follows", test.name)
			} else if !answered {
				<-ctx.Done()
				close(answer)
			}
			if fate := <-settled; fate != test.want {
				t.Errorf("%s, answered %v: %v", test.name, answered, fate)
			}
			if test.reply.Ended != nil && <-ended != 1 {
				t.Errorf("%s, answered %v: the tree ended before that was said", test.name, answered)
			}
			p.executions(wire.Reply{ID: l.id, Settled: &wire.Settled{Number: 7, Fate: executions.Gone}}) // nobody waits for it
			if len(settled) > 0 {
				t.Errorf("%s, answered %v: it was said twice", test.name, answered)
			}
		}
	}
}
