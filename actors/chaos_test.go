package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// Ten thousand lives among actors that crash and host code that fails in every way, alone and two at once: each ends once,
// each call is answered, and nothing is left but the goroutines that block forever.
func TestManyLivesAmongCrashes(t *testing.T) {
	const each, sessions = 20, 5 // lives of a session, sessions of a runtime
	for n := range max(share(10_000)/(each*sessions), 1) {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%d of %d", n, seed), func(t *testing.T) {
			inBubble(t, bubbleOptions{max: 30}, func(t *testing.T, b *bubble) {
				c := &chaos{bubble: b, dice: rand.New(rand.NewPCG(seed, 0)), ofActors: rand.New(rand.NewPCG(seed, 1))}
				c.fault(c.crashes)
				var all []*talk
				for n := range sessions {
					all = append(all, c.live(n, each))
				}
				c.finish(all)
			})
		})
	}
}

// chaos is a bubble where everything may fail.
type chaos struct {
	*bubble
	dice     *rand.Rand
	ofActors *rand.Rand // under the lock of crashes
	calls    []waiting
	crashed  int
}

// crashes crashes actors at random, each kind as often as its messages are few, and sometimes the parent, too.
func (c *chaos) crashes(self *system.PID, message any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	odds := 2000 // of a supervisor
	switch {
	case strings.HasSuffix(kindOf(self), "wait"):
		odds = 10
	case strings.HasSuffix(kindOf(self), "approval"):
		odds = 50
	case strings.HasSuffix(kindOf(self), "process"):
		odds = 100
	case strings.HasSuffix(kindOf(self), "rules"):
		odds = 20
	case strings.HasSuffix(kindOf(self), "runtime"):
		return // that is the end of all: see finish
	}
	if c.ofActors.IntN(odds) > 0 {
		return
	}
	c.crashed++
	if cut := strings.LastIndex(self.Id, "/"); c.ofActors.IntN(4) == 0 && strings.Contains(self.Id[:cut], "/session$") {
		c.system.Send(&system.PID{Address: self.Address, Id: self.Id[:cut]}, deliberate{})
	}
	panic(fmt.Sprintf("deliberate, at %T", message))
}

// kindOf is the kind of an actor, without its number.
func kindOf(pid *system.PID) string {
	name, _, _ := strings.Cut(pid.Id[strings.LastIndex(pid.Id, "/")+1:], "$")
	return name
}

// words are how the lives go; the first list is of kinds.
var words = [][]string{
	{"prompt", "prompt", "foreign", "foreign,resize=panic", "foreign,write=hang", "foreign,signal=leave", "foreign,end=hang", "foreign,abandon=hang",
		"foreign,end=panic", "prompt,spawn=late", "foreign,spawn=fail", "foreign,spawn=panic", "foreign,spawn=leave", "foreign,spawn=hang",
		"prompt,respawn=late", "foreign,respawn=panic", "foreign,respawn=fail", "foreign,deaf", "foreign,deaf,end=hang", "prompt,resolve=panic",
		"prompt,resolve=leave", "prompt,resolve=hang"},
	{"say:10", "say:100000", "say:2000000", "sleep:10"},
	{"asked", "retry", "again", "again", "nothing"},
	{"denied", "wait", "cat", "sleep:500", "leave:3", "exit:4"},
	{"wait", "say:7", "exit:5", "sleep:2000"},
}

// rarely bounds how often a word is taken that costs all others something.
var rarely = map[string]int{"foreign,spawn=hang": 150, "prompt,resolve=hang": 4, "prompt,resolve=panic": 4, "prompt,resolve=leave": 4}

func (c *chaos) command() any {
	var argv []string
	for _, choice := range words {
		word := choice[c.dice.IntN(len(choice))]
		if n := rarely[word]; n > 0 && c.dice.IntN(n) > 0 {
			word = choice[0]
		}
		argv = append(argv, word)
	}
	command := messages.ExecCommand{Argv: argv, OpenStdin: true, Yield: new(time.Duration(c.dice.IntN(3000)) * time.Millisecond)}
	if c.dice.IntN(4) == 0 {
		command.OnLeaderExit = messages.LeaderExitKeepsTree
	}
	if c.dice.IntN(3) == 0 {
		return protocol.StartCommand{ExecCommand: command}
	}
	return command
}

// approver answers, or fails in some way.
func (c *chaos) approver(ctx context.Context, turn chan struct{}) (messages.Decision, error) {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	default:
		c.t.Error("the approver was called for two questions at once")
	}
	c.mu.Lock()
	n, decision := c.ofActors.IntN(20), anyDecision()
	c.mu.Unlock()
	switch n {
	case 0:
		panic("deliberate")
	case 1:
		c.machine.wrong("leave")
	case 2:
		c.machine.wrong("hang")
	case 3:
		return messages.Decision{}, errors.New("no idea")
	case 4:
		<-ctx.Done()
		return messages.Decision{}, ctx.Err()
	case 5:
		time.Sleep(time.Second)
	}
	return decision, nil
}

// live lives through a session. Its end is for finish.
func (c *chaos) live(n, lives int) *talk {
	s := c.open(func(config *shared.SessionConfig) {
		config.Session, config.MaxProcesses, config.Protected = messages.SessionID(fmt.Sprint("chaos-", n)), 12, 2
		if n%2 == 0 {
			config.Approval = messages.ApprovalPolicy{Mode: messages.ApproveUntrusted} // so that plans look at the machine
		}
		if n%3 > 0 {
			turn := make(chan struct{}, 1)
			config.Approver = func(ctx context.Context, _ messages.Question) (messages.Decision, error) {
				return c.approver(ctx, turn)
			}
		}
	})
	if n%3 < 2 {
		(&asker{talk: s}).listen()
	}
	for range lives {
		c.calls = append(c.calls, s.call(c.command()))
		for range 3 {
			c.disturb(s, lives)
		}
		if c.dice.IntN(3) == 0 {
			time.Sleep(time.Duration(c.dice.IntN(1000)) * time.Millisecond)
		}
	}
	return s
}

// disturb asks something of a random process, or of the session.
func (c *chaos) disturb(s *talk, lives int) {
	id := messages.ProcessID(firstProcess + c.dice.IntN(lives))
	other := messages.ProcessID(firstProcess + c.dice.IntN(lives))
	after := uint64(0)
	requests := []any{
		messages.Poll{Process: id}, messages.Poll{Process: id, NoTimeout: true},
		messages.WriteStdin{Process: id, Bytes: []byte("something")}, messages.WriteStdin{Process: id, Bytes: []byte("else"), UntilTaken: true},
		messages.CloseStdin{Process: id}, messages.Resize{Process: id}, messages.Signal{Process: id, Signal: 15},
		messages.ReadOutput{Process: id, AfterSeq: &after, Wait: time.Second}, messages.Terminate{Process: id, Grace: new(time.Second)},
		awaiting(id), within(time.Minute, awaiting(id, other)), anyOf(id, other),
		messages.Wait{For: []messages.WaitFor{{Process: id, Until: &messages.Until{Pattern: "some"}}, {Owner: "somebody"}}, Any: true}, protocol.ListProcesses{Records: true},
		protocol.ListQuestions{}, messages.Decide{Question: messages.QuestionID(fmt.Sprint("q", 1+c.dice.IntN(5))), Decision: anyDecision()},
		protocol.PauseYields{}, protocol.ResumeYields{}, "nonsense",
	}
	if c.dice.IntN(100) == 0 {
		requests = []any{protocol.TerminateAll{}}
	}
	c.calls = append(c.calls, s.call(requests[c.dice.IntN(len(requests))]))
	if c.dice.IntN(5) == 0 {
		c.calls[c.dice.IntN(len(c.calls))].cancel()
	}
}

// finish ends the sessions, each in a way of its own, waits until nothing happens any more, and checks that nothing is
// left.
func (c *chaos) finish(all []*talk) {
	runtimeDies := c.dice.IntN(10) == 0
	for n, s := range all {
		switch {
		case runtimeDies && n == 2:
			c.crash(c.runtime)
		case n%5 == 3:
			c.crash(s.supervisor)
		default:
			c.calls = append(c.calls, s.call(protocol.CloseSession{By: messages.TerminatedBySessionClose}))
		}
	}
	time.Sleep(10 * time.Minute) // longer than any patience, and every wait
	synctest.Wait()
	for _, call := range c.calls {
		answerIs(c.t, call)
	}
	causes := map[messages.Cause]int{}
	for _, s := range all {
		for _, end := range wantLastWords(c.t, c.bubble, s) {
			causes[end.Cause]++
		}
	}
	wantNoChild(c.t, c.bubble)
	if !runtimeDies {
		if living := c.actors("/session$"); len(living) > 0 {
			c.t.Errorf("these live: %v", living)
		}
		if got := c.stats(); got.Processes != 0 || got.Sessions != 0 || got.Records != 0 || got.Hanging > c.machine.hangs() {
			c.t.Errorf("left: %+v, and %d goroutines block", got, c.machine.hangs())
		}
	}
	c.t.Logf("%d crashes, %d children, %d goroutines block forever, ends: %v", c.crashed, len(c.machine.all()), c.machine.hangs(), causes)
}
