package actors

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Batches end inside of characters all the time, and the bytes that are held back keep the credit of their batch: a
// subscription that is full of the credited output of 60 floods has no room for output without credit.
func TestLosslessSubscribersWhoAreSlowGetEveryCharacter(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	var subscriptions []*bus.Subscription
	for range 2 {
		events, err := h.bus.Subscribe(bus.Filter{Sessions: []messages.SessionID{s.id}, Kinds: []messages.EventKind{messages.KindOutputDelta}},
			bus.SubscribeOptions{Lossless: true})
		if err != nil {
			t.Fatal(err)
		}
		subscriptions = append(subscriptions, events)
	}
	const processes = 60
	var ids []messages.ProcessID
	for i := range processes {
		command := quick("exec yes 日本語")
		command.TTY = i%2 == 0
		ids = append(ids, s.exec(command).Process)
	}
	total := func() (sum int64) {
		for _, id := range ids {
			sum += must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: id, Tail: 1}).Total
		}
		return sum
	}
	for before := int64(-1); before != total(); before = total() { // until nobody has a credit left
		time.Sleep(5 * ptyio.MaxHold)
	}
	var readers sync.WaitGroup
	for _, events := range subscriptions {
		readers.Go(func() {
			defer events.Close()
			seen, next := 0, map[messages.ProcessID]int64{}
			for event, err := range events.All(context.Background()) {
				if err != nil {
					t.Errorf("after %d deltas: %v", seen, err)
					return
				}
				delta, ok := event.(messages.OutputDelta)
				if !ok || delta.Offset != next[delta.Process] {
					t.Errorf("%T: a delta of %d at %d, after %d", event, delta.Process, delta.Offset, next[delta.Process])
					return
				}
				next[delta.Process] += int64(len(delta.Bytes))
				if seen++; seen == 5000 {
					return
				}
				if seen%200 == 0 {
					time.Sleep(ptyio.MaxHold)
				}
			}
		})
	}
	readers.Wait()
	must[protocol.Done](h, s.supervisor, protocol.TerminateAll{})
}

// split is a foreign child. It outputs what the test tells it to, batch by batch.
func split(t *testing.T) (h *host, say func(ptyio.Event)) {
	told := make(chan ptyio.Event)
	spawner := foreign{spawn: func(launch ptyio.Launch) ptyio.Child {
		go func() {
			for event := range told {
				launch.Events(event)
			}
		}()
		return puppet{end: func() {}}
	}}
	h = newHost(t, hostOptions{seam: seam{Spawner: spawner}})
	return h, func(e ptyio.Event) {
		told <- e
		if _, last := e.(ptyio.TreeEnded); last {
			close(told)
		}
	}
}

func stdout(text string) ptyio.Output {
	return ptyio.NewOutput(messages.StreamStdout, []byte(text), nil)
}

func TestACharacterSplitBetweenTwoAnswersStaysWhole(t *testing.T) {
	h, say := split(t)
	s := h.open(nil)
	id := s.exec(protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"sh"}}}).Process
	say(stdout("a日\xe6\x9c"))
	s.said(id, "\xe6\x9c") // the rest is late, and readers of the stream get what there is
	if got := s.write(id, "x"); string(got.Output) != "a日" {
		t.Errorf("first: %q", got.Output)
	}
	say(stdout("\xac語\xf0\x9f"))
	s.said(id, "\xf0\x9f")
	if got := s.write(id, "x"); string(got.Output) != "本語" {
		t.Errorf("second: %q", got.Output)
	}
	if got := s.write(id, "x"); len(got.Output) != 0 || got.Omitted != 0 {
		t.Errorf("nothing new: %q", got.Output)
	}
	poll := s.call(messages.Poll{Process: id, NoTimeout: true})
	for _, event := range []ptyio.Event{exit3, ptyio.Drained{}, ptyio.Closed{}, treeEnded} {
		say(event)
	}
	if got := poll.result(); string(got.Output) != "\xf0\x9f" {
		t.Errorf("the rest at the end: %q", got.Output)
	}
	if end := s.ended(id); string(end.Transcript) != "a日本語\xf0\x9f" {
		t.Errorf("%q", end.Transcript)
	}
}

// The answer comes while the beginning is still held back, before its 20 ms are over.
func TestTheBeginningOfACharacterIsDeliveredAtTheEnd(t *testing.T) {
	h, say := split(t)
	s := h.open(nil)
	exec := s.call(messages.ExecCommand{Argv: []string{"sh"}, Yield: new(messages.MaxYield)})
	for _, event := range []ptyio.Event{stdout("日\xe6\x9c"), exit3, ptyio.Background{Count: 1}, ptyio.Drained{}} {
		say(event)
	}
	got := exec.result()
	say(ptyio.Closed{})
	say(treeEnded)
	if string(got.Output) != "日\xe6\x9c" {
		t.Errorf("%q", got.Output)
	}
	if out := s.ended(got.Process); out.Total != 5 || !bytes.Equal(out.Transcript, got.Output) {
		t.Errorf("%+v", out)
	}
	if _, err := ask[any](h, s.supervisor, messages.Poll{Process: got.Process}); !errors.Is(err, messages.ErrProcessEnded) {
		t.Error(err)
	}
}
