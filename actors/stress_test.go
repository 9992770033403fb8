package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// share is n in a soak, and a twentieth of it otherwise.
func share(n int) int {
	if *soak {
		return n
	}
	return n / 20
}

// observer records the spawner's reports about every child, before the actors process them.
type observer struct {
	mu    sync.Mutex
	lives map[messages.CallID]*observed
}

type observed struct {
	exits int
	exit  ptyio.Exited
	trees int
}

// nameVariable names, for the observer, the call that a launch belongs to.
const nameVariable = "LIFE="

func (o *observer) raw(launch ptyio.Launch, event ptyio.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.life(launch)
	switch e := event.(type) {
	case ptyio.Exited:
		l.exits++
		l.exit = e
	case ptyio.TreeEnded:
		l.trees++
	}
}

func (o *observer) life(launch ptyio.Launch) *observed {
	at := slices.IndexFunc(launch.Env, func(v string) bool { return strings.HasPrefix(v, nameVariable) })
	call := messages.CallID(strings.TrimPrefix(launch.Env[at], nameVariable))
	if o.lives[call] == nil {
		o.lives[call] = &observed{}
	}
	return o.lives[call]
}

// life is one kind of life, with the expected end. There are several ends where the test and the process race.
type life struct {
	name   string
	script string
	then   func(s *talk, id messages.ProcessID) // once it has said "ready"; nil: it ends by itself
	causes []messages.Cause
	by     messages.TerminatedBy
	status []messages.ExitStatus // nil: any that the kernel reported
}

// lives are drawn from these; n varies the codes.
func lives(n int) []life {
	exited, terminated := []messages.Cause{messages.CauseExited}, []messages.Cause{messages.CauseTerminated}
	code := messages.StatusExited(n % 256)
	terminate := func(by messages.TerminatedBy, grace time.Duration) func(*talk, messages.ProcessID) {
		return func(s *talk, id messages.ProcessID) {
			s.system.Send(s.supervisor, messages.Terminate{Process: id, By: by, Grace: new(grace)})
		}
	}
	// A terminal's processes get SIGHUP, too.
	term, kill := []messages.ExitStatus{messages.StatusSignaled(15), messages.StatusSignaled(1)}, []messages.ExitStatus{messages.StatusSignaled(9)}
	all := []life{
		{"its own code", fmt.Sprintf("echo ready; exit %d", n%256), nil, exited, "", []messages.ExitStatus{code}},
		{"its own signal", "echo ready; kill -KILL $$", nil, exited, "", kill},
		{"left children", fmt.Sprintf("sleep 1000 & echo ready; exit %d", n%256), nil, exited, "", []messages.ExitStatus{code}},
		{"a signal from outside", "echo ready; exec sleep 1000", func(s *talk, id messages.ProcessID) {
			s.system.Send(s.supervisor, messages.Signal{Process: id, Signal: 9})
		}, exited, "", kill},
		{"a trap that exits 0", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done", terminate(messages.TerminatedByUser, patience),
			terminated, messages.TerminatedByUser, []messages.ExitStatus{messages.StatusExited(0)}},
		{"deaf", "trap '' TERM HUP; echo ready; while :; do sleep 0.01; done", terminate(messages.TerminatedByLimit, 20*time.Millisecond),
			terminated, messages.TerminatedByLimit, kill},
		{"its end races with ours", fmt.Sprintf("echo ready; exit %d", n%256), terminate(messages.TerminatedByUser, 500*time.Millisecond),
			[]messages.Cause{messages.CauseExited, messages.CauseTerminated}, messages.TerminatedByUser, slices.Concat([]messages.ExitStatus{code}, term, kill)},
	}
	for _, by := range []messages.TerminatedBy{messages.TerminatedByUser, messages.TerminatedByTimeout, messages.TerminatedByLimit} {
		all = append(all, life{"terminated by " + string(by), "echo ready; " + idle, terminate(by, patience), terminated, by, term})
	}
	return append(all,
		life{"a failed spawn", "", nil, []messages.Cause{messages.CauseSpawnFailed}, "", []messages.ExitStatus{messages.StatusNone()}},
		life{"a crash", "echo ready; " + idle, func(s *talk, id messages.ProcessID) {
			s.system.Send(s.supervisor, messages.Resize{Process: id, Size: deadly})
		}, []messages.Cause{messages.CauseRuntimeFailure}, "", nil},
		life{"the session's end", "echo ready; " + idle, func(*talk, messages.ProcessID) {}, terminated, messages.TerminatedBySessionClose, term},
	)
}

// deadly is a size at which a child panics.
var deadly = messages.Size{Rows: 666, Cols: 666}

type mortal struct{ ptyio.Child }

func (m mortal) Resize(size messages.Size) error {
	if size == deadly {
		panic("deadly")
	}
	return m.Child.Resize(size)
}

func TestManyLivesEndOnceAsAnObserverSawThem(t *testing.T) {
	saw := &observer{lives: map[messages.CallID]*observed{}}
	h := newHost(t, hostOptions{seam: seam{raw: saw.raw, child: func(c ptyio.Child) ptyio.Child { return mortal{c} }}})
	const each = 50 // lives of a session
	deaths := make(chan struct{}, 8)
	var all sync.WaitGroup
	var mu sync.Mutex
	counted := map[string]int{}
	for n := range max(share(10_000)/each, 1) {
		deaths <- struct{}{}
		all.Go(func() {
			defer func() { <-deaths }()
			for name, count := range liveAndDie(h, saw, n, each) {
				mu.Lock()
				counted[name] += count
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%v", counted)
	awaitThat(t, "nothing is left", func() bool { got := h.stats(); return got.Processes == 0 && got.Sessions == 0 })
}

// liveAndDie runs a session of random lives and checks their ends. Every tenth session prunes: its cap is lower than the
// number of those that live until its end.
func liveAndDie(h *host, saw *observer, session, each int) map[string]int {
	prunes := session%10 == 9
	s := h.open(func(c *shared.SessionConfig) {
		c.Session = messages.SessionID(fmt.Sprint("life-", session))
		if prunes {
			c.MaxProcesses, c.Protected = 4, 1
		}
	})
	began := map[messages.CallID]life{}
	counted := map[string]int{}
	for n := range each {
		random := lives(session*each + n)
		l := random[rand.IntN(len(random))]
		if prunes && rand.IntN(2) == 0 {
			l = random[len(random)-1]
		}
		call := messages.CallID(fmt.Sprintf("%d-%d", session, n))
		began[call] = l
		counted[l.name]++
		command := quick(l.script)
		command.Call, command.TTY, command.Grace = call, rand.IntN(3) == 0, new(patience)
		command.Environment = &messages.EnvironmentPolicy{Set: map[string]string{strings.TrimSuffix(nameVariable, "="): string(call)}}
		if l.script == "" {
			command.Argv = []string{"/does/not/exist"}
		}
		r, err := ask[*messages.Result](h, s.supervisor, command)
		if err == nil && l.then != nil {
			if l.name != "its end races with ours" {
				s.awaitReady(call)
			}
			l.then(s, r.Process)
		}
	}
	must[protocol.Done](h, s.supervisor, protocol.CloseSession{By: messages.TerminatedBySessionClose})
	for range each {
		probe.Expect[messages.ExecEnded](s.events, patience, nil)
	}
	ends := probe.Of[messages.ExecEnded](s.events, nil)
	if len(ends) != each {
		h.t.Errorf("%d ends of %d lives", len(ends), each)
	}
	for _, end := range ends {
		l, known := began[end.Call]
		if !known {
			h.t.Errorf("%s ended twice", end.Call)
			continue
		}
		delete(began, end.Call)
		if prunes && end.By == messages.TerminatedByPrune {
			counted["pruned"]++
			l.causes, l.by, l.status = []messages.Cause{messages.CauseTerminated}, messages.TerminatedByPrune, nil
		}
		saw.check(h.t, l, end)
	}
	return counted
}

// awaitReady waits until a process has said that it is ready, or has ended (by pruning).
func (s *talk) awaitReady(call messages.CallID) {
	s.t.Helper()
	awaitThat(s.t, "a life is ready or over", func() bool {
		return len(probe.Of(s.events, func(e messages.Event) bool {
			switch e := e.(type) {
			case messages.OutputDelta:
				return e.Call == call && bytes.Contains(e.Bytes, []byte("ready"))
			case messages.ExecEnded:
				return e.Call == call
			}
			return false
		})) > 0
	})
}

// check compares an end with the expected and the observed one.
func (o *observer) check(t testing.TB, l life, end messages.ExecEnded) {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := fmt.Sprintf("%s (%s): %v", l.name, end.Call, &end.EndRecord)
	closed := end.By == messages.TerminatedBySessionClose && l.causes[0] == messages.CauseExited // it came before the exit
	if !closed && (!slices.Contains(l.causes, end.Cause) || end.By != "" && end.By != l.by) {
		t.Errorf("%s: want %v by %q", told, l.causes, l.by)
	}
	if !closed && l.status != nil && !slices.Contains(l.status, end.Status) {
		t.Errorf("%s: want a status of %v", told, l.status)
	}
	if (end.Cause == messages.CauseTerminated) != (end.By != "") {
		t.Errorf("%s: an initiator goes with a termination", told)
	}
	seen := o.lives[end.Call]
	if seen == nil || seen.exits == 0 {
		if end.Status != messages.StatusNone() {
			t.Errorf("%s: the spawner reported no exit", told)
		}
		return
	}
	if seen.exits != 1 || seen.trees != 1 || seen.exit.Status != end.Status {
		t.Errorf("%s: the spawner reported %d exits, with %v, and %d ends of a tree", told, seen.exits, seen.exit.Status, seen.trees)
	}
}

// Calls that are cancelled at random moments lose no byte: all answers together are the output.
func TestCancelledCallsLoseNoByte(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	cancels := share(1_000)
	for round := 0; cancels > 0; round++ {
		const lines = 2_000
		command := quick(fmt.Sprintf("stty raw -echo 2>/dev/null; for ((i = 0; i < %d; i++)); do echo line $i; ((i %% 20)) || sleep 0.002; done; read -r x", lines))
		command.OpenStdin, command.TTY = true, round%2 == 1
		id := s.exec(command).Process
		var got bytes.Buffer
		ended := false
		take := func(w waiting) {
			reply, err := w.reply()
			switch result, ok := reply.(*messages.Result); {
			case ok:
				got.Write(result.Output)
				ended = ended || !result.Running
			case !errors.Is(err, messages.ErrCancelled) && !errors.Is(err, messages.ErrProcessEnded):
				t.Fatalf("%v", err)
			}
		}
		for over := false; cancels > 0 && !over; cancels-- {
			var message any = messages.Poll{Process: id, NoTimeout: rand.IntN(2) == 0}
			if rand.IntN(3) == 0 {
				message = messages.WriteStdin{Process: id, Bytes: []byte("x")}
			}
			w := s.call(message)
			w.answered(time.Duration(rand.IntN(3_000)) * time.Microsecond)
			w.cancel()
			take(w)
			over = ended || strings.Contains(got.String(), fmt.Sprintf("line %d\n", lines-1))
			w.Close()
		}
		s.said(id, fmt.Sprintf("line %d\n", lines-1))
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("\n"), UntilTaken: true})
		for !ended {
			take(s.call(messages.Poll{Process: id}))
		}
		s.ended(id)
		if rest, err := ask[*messages.Result](h, s.supervisor, messages.Poll{Process: id}); err == nil {
			got.Write(rest.Output)
		}
		var want bytes.Buffer
		for i := range lines {
			fmt.Fprintf(&want, "line %d\n", i)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("round %d: %d bytes, want %d", round, got.Len(), want.Len())
		}
	}
}

// The answer comes soon after the leader's exit, under load and while background children hold the output open.
func TestAnExitIsAnsweredSoon(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the probes of this test keep much
	var mu sync.Mutex
	exits, settled := map[messages.CallID]time.Time{}, map[messages.CallID]time.Time{}
	h := newHost(t, hostOptions{seam: seam{raw: func(launch ptyio.Launch, e ptyio.Event) {
		at := slices.IndexFunc(launch.Env, func(v string) bool { return strings.HasPrefix(v, nameVariable) })
		call := messages.CallID(strings.TrimPrefix(launch.Env[at], nameVariable))
		mu.Lock()
		defer mu.Unlock()
		switch e.(type) {
		case ptyio.Exited:
			exits[call] = time.Now()
		case ptyio.Drained:
			settled[call] = time.Now()
		}
	}}})
	s := h.open(nil)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 2 { // two cores' worth
		load.Go(func() {
			for ctx.Err() == nil {
				_, _ = os.Stat("/")
			}
		})
	}
	var took, ours []time.Duration
	for n := range max(share(200), 20) {
		call := messages.CallID(fmt.Sprint(n))
		command := shell("sleep 1000 & echo leader; exit 3")
		command.Call, command.TTY = call, n%2 == 0
		command.Environment = &messages.EnvironmentPolicy{Set: map[string]string{strings.TrimSuffix(nameVariable, "="): string(call)}}
		got := s.exec(command)
		answered := time.Now()
		mu.Lock()
		took, ours = append(took, answered.Sub(exits[call])), append(ours, answered.Sub(settled[call]))
		mu.Unlock()
		wantCode(t, got, 3)
		if got.Background == nil && !command.TTY || got.Background != nil && (got.Background.Count != 1 || got.Background.Kept) {
			t.Errorf("background: %+v", got.Background)
		}
		if text := string(got.Output); strings.TrimSpace(text) != "leader" {
			t.Errorf("output %q", text)
		}
	}
	stop()
	load.Wait()
	slices.Sort(took)
	slices.Sort(ours)
	p99 := took[len(took)*99/100]
	t.Logf("leader exit to answer, %d times: median %v, p99 %v, most %v", len(took), took[len(took)/2], p99, took[len(took)-1])
	t.Logf("of that, from the last output to the answer: median %v, p99 %v", ours[len(ours)/2], ours[len(ours)*99/100])
	if *soak && p99 > 100*time.Millisecond { // few say nothing, on a machine that may be slow
		t.Errorf("it took %v", p99)
	}
}
