package session

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// A request that comes when its process has sent its last message waits for the verdict that holds the end back. One that is cancelled
// meanwhile takes nothing of what the others get.
func TestACancelledRequestToAProcessWhoseEndIsHeldBackTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		discards := slog.New(slog.DiscardHandler)
		sys := system.NewSystem(discards, system.Options{})
		spawn := func(name string, receive system.Receive) *system.PID {
			pid, err := sys.Spawn(name, receive)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return pid
		}
		runtime, approval, first, second := &stand{}, &stand{}, &stand{}, &stand{}
		for name, s := range map[string]*stand{"runtime": runtime, "approval": approval, "first": first, "second": second} {
			spawn(name, s.receive)
		}
		around := shared.Dependencies{Bus: bus.New(bus.Options{}), Logger: discards}
		v := newSupervisor(Config{Session: around.Session("late"), Config: shared.SessionConfig{MaxProcesses: 1, WarnProcesses: 1}}, runtime.pid)
		pid := spawn("session", func(ctx *system.Context) {
			v.ctx = ctx
			switch m := ctx.Message().(type) {
			case system.Started, system.Stopping:
			case func():
				m()
			default:
				v.handle(m)
			}
		})
		send := func(m any) {
			sys.Send(pid, m)
			synctest.Wait()
		}
		const id = 1000
		process := &stand{}
		send(func() {
			v.approval.actor = approval.pid
			v.entries[id] = newEntry(id, &shared.Command{}, v.ctx.Spawn("process", process.receive))
			v.slots.use(v.entries[id])
		})
		poll := func(asker *stand) protocol.Request {
			sys.Send(asker.pid, func(ctx *system.Context) { ctx.Request(pid, messages.Poll{Process: id}) })
			synctest.Wait()
			came := of[protocol.Request](process)
			return came[len(came)-1]
		}
		one, two := poll(first), poll(second) // the process has closed when they arrive there
		out := output.New()
		out.Unread.Push([]byte("rest"))
		send(protocol.Consult{Process: id})
		send(protocol.Ended{Process: id, Record: &messages.EndRecord{Cause: messages.CauseExited, Status: messages.StatusExited(0)}, Output: out})
		if len(of[protocol.Withdraw](approval)) != 1 {
			t.Fatal("the question was not withdrawn")
		}
		send(one)
		send(two)
		send(protocol.CancelWait{Waiter: first.pid.Id})
		if answers := of[*messages.Error](first); len(answers) != 1 || !errors.Is(answers[0], messages.ErrCancelled) {
			t.Errorf("the cancelled call got %v before the verdict", first.got)
		}
		if len(second.got) > 0 {
			t.Errorf("the other call got %v before the verdict", second.got)
		}
		send(protocol.Verdict{Process: id})
		if answers := of[*messages.Result](second); len(answers) != 1 || string(answers[0].Output) != "rest" {
			t.Errorf("the other call got %v", second.got)
		}
		if len(first.got) != 1 {
			t.Errorf("the cancelled call got %v", first.got)
		}
		if err := sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
