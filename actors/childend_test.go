package actors

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// puppets are a host's own spawner, whose children exist in a test only. Each is asked to end by endTree.
type puppets struct {
	ptyio.Spawner
	endTree func(*unending)
	fails   error // the error that Spawn returns, although it has reported a child
	last    *unending
}

func (s *puppets) Resolver() ptyio.Resolver { return nowhere{} }

func (s *puppets) Spawn(_ context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	s.last = &unending{of: s, events: launch.Events, abandoned: make(chan struct{})}
	launch.Events(ptyio.Spawned{Child: s.last})
	return s.last, s.fails
}

// nowhere is the machine of puppets, where everything is a program.
type nowhere struct{ ptyio.Resolver }

func (nowhere) Program(_ context.Context, name, _, _ string) (string, error) { return name, nil }
func (nowhere) IsFile(context.Context, string) (bool, error)                 { return true, nil }
func (nowhere) IsDir(context.Context, string) (bool, error)                  { return true, nil }
func (nowhere) UserShell(context.Context) (string, error)                    { return "", nil }
func (nowhere) TrustedDirs(context.Context) ([]string, error)                { return nil, nil }

type unending struct {
	ptyio.Child
	of        *puppets
	events    func(ptyio.Event)
	abandoned chan struct{} // closed by Abandon, which may come once
}

func (p *unending) PID() int              { return 7 }
func (p *unending) EndTree(time.Duration) { p.of.endTree(p) }

// Abandon takes its time to kill the tree.
func (p *unending) Abandon() {
	close(p.abandoned)
	time.AfterFunc(dying, func() {
		for _, event := range []ptyio.Event{ptyio.Exited{Status: messages.StatusSignaled(9)}, ptyio.Drained{}, ptyio.Closed{}, ptyio.TreeEnded{}} {
			p.events(event)
		}
	})
}

const dying = time.Second

// withPuppets runs a test beside a runtime that has a patience of End, and more of everything else.
func withPuppets(t *testing.T, s *puppets, end time.Duration, test func(*testing.T, *talk)) {
	synctest.Test(t, func(t *testing.T) {
		seen := &witness{living: map[string]*system.PID{}}
		sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{Before: seen.before, Unexpected: unexpected(t)})
		h := &host{t: t, system: sys, witness: seen, bus: bus.New(bus.Options{}), dir: "/"}
		var err error
		if h.runtime, err = StartRuntime(sys, shared.Dependencies{Bus: h.bus, Spawner: s, Logger: slog.New(slog.DiscardHandler), MaxProcesses: 9,
			Patience: shared.Patience{End: end, Child: time.Hour, Spawn: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		defer h.bus.Close()
		defer func() {
			if _, err := ask[protocol.Done](h, h.runtime, CloseRuntime{}); err != nil {
				t.Error(err)
			}
			if err := sys.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		test(t, h.open(nil))
	})
}

func TestAChildThatCannotBeAskedToEndIsAbandonedAtOnce(t *testing.T) {
	s := &puppets{endTree: func(*unending) { panic("EndTree panics") }}
	withPuppets(t, s, time.Hour, func(t *testing.T, s *talk) {
		record, err := s.terminate(s.exec(quick("")).Process)
		if err != nil || record.Cause != messages.CauseTerminated || record.Status != messages.StatusSignaled(9) || len(record.Tree.Survivors) > 0 {
			t.Errorf("%v, %v", record, err)
		}
	})
}

func TestAnotherTerminationTakesNoTimeFromAnAbandonedChild(t *testing.T) {
	s := &puppets{endTree: func(*unending) {}}
	withPuppets(t, s, 2*dying, func(t *testing.T, s *talk) {
		id := s.exec(quick("")).Process
		first := s.call(messages.Terminate{Process: id})
		time.Sleep(dying / 2)
		record, err := s.terminate(id)
		if err != nil || record.Status != messages.StatusSignaled(9) || len(record.Tree.Survivors) > 0 {
			t.Errorf("%v, %v", record, err)
		}
		first.reply()
	})
}

func TestAChildThatItsSpawnerDeniesIsEndedWithACrash(t *testing.T) {
	puppets := &puppets{endTree: func(*unending) {}, fails: errors.New("there is none")}
	withPuppets(t, puppets, time.Hour, func(t *testing.T, s *talk) {
		var id messages.ProcessID
		actor := s.newActor(func() { id = s.exec(quick("")).Process })
		s.system.Send(actor, deliberate{})
		if end := s.ended(id); end.Cause != messages.CauseRuntimeFailure || end.Status != messages.StatusSignaled(9) {
			t.Errorf("%v", &end.EndRecord)
		}
		select {
		case <-puppets.last.abandoned:
		default:
			t.Error("it lives")
		}
	})
}
