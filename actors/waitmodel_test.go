package actors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// imaginary is what the model knows of a process: its call is "cN", its owner "oN".
type imaginary struct {
	id       messages.ProcessID
	owner    string
	unread   string // its output that no call has taken
	exited   bool
	reported bool // a call has reported the exit
}

// modelWait is a wait that has not been answered in the model.
type modelWait struct {
	messages.Wait
	call waiting
	over time.Time
	old  bool // it waited already before the last event
	met  map[protocol.Target]bool
}

// waitModel is a session, and what a simple model says of its waits: a wait is a
// question about a list, which is asked again after every event.
type waitModel struct {
	t       *testing.T
	b       *bubble
	s       *talk
	dice    *rand.Rand
	all     []*imaginary
	open    []*modelWait
	history []string
	answers int
}

func (m *waitModel) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

// met is what the model says an item has found.
func (m *waitModel) met(item messages.WaitFor) (found []messages.ProcessID) {
	for i, p := range m.all {
		named := item.Process == p.id || item.Call == messages.CallID(fmt.Sprint("c", i)) || item.Owner == p.owner && !p.reported
		if named && (p.exited || item.Until != nil && len(p.unread) > 0) { // all patterns match all output
			found = append(found, p.id)
		}
	}
	return found
}

// expected notes what is met for a wait, and reports whether it is to be answered. What was met once counts, also where a call takes
// the output afterwards.
func (m *waitModel) expected(w *modelWait, now time.Time) (due bool) {
	items := map[int]bool{}
	for i, item := range w.For {
		for _, id := range m.met(item) {
			w.met[protocol.Target{Item: i, Process: id}] = true
		}
	}
	for target := range w.met {
		items[target.Item] = true
	}
	return len(items) == len(w.For) || w.Any && len(items) > 0 || w.Yield != nil && !now.Before(w.over)
}

// check compares every open wait with the model, when nothing happens any more.
func (m *waitModel) check() {
	m.t.Helper()
	synctest.Wait()
	m.open = slices.DeleteFunc(m.open, func(w *modelWait) bool {
		want := w.met
		if !m.expected(w, time.Now()) {
			if w.call.answered(0) {
				m.fail(w, "answered, and nothing is met")
			}
			w.old = true
			return false
		}
		m.answers++
		reply, err := answerIs(m.t, w.call)
		wakeups, is := reply.(messages.Wakeups)
		got, items := map[protocol.Target]bool{}, map[int]bool{}
		for _, wakeup := range wakeups {
			got[protocol.Target{Item: wakeup.Item, Process: wakeup.Process}], items[wakeup.Item] = true, true
			if !want[protocol.Target{Item: wakeup.Item, Process: wakeup.Process}] {
				m.fail(w, fmt.Sprintf("%+v is not of %v", wakeup, want))
			}
		}
		// An event that is a reason for several items, or at several processes of an owner, reaches the wait bit by bit.
		enough := len(got) == len(want) || w.old && (w.Any && len(got) > 0 || len(items) == len(w.For))
		if err != nil || !is || len(got) != len(wakeups) || !enough {
			m.fail(w, fmt.Sprintf("%+v, %v; want %v", reply, err, want))
		}
		return true
	})
}

func (m *waitModel) fail(w *modelWait, what string) {
	m.t.Helper()
	m.t.Fatalf("after %v\n%+v: %s", m.history, w.Wait, what)
}

func (m *waitModel) start() {
	p := &imaginary{owner: fmt.Sprint("o", m.dice.IntN(2))}
	command := does("prompt", "cat")
	command.Call, command.Owner, command.OpenStdin = messages.CallID(fmt.Sprint("c", len(m.all))), p.owner, true
	p.id = m.s.exec(command).Process
	m.all = append(m.all, p)
	m.note("start %d of %s", p.id, p.owner)
}

func (m *waitModel) item() (item messages.WaitFor) {
	switch kind := m.dice.IntN(4); {
	case kind == 0:
		item.Call = messages.CallID(fmt.Sprint("c", m.dice.IntN(len(m.all)+2))) // perhaps later
	case kind == 1:
		item.Owner = fmt.Sprint("o", m.dice.IntN(2))
	default:
		item.Process = m.any().id
	}
	if m.dice.IntN(2) == 0 {
		item.Until = &messages.Until{Pattern: "y+"}
	}
	return item
}

func (m *waitModel) any() *imaginary { return m.all[m.dice.IntN(len(m.all))] }

func (m *waitModel) wait() {
	w := &modelWait{met: map[protocol.Target]bool{}, Wait: messages.Wait{Any: m.dice.IntN(2) == 0, NoTimeout: true}}
	for range 1 + m.dice.IntN(4) {
		w.For = append(w.For, m.item())
	}
	if m.dice.IntN(3) == 0 {
		w.NoTimeout, w.Yield = false, new(time.Duration(m.dice.IntN(3))*10*time.Second)
		w.over = time.Now().Add(*w.Yield)
	}
	m.note("wait %+v", w.Wait)
	w.call = m.s.call(w.Wait)
	m.open = append(m.open, w)
}

// step does one thing, and the model does it, too.
func (m *waitModel) step() {
	switch p := m.any(); m.dice.IntN(8) {
	case 0:
		if len(m.all) < 6 {
			m.start()
		}
	case 1, 2, 3:
		m.wait()
	case 4:
		if !p.exited {
			m.note("%d says", p.id)
			m.s.call(messages.WriteStdin{Process: p.id, Bytes: []byte("y"), NoWait: true})
			p.unread += "y"
		}
	case 5:
		if !p.exited {
			m.note("%d exits", p.id)
			m.s.call(messages.CloseStdin{Process: p.id})
			p.exited = true
		}
	case 6:
		if len(m.open) > 0 {
			i := m.dice.IntN(len(m.open))
			m.note("cancel %+v", m.open[i].Wait)
			m.open[i].call.cancel()
			if _, err := m.open[i].call.reply(); err == nil {
				m.fail(m.open[i], "cancelled, and answered without an error")
			}
			m.open = slices.Delete(m.open, i, i+1)
		}
	default:
		if m.dice.IntN(2) == 0 {
			m.note("10 s")
			time.Sleep(10 * time.Second)
			return
		}
		m.note("poll %d", p.id)
		if reply, err := m.s.call(messages.Poll{Process: p.id}).reply(); err == nil { // what the waits have seen is still there
			if got := string(reply.(*messages.Result).Output); got != p.unread {
				m.t.Fatalf("after %v\na poll has %q, want %q", m.history, got, p.unread)
			}
		}
		p.unread, p.reported = "", p.exited
	}
}

// A random history of waits, starts, output, exits, polls and cancels is compared with the model after every step.
func TestWaitsAreAsTheModelSays(t *testing.T) {
	n, seed, answers := 200, rand.Uint64(), 0
	if *soak {
		n = 10_000
	}
	t.Logf("seed %d", seed)
	for i := range n {
		inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
			m := &waitModel{t: t, b: b, s: b.open(func(c *shared.SessionConfig) { c.MaxProcesses = 10 }), dice: rand.New(rand.NewPCG(seed, uint64(i)))}
			m.start()
			m.check()
			for range 30 {
				m.step()
				m.check()
			}
			for _, w := range m.open {
				w.call.cancel()
			}
			synctest.Wait()
			for _, w := range m.open {
				if !w.call.answered(0) {
					m.fail(w, "cancelled, and not answered")
				}
			}
			if waits := b.actors("/wait$"); len(waits) > 0 {
				t.Errorf("%d actors wait", len(waits))
			}
			answers += m.answers
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d answers", answers)
}

// A wait over many processes that is asked again and again wakes once for each reason, whatever that is.
func TestAWaitOverManyProcessesWakesOnceForEachReason(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses = 300 })
		const n = 200
		left := messages.Wait{Any: true, NoTimeout: true}
		for range n {
			command := does("prompt", "cat")
			command.OpenStdin = true
			left.For = append(left.For, messages.WaitFor{Process: s.exec(command).Process, Until: &messages.Until{Pattern: "y"}})
		}
		order, all := rand.Perm(n), slices.Clone(left.For)
		wakes := map[messages.ProcessID]messages.MetReason{}
		for i, at := range order {
			call := s.call(left)
			synctest.Wait()
			if call.answered(0) {
				t.Fatal("answered, and nothing is met")
			}
			id, want := all[at].Process, messages.MetPattern
			if i%2 == 0 {
				s.call(messages.WriteStdin{Process: id, Bytes: []byte("y"), NoWait: true})
			} else {
				s.call(messages.CloseStdin{Process: id})
				want = messages.MetExit
			}
			synctest.Wait()
			reply, err := answerIs(t, call)
			wakeups, is := reply.(messages.Wakeups)
			if err != nil || !is || len(wakeups) != 1 || wakeups[0].Process != id || wakeups[0].Met.Reason != want {
				t.Fatalf("%+v, %v; want %d", reply, err, id)
			}
			if before, twice := wakes[id]; twice {
				t.Fatalf("%d woke for %s before", id, before)
			}
			wakes[id] = want
			left.For = slices.DeleteFunc(left.For, func(item messages.WaitFor) bool { return item.Process == id })
		}
	})
}
