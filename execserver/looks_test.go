package execserver

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestAServerSaysWhatAProcessWaitsFor(t *testing.T) {
	s := newServer(t, Options{})
	c := inProcess(t, s)
	c.open("", wire.ExtensionFlow, wire.ExtensionEnds, wire.ExtensionLooks)
	params := shell("p", "printf 'word? '; stty -echo; read x")
	params.TTY = true
	c.start(params)
	for late := time.Now().Add(bound); ; time.Sleep(time.Millisecond) {
		found := ask[wire.AwaitedInputResult](t, c, wire.ProcessAwaitedInput, wire.LookParams{ProcessID: "p"})
		if found.Input != nil && found.Input.Kind == messages.InputSecret {
			if found.Seq == 0 {
				t.Error("its output has no number")
			}
			break
		}
		if time.Now().After(late) {
			t.Fatalf("%+v", found)
		}
	}
	if found := ask[wire.ListenersResult](t, c, wire.ProcessListeners, wire.LookParams{ProcessID: "p"}); found.Listeners == nil || len(found.Listeners) != 0 {
		t.Errorf("%+v", found)
	}
	for _, method := range []string{wire.ProcessAwaitedInput, wire.ProcessListeners} {
		refused(t, c, method, wire.LookParams{ProcessID: "q"}, wire.InvalidRequest, "unknown process id q")
	}
}

// inquired is a child that answers as the test wants, below a spawner of a host's own.
type inquired struct {
	*player
	gate  <-chan struct{}
	asked *atomic.Int32 // questions
}

func (i inquired) AwaitedInput() (*messages.AwaitedInput, error) {
	i.asked.Add(1)
	<-i.gate
	return nil, nil
}

func (inquired) Listeners() (found []ptyio.Listener, _ error) {
	for port := range 2 * wire.MaxListeners {
		found = append(found, ptyio.Listener{Address: netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port+1))})
	}
	return found, nil
}

type inquiring struct {
	stage
	gate  chan struct{}
	asked *atomic.Int32
}

func (i inquiring) Spawn(ctx context.Context, launch ptyio.Launch) (child ptyio.Child, err error) {
	events := launch.Events
	launch.Events = func(event ptyio.Event) {
		if born, is := event.(ptyio.Spawned); is {
			child = inquired{born.Child.(*player), i.gate, i.asked}
			event = ptyio.Spawned{Child: child}
		}
		events(event)
	}
	_, err = i.stage.Spawn(ctx, launch)
	return child, err
}

// A child that does not answer holds up nobody but who asks, for a bounded time. An answer has a bounded size.
func TestALookAtAChildOfAHostsOwnHasBounds(t *testing.T) {
	spawner := inquiring{gate: make(chan struct{}), asked: new(atomic.Int32)}
	c := inProcess(t, newServerOf(t, spawner, Options{MaxRequests: 2, patience: patience{look: 10 * time.Millisecond}}))
	c.open("")
	c.start(startParams("p", "x"))
	for range 3 {
		refused(t, c, wire.ProcessAwaitedInput, wire.LookParams{ProcessID: "p"}, wire.Internal, "did not answer in time")
	}
	if n := spawner.asked.Load(); n > 1 {
		t.Errorf("%d questions hang", n)
	}
	// On a busy machine a child that answers at once may not do so in time.
	found := answered[wire.ListenersResult](t, c, wire.ProcessListeners)
	if len(found.Listeners) != wire.MaxListeners || found.Listeners[0].Address != fmt.Sprint(netip.AddrPortFrom(netip.IPv6Unspecified(), 1)) {
		t.Errorf("%d, %+v", len(found.Listeners), found.Listeners[:1])
	}
	close(spawner.gate)
	answered[wire.AwaitedInputResult](t, c, wire.ProcessAwaitedInput)
}

// answered asks about the process p until its child has answered in time.
func answered[R any](t *testing.T, c *client, method string) (result R) {
	t.Helper()
	until(t, func() bool {
		found, fault := understood[R](t, c.send(method, wire.LookParams{ProcessID: "p"}))
		if fault != nil && !strings.Contains(fault.Message, "did not answer in time") {
			t.Fatal(fault)
		}
		result = found
		return fault == nil
	})
	return result
}

func TestASpawnerThatCannotBeAskedIsNoServerThatLooks(t *testing.T) {
	c := inProcess(t, newServerOf(t, stage{}, Options{}))
	c.open("")
	c.start(startParams("p", "x"))
	for _, method := range []string{wire.ProcessAwaitedInput, wire.ProcessListeners} {
		refused(t, c, method, wire.LookParams{ProcessID: "p"}, wire.InvalidParams, "does not say what its processes wait for")
	}
}
