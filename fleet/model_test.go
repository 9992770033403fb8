package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nuid"
	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// books is the model of one session: who has it, and what its events are.
type books struct {
	place   Place            // as the books have it
	holders map[uint64]*held // nodes that took it, by epoch; what they believe does not count
	stale   []Place          // that somebody has read
	events  []string         // "epoch:process:kind", as they must be
	open    map[string]bool  // processes without an end
}

// Random members act on one session, with what they have read at any time: clients that place it, nodes that take it, store events and end
// it, and members that give it up. The books and the events must be those of the model, in which a change with an old entry has no effect
// and an event of an old epoch is not stored.
func TestBooksAgreeWithAModel(t *testing.T) {
	w := newWorld(t, Settings{})
	nc, ctx := w.connect(), t.Context()
	f, err := join(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := &books{place: Place{Session: messages.SessionID(nuid.Next())}, holders: map[uint64]*held{}, open: map[string]bool{}}
		some := func() Place { // what a member has read: now, or earlier
			return rapid.SampledFrom(append([]Place{m.place}, m.stale...)).Draw(t, "read")
		}
		// change is a compare-and-set; the model says whether it may succeed.
		change := func(from Place, to Place) bool {
			got, err := f.change(ctx, to)
			if want := from.revision == m.place.revision; want != (err == nil) || err != nil && !conflict(err) {
				t.Fatalf("a change from revision %d while the books have %d: %v", from.revision, m.place.revision, err)
			}
			if err == nil {
				m.stale, m.place = append(m.stale, m.place), got
			}
			return err == nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"place": func(t *rapid.T) {
				from := some()
				if from.State != "" && from.State != StatePlacing {
					t.Skip("it has a node")
				}
				to := from
				to.State, to.Node = StatePlacing, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node")
				to.Epoch++
				change(from, to)
			},
			"take": func(t *rapid.T) {
				from := some()
				if from.State != StatePlacing {
					t.Skip("nobody was asked")
				}
				to := from
				to.State, to.Instance = StateHeld, "i"
				if change(from, to) {
					if m.holders[to.Epoch] != nil {
						t.Fatalf("two nodes have taken epoch %d", to.Epoch)
					}
					m.holders[to.Epoch] = &held{n: &node{fleet: f}, place: m.place, stored: make(chan messages.ProcessID, 100), told: map[messages.ProcessID]bool{}}
				}
			},
			"store": func(t *rapid.T) {
				if len(m.holders) == 0 {
					t.Skip("nobody has it")
				}
				var epochs []uint64
				for epoch := range m.holders {
					epochs = append(epochs, epoch)
				}
				epoch := rapid.SampledFrom(epochs).Draw(t, "epoch")
				h, open := m.holders[epoch], maps.Clone(m.open)
				var stored []string
				for range rapid.IntRange(1, 3).Draw(t, "events") { // with one message
					id := messages.ProcessID(1000*int(epoch) + rapid.IntRange(0, 3).Draw(t, "process"))
					origin := messages.Origin{Session: m.place.Session, Process: id}
					var event messages.Event = messages.ExecStarted{Origin: origin}
					if open[id.String()] {
						event = messages.ExecEnded{Origin: origin, EndRecord: messages.EndRecord{Cause: messages.CauseExited}}
					}
					open[id.String()] = !open[id.String()]
					stored = append(stored, fmt.Sprintf("%d:%v:%s", epoch, id, event.Kind()))
					if err := h.add(ctx, event); err != nil && !errors.Is(err, errSuperseded) {
						t.Fatal(err)
					}
				}
				err := h.store(ctx)
				may := epoch == m.place.Epoch
				if may != (err == nil) || err != nil && !errors.Is(err, errSuperseded) {
					t.Fatalf("a node of epoch %d stores events while the books have %d: %v", epoch, m.place.Epoch, err)
				}
				if may {
					m.open, m.events = open, append(m.events, stored...)
				}
			},
			"give up": func(t *rapid.T) {
				from := some()
				if from.State != StateHeld && from.State != StateLosing {
					t.Skip("no node has it")
				}
				if err := f.lose(ctx, from, "test"); err != nil {
					t.Fatal(err)
				}
				now, err := f.read(ctx, m.place.Session)
				if err != nil {
					t.Fatal(err)
				}
				if m.place.State == StateHeld && now.State != StateLost || m.place.State != StateHeld && now.revision != m.place.revision {
					t.Fatalf("given up from %+v: %+v, and before it %+v", from, now, m.place)
				}
				if m.place.State == StateHeld {
					m.events = append(m.events, fmt.Sprintf("%d:0:exec_notice", now.Epoch))
					for id, open := range m.open {
						if open {
							m.events = append(m.events, fmt.Sprintf("%d:%s:exec_ended", now.Epoch, id))
							m.open[id] = false
						}
					}
				}
				m.stale, m.place = append(m.stale, m.place), now
			},
			"": func(t *rapid.T) {
				now, err := f.read(ctx, m.place.Session)
				if m.place.revision == 0 && errors.Is(err, messages.ErrClosed) {
					return
				}
				if err != nil || now != m.place {
					t.Fatalf("the books have %+v, %v; want %+v", now, err, m.place)
				}
				told, want := f.historyOf(m.place.Session), append([]string{}, m.events...)
				for {
					event, message, err := told.next(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if event == nil {
						break
					}
					got := fmt.Sprintf("%s:%v:%s", message.Header.Get(epochHeader), event.From().Process, event.Kind())
					found := false
					for i, other := range want { // the ends of a loss come in the order of the starts, which the model does not keep
						if found = other == got; found {
							want = append(want[:i], want[i+1:]...)
							break
						}
					}
					if !found {
						t.Fatalf("%s was stored, and not by one who may; want %v", got, m.events)
					}
				}
				if len(want) > 0 {
					t.Fatalf("%v were not stored", want)
				}
			},
		})
	})
}

// Random callers use few keys: in any order, twice at once, cancelled, and for different calls. A key does its call at most once, and every
// answer of a key is its first.
func TestCallKeysAgreeWithAModel(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc := w.connect()
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		s, err := Open(ctx, nc, Placement{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close(ctx) }()
		file := func(key string) string { return filepath.Join(dir, fmt.Sprint(round, key)) }
		command := func(key string) messages.ExecCommand { return shell("echo x >>" + file(key) + "; echo " + key) }
		answers := map[string]string{} // the first
		call := func(ctx context.Context, key string) (string, error) {
			result, err := s.Exec(WithKey(ctx, key), command(key))
			if err != nil {
				return "error " + string(typed(err).Code), err
			}
			return result.ChunkID + string(result.Output), nil
		}
		judge := func(t *rapid.T, key, got string) {
			if first, known := answers[key]; known && first != got {
				t.Fatalf("key %s has the answers %q and %q", key, first, got)
			}
			answers[key] = got
		}
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
				got, err := call(ctx, key)
				if err != nil && !errors.Is(err, messages.ErrCancelled) {
					t.Fatal(err)
				}
				judge(t, key, got)
			},
			"twice at once": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"d", "e"}).Draw(t, "key")
				other := make(chan string, 1)
				go func() { got, _ := call(ctx, key); other <- got }()
				got, _ := call(ctx, key)
				judge(t, key, got)
				judge(t, key, <-other)
			},
			"cancel": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"c", "f"}).Draw(t, "key")
				short, cancel := context.WithTimeout(ctx, time.Duration(rapid.IntRange(0, 3000).Draw(t, "microseconds"))*time.Microsecond)
				defer cancel()
				// The answer is that of the call, or says that nothing is known: then a later repetition says more.
				if got, err := call(short, key); err == nil {
					judge(t, key, got)
				}
			},
			"another call": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"a", "d"}).Draw(t, "key")
				if _, known := answers[key]; !known {
					t.Skip("the key is free")
				}
				if _, err := s.List(WithKey(ctx, key)); !errors.Is(err, messages.ErrInvalidRequest) {
					t.Fatalf("another call with the key %s: %v", key, err)
				}
			},
			"": func(t *rapid.T) {
				for _, key := range strings.Split("abcdef", "") {
					done, _ := os.ReadFile(file(key))
					if n := strings.Count(string(done), "x"); n > 1 || n == 0 && answers[key] != "" && !strings.HasPrefix(answers[key], "error") {
						t.Fatalf("the call of key %s was done %d times; its answer is %q", key, n, answers[key])
					}
				}
			},
		})
	})
}
