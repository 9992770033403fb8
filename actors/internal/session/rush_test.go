package session

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
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

// rush is a session that many starts come to. The test decides what their processes say, and when the session and the runtime's
// actor hear of each other.
type rush struct {
	t       *testing.T
	system  *system.System
	runtime *system.PID
	dice    *rand.Rand
	most    int // processes of all sessions
	session *supervisor
	pid     *system.PID
	line    *stand // between the session and the runtime's actor
	others  *stand // another session
	given   int    // that the other session has given back
	all     []*runner
	came    messages.ProcessID
	moment  int
	hangs   bool // a spawner
	story   []string
}

// runner is a process of a rush that has not ended.
type runner struct {
	*stand
	*entry
	id     messages.ProcessID
	order  int // when it first wanted a slot and no tree held it back; zero: not yet
	had    slotStage
	exited bool // its leader
}

// stand is an actor that keeps what it gets, and does what the test says.
type stand struct {
	pid *system.PID
	got []any
}

func (s *stand) receive(ctx *system.Context) {
	switch m := ctx.Message().(type) {
	case system.Started:
		s.pid = ctx.Self()
	case func(*system.Context):
		m(ctx)
	case protocol.Retire:
		ctx.Stop(s.pid)
	case system.Stopping:
	default:
		s.got = append(s.got, m)
	}
}

// of is what a stand has got of one kind.
func of[T any](s *stand) (found []T) {
	for _, m := range s.got {
		if m, is := m.(T); is {
			found = append(found, m)
		}
	}
	return found
}

// allSlots is a runtime's actor that only counts processes.
type allSlots struct {
	most, taken int
	hanging     bool
	waiting     []slotWish
}

type slotWish struct {
	session *system.PID
	id      messages.ProcessID
}

var (
	errFull  = &messages.Error{Code: messages.ErrLimitReached}
	errHangs = &messages.Error{Code: messages.ErrRuntimeFailure}
)

// refused is from the actor to itself: a wish has waited long enough.
type refused struct{ slotWish }

func (a *allSlots) receive(ctx *system.Context) {
	switch m := ctx.Message().(type) {
	case protocol.TakeSlot:
		a.waiting = append(a.waiting, slotWish{ctx.Sender(), m.Process})
		if a.taken == a.most && !a.hanging {
			ctx.Send(ctx.Sender(), protocol.SlotAwaited(m))
			ctx.After(patienceOfAll, refused{a.waiting[len(a.waiting)-1]})
		}
	case protocol.WithdrawSlot:
		a.drop(slotWish{ctx.Sender(), m.Process})
	case refused:
		if a.drop(m.slotWish) {
			ctx.Send(m.session, protocol.SlotTaken{Process: m.id, Err: errFull})
		}
	case protocol.GiveSlot:
		a.taken--
	case protocol.Counted:
		if m.Slot {
			a.taken--
		}
	case protocol.SpawnerHangs:
		a.hanging = m.Change > 0
	case func(*allSlots):
		m(a)
		ctx.Respond(protocol.Done{})
	}
	for len(a.waiting) > 0 && (a.hanging || a.taken < a.most) {
		first := a.waiting[0]
		a.waiting = a.waiting[1:]
		answer := protocol.SlotTaken{Process: first.id}
		if a.hanging {
			answer.Err = errHangs
		} else {
			a.taken++
		}
		ctx.Send(first.session, answer)
	}
}

// patienceOfAll is how long a wish waits.
const patienceOfAll = 250 * time.Millisecond

func (a *allSlots) drop(w slotWish) bool {
	i := slices.IndexFunc(a.waiting, func(other slotWish) bool { return other.id == w.id && other.session.Equal(w.session) })
	if i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
	return i >= 0
}

// counted is how many processes are counted in all.
func (r *rush) counted() (n int) {
	r.t.Helper()
	if _, err := system.Ask[protocol.Done](r.t.Context(), r.system, r.runtime, func(a *allSlots) { n = a.taken }); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func newRush(t *testing.T, dice *rand.Rand, most, all int) *rush {
	discards := slog.New(slog.DiscardHandler)
	r := &rush{t: t, system: system.NewSystem(discards, system.Options{}), dice: dice, most: all, line: &stand{}, others: &stand{}}
	r.runtime = r.spawn("runtime", (&allSlots{most: all}).receive)
	r.spawn("line", r.line.receive)
	r.spawn("others", r.others.receive)
	config := shared.SessionConfig{MaxProcesses: most, WarnProcesses: most, Protected: dice.IntN(most + 1)}
	around := shared.Dependencies{Bus: bus.New(bus.Options{}), Logger: discards, Teardown: 100 * time.Millisecond}
	r.session = newSupervisor(Config{Session: around.Session("rush"), Config: config}, r.line.pid)
	r.pid = r.spawn("session", func(ctx *system.Context) {
		r.session.ctx = ctx
		switch m := ctx.Message().(type) {
		case system.Started:
		case func():
			m()
		case system.Stopping:
		default:
			r.session.handle(m)
		}
	})
	return r
}

func (r *rush) spawn(name string, receive system.Receive) *system.PID {
	pid, err := r.system.Spawn(name, receive)
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return pid
}

// sleep lets time pass. The actors whose timers fire hear of the test first: otherwise nothing orders what they do behind what
// the test has read.
func (r *rush) sleep(d time.Duration) bool {
	r.counted()
	r.tell(func() {})
	time.Sleep(d)
	synctest.Wait()
	return true
}

// tell sends messages to the session.
func (r *rush) tell(all ...any) bool {
	for _, m := range all {
		r.system.Send(r.pid, m)
	}
	return true
}

// steps are what may happen, and how often beside the others. A step reports whether it was possible.
var steps = []struct {
	name string
	odds int
	take func(*rush) bool
}{
	{"start", 6, (*rush).start},
	{"the runtime hears", 12, (*rush).there},
	{"the session hears", 12, (*rush).back},
	{"another session takes", 2, func(r *rush) bool { return r.beside(1) }},
	{"another session gives", 2, func(r *rush) bool { return r.beside(-1) }},
	{"a spawner hangs or returns", 1, (*rush).hang},
	{"time", 3, func(r *rush) bool { return r.sleep(time.Duration(r.dice.Int64N(int64(time.Second)))) }},
	{"born", 8, (*rush).born},
	{"exit", 3, (*rush).exit},
	{"judged", 3, (*rush).judged},
	{"tree ended", 3, (*rush).treeEnded},
	{"end", 5, (*rush).end},
	{"used", 3, func(r *rush) bool { return r.use(1) }},
	{"not used", 3, func(r *rush) bool { return r.use(-1) }},
	{"yielded", 2, func(r *rush) bool { return r.yield(r.one(func(p *runner) bool { return !p.slot.outlives })) }},
	{"terminate", 2, func(r *rush) bool { return r.terminate(r.one(func(*runner) bool { return true })) }},
}

// step takes one that is possible, a moment after the one before.
func (r *rush) step() {
	r.t.Helper()
	r.sleep(time.Duration(1 + r.dice.Int64N(int64(time.Millisecond)))) // so that no two timers are due at once
	for {
		one := steps[r.dice.IntN(len(steps))]
		if r.dice.IntN(12) >= one.odds {
			continue
		}
		r.story = append(r.story, one.name)
		if one.take(r) {
			r.check()
			return
		}
		r.story = r.story[:len(r.story)-1]
	}
}

// one is any of the processes that fit; nil if none does.
func (r *rush) one(fits func(*runner) bool) *runner {
	var fitting []*runner
	for _, p := range r.all {
		if fits(p) {
			fitting = append(fitting, p)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	p := fitting[r.dice.IntN(len(fitting))]
	r.story = append(r.story, p.id.String())
	return p
}

func (r *rush) start() bool {
	if len(r.all) >= 12 {
		return false
	}
	r.came++
	p, o := &runner{stand: &stand{}, id: r.came}, shared.Command{}
	if r.dice.IntN(3) == 0 {
		o.OnLeaderExit = messages.LeaderExitKeepsTree
	}
	r.all = append(r.all, p)
	r.story = append(r.story, p.id.String())
	r.tell(func() {
		v := r.session
		p.entry = newEntry(p.id, &o, v.ctx.Spawn("process", p.receive))
		p.open = 1
		v.entries[p.id] = p.entry
		v.slots.use(p.entry)
	})
	synctest.Wait()
	if r.dice.IntN(5) == 0 {
		r.yield(p)
	}
	return r.tell(protocol.WantSlot{Progress: protocol.Progress{Process: p.id, State: messages.StateStarting}})
}

func fromRuntime(m any) bool {
	switch m.(type) {
	case protocol.SlotTaken, protocol.SlotAwaited:
		return true
	}
	return false
}

// pass takes the first message from the line that goes one way.
func (r *rush) pass(back bool) any {
	i := slices.IndexFunc(r.line.got, func(m any) bool { return fromRuntime(m) == back })
	if i < 0 {
		return nil
	}
	m := r.line.got[i]
	r.line.got = slices.Delete(r.line.got, i, i+1)
	return m
}

func (r *rush) there() bool {
	m := r.pass(false)
	if m != nil {
		r.request(r.line, m)
	}
	return m != nil
}

func (r *rush) back() bool {
	m := r.pass(true)
	return m != nil && r.tell(m)
}

func (r *rush) request(from *stand, m any) {
	r.system.Send(from.pid, func(ctx *system.Context) { ctx.Request(r.runtime, m) })
}

// taken is how many processes the other session has.
func (r *rush) taken() int {
	return len(slices.DeleteFunc(of[protocol.SlotTaken](r.others), func(m protocol.SlotTaken) bool { return m.Err != nil })) - r.given
}

func (r *rush) beside(change int) bool {
	switch {
	case change > 0 && r.taken() < 3:
		r.came++
		r.request(r.others, protocol.TakeSlot{Process: r.came})
	case change < 0 && r.taken() > 0:
		r.given++
		r.request(r.others, protocol.GiveSlot{})
	default:
		return false
	}
	return true
}

func (r *rush) hang() bool {
	r.hangs = !r.hangs
	change := -1
	if r.hangs {
		change = 1
	}
	r.system.Send(r.runtime, protocol.SpawnerHangs{Change: change})
	return true
}

func (r *rush) born() bool {
	p := r.one(func(p *runner) bool { return p.runs() && p.info.State == messages.StateStarting })
	return p != nil && r.tell(protocol.ChildEvent{Process: p.id, Event: ptyio.Spawned{}},
		protocol.Progress{Process: p.id, State: messages.StateRunning, Repeatable: r.dice.IntN(2) == 0})
}

func (r *rush) exit() bool {
	p := r.one(func(p *runner) bool { return p.info.State == messages.StateRunning && !p.exited })
	if p == nil {
		return false
	}
	p.exited = true
	r.tell(protocol.ChildEvent{Process: p.id, Event: ptyio.Exited{Status: messages.StatusExited(r.dice.IntN(2))}})
	synctest.Wait()
	return p.isRepeatable() || r.tell(protocol.Progress{Process: p.id, State: messages.StateExited})
}

// judged decides whether another attempt follows an exit.
func (r *rush) judged() bool {
	p := r.one(func(p *runner) bool { return p.info.State == messages.StateRunning && p.exited })
	switch {
	case p == nil:
		return false
	case p.isRepeatable() && !p.unwanted && r.dice.IntN(2) == 0:
		p.exited = false
		return r.tell(protocol.Progress{Process: p.id, State: messages.StateStarting})
	default:
		return r.tell(protocol.Progress{Process: p.id, State: messages.StateExited})
	}
}

func (r *rush) treeEnded() bool {
	p := r.one(func(p *runner) bool { return p.exited && p.attempt.tree == nil })
	return p != nil && r.tell(protocol.ChildEvent{Process: p.id, Event: ptyio.TreeEnded{}})
}

func (r *rush) use(change int) bool {
	p := r.one(func(p *runner) bool { return p.runs() && p.open+change >= 0 && p.open+change <= 2 })
	return p != nil && r.tell(func() {
		p.open += change
		r.session.slots.use(p.entry)
	})
}

// yield lets the call go that asked for a process.
func (r *rush) yield(p *runner) bool {
	return p != nil && r.tell(protocol.Yielded{Process: p.id}, func() { p.open = max(p.open-1, 0) })
}

func (r *rush) terminate(p *runner) bool {
	return p != nil && r.tell(messages.Terminate{Process: p.id})
}

// end ends a process, most often one that should.
func (r *rush) end() bool {
	any := r.dice.IntN(4) == 0
	return r.over(r.one(func(p *runner) bool { return any || p.mustEnd() || p.attempt.tree != nil }))
}

func (r *rush) over(p *runner) bool {
	if p == nil {
		return false
	}
	r.all = slices.DeleteFunc(r.all, func(other *runner) bool { return other == p })
	return r.tell(protocol.Ended{Process: p.id})
}

// answer is what a start was told; nil: nothing yet.
func (p *runner) answer() *protocol.Slot {
	if told := of[protocol.Slot](p.stand); len(told) > 0 {
		return &told[0]
	}
	return nil
}

// runs reports whether it may start, or has.
func (p *runner) runs() bool { return p.answer() != nil && p.answer().Refused == nil }

// waits reports whether it is a start that waits for a slot of the session.
func (p *runner) waits() bool {
	return p.order > 0 && p.answer() == nil && !p.slot.taken()
}

// mustEnd reports whether it was refused, or told to end.
func (p *runner) mustEnd() bool {
	return len(of[protocol.Request](p.stand)) > 0 || p.answer() != nil && !p.runs()
}

// finish lets all starts have their answers, and then ends all processes.
func (r *rush) finish() {
	r.t.Helper()
	r.story = append(r.story, "finish:")
	if r.hangs {
		r.hang()
	}
	should := (*runner).mustEnd
	for patience := 0; len(r.all) > 0; r.check() {
		switch {
		case r.there(), r.back(), r.over(r.one(should)):
		case !slices.ContainsFunc(r.all, func(p *runner) bool { return p.answer() == nil }):
			should = func(*runner) bool { return true }
		case patience > 100:
			r.fail("a start was not answered")
		default:
			patience++
			r.sleep(patienceOfAll)
		}
	}
	for r.there() || r.back() {
		r.check()
	}
}

// fail tells how it came to that.
func (r *rush) fail(format string, values ...any) {
	r.t.Helper()
	for _, p := range r.all {
		r.t.Logf("%d: order %d, slot %d, %+v, open %d", p.id, p.order, p.slot.stage, p.answer(), p.open)
	}
	r.t.Fatalf(format+"\n%s", append(values, strings.Join(r.story, ", "))...)
}
