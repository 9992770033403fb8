package actors

import (
	"context"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/probe"
)

// alive says whether the leader of a process that was started still runs.
func alive(started messages.ExecStarted) bool { return syscall.Kill(started.PID, 0) == nil }

// wantCrash checks the one end of a process whose actor crashed, that its slot is free and that nothing else is
// affected.
func wantCrash(t testing.TB, s *talk, id, bystander messages.ProcessID) messages.ExecEnded {
	t.Helper()
	end := s.ended(id)
	if end.Cause != messages.CauseRuntimeFailure || end.By != "" {
		t.Errorf("the end: %v", &end.EndRecord)
	}
	wantContained(t, s, id, bystander)
	return end
}

func wantContained(t testing.TB, s *talk, id, bystander messages.ProcessID) {
	t.Helper()
	_, err := ask[any](s.host, s.supervisor, messages.Poll{Process: id})
	if err == nil { // it had said something that nobody had taken
		_, err = ask[any](s.host, s.supervisor, messages.Poll{Process: id})
	}
	if late := wantError(t, "a poll after the end", err, messages.ErrProcessEnded); late.Ended == nil || late.Ended.Cause != messages.CauseRuntimeFailure {
		t.Errorf("%+v", late)
	}
	s.echoes(bystander)
	probe.ExpectNone(s.events, patience, func(e messages.ExecEnded) bool { return e.Process == id || e.Process == bystander },
		endOf(s.exec(shell("true"))))
	if live := s.list(); len(live) != 1 || live[0].Process != bystander {
		t.Errorf("list: %+v", live)
	}
	awaitThat(t, "all slots but the bystander's are free", func() bool { return s.stats().Processes == 1 })
}

// echoes checks that a cat lives.
func (s *talk) echoes(id messages.ProcessID) {
	s.t.Helper()
	s.typed(id, "still here\n")
	s.said(id, "still here\n")
}

func cat(s *talk) messages.ProcessID {
	command := quick("cat")
	command.OpenStdin = true
	return s.exec(command).Process
}

func TestACrashOfARunningProcessActorIsContained(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		bystander := cat(s)
		crashing := onTerminal(quick(`trap "" HUP; ` + idle)) // a shell that reads could exit when its terminal ends
		var id messages.ProcessID
		actor := h.newActor(func() { id = s.exec(crashing).Process })
		started := probe.Expect(s.events, patience, func(e messages.ExecStarted) bool { return e.Process == id })
		calls := []waiting{s.call(messages.Poll{Process: id, NoTimeout: true}), s.call(messages.Poll{Process: id}),
			s.call(messages.WriteStdin{Process: id, Bytes: []byte("true\n"), Yield: new(messages.MaxYield)}),
			s.call(messages.Terminate{Process: 99_999})}
		calls[3].reply() // the supervisor has passed on the others
		h.system.Send(actor, deliberate{})
		for _, call := range calls[:2] {
			if reply, err := call.reply(); err != nil { // the write may have ended them with a result
				wantError(t, "an open call", err, messages.ErrRuntimeFailure)
			} else if reply.(*messages.Result).Process != id {
				t.Errorf("%+v", reply)
			}
		}
		_, err := calls[2].reply()
		wantError(t, "an open call", err, messages.ErrRuntimeFailure)
		if end := wantCrash(t, s, id, bystander); end.Status.Kind != messages.ExitSignal || !strings.Contains(end.Detail, "crashed") {
			t.Errorf("%v", &end.EndRecord)
		}
		if alive(started) {
			t.Error("the leader is alive")
		}
	})
}

func TestACrashInEachOtherStateIsContained(t *testing.T) {
	t.Run("waiting for a slot", func(t *testing.T) {
		h := newHost(t, hostOptions{})
		s := h.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.Protected = mostAbove+2, 1 })
		var old []messages.ProcessID
		for range mostAbove + 1 {
			old = append(old, s.exec(quick("trap 'echo asked' TERM; echo deaf; while :; do sleep 0.01; done")).Process)
			s.said(old[len(old)-1], "deaf")
		}
		bystander := cat(s)
		var guests []waiting
		for range mostAbove {
			guests = append(guests, s.call(shell(idle)))
		}
		s.started(2*mostAbove + 2)
		var call waiting
		actor := h.newActor(func() { call = s.call(shell("echo never")) })
		awaitThat(t, "the slot of an old one is being freed", func() bool {
			return slices.ContainsFunc(old, func(id messages.ProcessID) bool { return strings.Contains(s.events.Output(id), "asked") })
		})
		h.system.Send(actor, deliberate{})
		_, err := call.reply()
		wantError(t, "the initial call", err, messages.ErrRuntimeFailure)
		if end := s.ended(bystander + mostAbove + 1); end.Cause != messages.CauseRuntimeFailure {
			t.Errorf("%+v", end.EndRecord)
		}
		for _, id := range append(old, bystander+1, bystander+2, bystander+3, bystander+4, bystander+5, bystander+6, bystander+7, bystander+8) {
			_, _ = ask[*messages.EndRecord](h, s.supervisor, messages.Terminate{Process: id, Grace: new(time.Duration)})
		}
		for _, guest := range guests {
			guest.reply()
		}
		wantContained(t, s, bystander+mostAbove+1, bystander)
	})
	t.Run("starting", func(t *testing.T) {
		o, entered, open := gatedSpawn()
		h := newHost(t, o)
		s := h.open(nil)
		go func() { open <- struct{}{} }()
		bystander := cat(s)
		<-entered
		var call waiting
		actor := h.newActor(func() { call = s.call(shell("echo never")) })
		<-entered
		end := s.call(messages.Terminate{Process: 99_999})
		end.reply()
		h.system.Send(actor, deliberate{})
		_, err := call.reply()
		wantError(t, "the initial call", err, messages.ErrRuntimeFailure)
		s.ended(bystander + 1) // its spawner was called off
		close(open)
		wantContained(t, s, bystander+1, bystander)
	})
	t.Run("exited", func(t *testing.T) {
		h := newHost(t, hostOptions{})
		s := h.open(nil)
		bystander := cat(s)
		kept := quick("trap '' HUP; sleep 1000 & echo left; exit 5")
		kept.OnLeaderExit = messages.LeaderExitKeepsTree
		var id messages.ProcessID
		actor := h.newActor(func() { id = s.exec(kept).Process })
		first := must[*messages.Result](h, s.supervisor, messages.Poll{Process: id})
		if !first.Running || first.Status != messages.StatusExited(5) || first.Background == nil || !first.Background.Kept {
			t.Errorf("%+v", first)
		}
		poll := s.call(messages.Poll{Process: id, NoTimeout: true})
		s.call(messages.Terminate{Process: 99_999}).reply()
		h.system.Send(actor, deliberate{})
		_, err := poll.reply()
		wantError(t, "the poll", err, messages.ErrRuntimeFailure)
		if end := wantCrash(t, s, id, bystander); end.Status != messages.StatusExited(5) || end.Tree.Ended != 1 {
			t.Errorf("%v, tree %+v", &end.EndRecord, end.Tree)
		}
	})
	t.Run("closed", func(t *testing.T) {
		h := newHost(t, hostOptions{})
		s := h.open(nil)
		for range 8 { // the actor's end or its crash may come first: there is one end
			var id messages.ProcessID
			actor := h.newActor(func() { id = cat(s) })
			must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id})
			probe.Expect(s.events, patience, func(e messages.ExecExited) bool { return e.Process == id })
			h.system.Send(actor, deliberate{})
			s.ended(id)
			probe.ExpectNone(s.events, patience, func(e messages.ExecEnded) bool { return e.Process == id },
				endOf(s.exec(shell("true"))))
		}
	})
}

func TestASpawnerThatPanicsIsContained(t *testing.T) {
	var o hostOptions
	o.seam.before = func(_ context.Context, launch ptyio.Launch) error {
		if launch.Argv[0] == "panic" {
			panic("told to")
		}
		return nil
	}
	h := newHost(t, o)
	s := h.open(nil)
	bystander := cat(s)
	_, err := ask[any](h, s.supervisor, messages.ExecCommand{Argv: []string{"panic"}})
	wantError(t, "the initial call", err, messages.ErrRuntimeFailure)
	wantCrash(t, s, bystander+1, bystander)
}

func TestASpawnerThatEndsItsGoroutineIsContained(t *testing.T) {
	var o hostOptions
	o.seam.before = func(_ context.Context, launch ptyio.Launch) error {
		if launch.Argv[0] == "leave" {
			goruntime.Goexit()
		}
		return nil
	}
	h := newHost(t, o)
	s := h.open(nil)
	bystander := cat(s)
	for _, command := range []any{messages.ExecCommand{Argv: []string{"leave"}}, protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"leave"}}},
		messages.RunCommand{Argv: []string{"leave"}}} {
		_, err := ask[any](h, s.supervisor, command)
		wantError(t, "the initial call", err, messages.ErrRuntimeFailure)
		if end := probe.Expect[messages.ExecEnded](s.events, patience, nil); end.Cause != messages.CauseRuntimeFailure {
			t.Errorf("the end: %v", &end.EndRecord)
		}
	}
	if live := s.list(); len(live) != 1 || live[0].Process != bystander {
		t.Errorf("list: %+v", live)
	}
}

// brittle is a child that panics where it is told to.
type brittle struct {
	ptyio.Child
	pid, resize bool
}

func (b brittle) PID() int {
	if b.pid {
		panic("PID panics")
	}
	return b.Child.PID()
}

func (b brittle) Resize(size messages.Size) error {
	if b.resize {
		panic("Resize panics")
	}
	return b.Child.Resize(size)
}

func TestAChildThatPanicsIsContained(t *testing.T) {
	for name, test := range map[string]brittle{"asked for its pid": {pid: true}, "resized": {resize: true}} {
		t.Run(name, func(t *testing.T) {
			var born int
			var o hostOptions
			o.seam.child = func(child ptyio.Child) ptyio.Child {
				if born++; born == 2 {
					test.Child = child
					return test
				}
				return child
			}
			h := newHost(t, o)
			s := h.open(nil)
			bystander := cat(s)
			id := s.exec(onTerminal(quick(idle))).Process
			if info := s.list()[1]; (info.PID == 0) != test.pid {
				t.Errorf("%+v", info)
			}
			want := messages.Size{Rows: 30, Cols: 100}
			_, err := ask[any](h, s.supervisor, messages.Resize{Process: id, Size: want})
			if test.resize {
				want = messages.Size{}.OrDefault()
				wantError(t, "the resize", err, messages.ErrRuntimeFailure)
			} else if err != nil {
				t.Error(err)
			}
			page := must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: id, Tail: 1})
			if last := page.Sizes[len(page.Sizes)-1].Size; last != want {
				t.Errorf("the terminal has %v, and a read says %v", want, page.Sizes)
			}
			if record, err := s.terminate(id); err != nil || record.Cause != messages.CauseTerminated || record.Status != messages.StatusSignaled(15) {
				t.Errorf("the child goes on: %v, %v", record, err)
			}
			s.echoes(bystander)
		})
	}
}

// crashSupervisor crashes a session's own actor.
func crashSupervisor(s *talk) { s.system.Send(s.supervisor, deliberate{}) }

func TestACrashOfASupervisorAnswersAllAndEndsAll(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s, other := h.open(nil), h.open(nil)
		neighbour := cat(other)
		// None ends before the supervisor crashes.
		const stubbornly = "trap '' TERM HUP; stty raw -echo 2>/dev/null; echo deaf; " + idle
		stubborn := s.exec(quick(stubbornly)).Process
		s.said(stubborn, "deaf")
		id := s.exec(onTerminal(quick(stubbornly))).Process
		s.said(id, "deaf")
		calls := []waiting{
			s.call(shell(stubbornly)),
			s.call(messages.RunCommand{Argv: []string{"bash", "-c", stubbornly}}),
			s.call(messages.Poll{Process: stubborn, NoTimeout: true}),
			s.call(messages.WriteStdin{Process: id, Bytes: make([]byte, ptyio.MaxPendingInput), UntilTaken: true}),
		}
		for n := range 2 { // before an ending holds one of them back
			s.said(id+messages.ProcessID(n+1), "deaf")
		}
		calls = append(calls, s.call(messages.Terminate{Process: stubborn, Grace: new(10 * time.Second)}), s.call(protocol.TerminateAll{}))
		crashSupervisor(s)
		calls = append(calls, s.call(protocol.ListProcesses{}))
		for i, call := range calls {
			_, err := call.reply()
			if err == nil {
				t.Errorf("call %d was answered without an error", i)
			}
		}
		began := probe.Of[messages.ExecStarted](s.events, nil)
		for _, started := range began {
			awaitThat(t, "the children have ended", func() bool { return !alive(started) })
			awaitThat(t, "their ends are published", func() bool { return len(s.endsOf(started.Process)) > 0 })
		}
		other.echoes(neighbour)
		awaitThat(t, "the slots are free", func() bool { return h.stats().Processes == 1 && h.stats().Sessions == 1 })
		for _, started := range began {
			if ends := s.endsOf(started.Process); len(ends) != 1 || ends[0].Cause != messages.CauseRuntimeFailure {
				t.Errorf("ends of %d: %+v", started.Process, ends)
			}
		}
	})
}

func TestAnEndThatTheSupervisorCannotReceiveIsStillPublished(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := s.exec(quick("exit 3")).Process
	crashSupervisor(s)
	awaitThat(t, "the end is published", func() bool { return len(s.endsOf(id)) > 0 })
	h.shutdown()
	if ends := s.endsOf(id); len(ends) != 1 {
		t.Errorf("ends: %+v", ends)
	}
}

func TestALostWardenIsARuntimeFailureOfItsProcesses(t *testing.T) {
	lost := probe.New(t)
	h := newHost(t, hostOptions{lost: func(w sandbox.WardenLost) { lost.Receive(w) }})
	s := h.open(nil)
	poll := s.call(messages.ExecCommand{Argv: []string{"bash", "-c", "echo begun; " + idle}, Yield: new(messages.MaxYield)})
	started := probe.Expect[messages.ExecStarted](s.events, patience, nil)
	s.said(started.Process, "begun")
	if err := syscall.Kill(parentOf(t, started.PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := poll.result(); got.Running || got.Status != messages.StatusNone() || string(got.Output) != "begun\n" ||
		!strings.Contains(got.Lost, "warden") {
		t.Errorf("the call that waited: %+v", got)
	}
	end := s.ended(started.Process)
	if end.Cause != messages.CauseRuntimeFailure || end.Status != messages.StatusNone() || !strings.Contains(end.Detail, "warden") ||
		string(end.Transcript) != "begun\n" {
		t.Errorf("%v, %q", &end.EndRecord, end.Transcript)
	}
	probe.Expect[sandbox.WardenLost](lost, patience, nil)
	_, err := ask[any](h, s.supervisor, messages.Poll{Process: started.Process})
	if late := wantError(t, "a poll", err, messages.ErrProcessEnded); late.Ended == nil || !strings.Contains(late.Ended.Detail, "warden") {
		t.Errorf("%+v", late)
	}
	wantCode(t, s.exec(shell("exit 4")), 4)
}
