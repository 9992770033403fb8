package actors

import (
	"slices"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
)

// early is what a call asks for that says nothing in a session that answers early.
func early() *messages.Until { return &messages.Until{Early: true} }

func answersEarly(c *shared.SessionConfig) { c.AnswerEarly = true }

// slack is how much later than its reason an answer may come: a look, which is the rarer, the longer nothing happens.
func slack(after time.Duration) time.Duration { return after/10 + 2*time.Millisecond }

func TestACallOnATerminalEndsEarly(t *testing.T) {
	const yield = 8 * time.Second
	for name, c := range map[string]struct {
		does  []string
		until *messages.Until
		pipes bool
		met   messages.MetReason // empty: none
		at    time.Duration      // when the reason is there
	}{
		"a line":                             {does: []string{"say:4", "sleep:1000", "awaits:line", "wait"}, met: messages.MetAwaitingInput, at: time.Second},
		"a secret":                           {does: []string{"say:4", "awaits:secret", "wait"}, met: messages.MetAwaitingInput},
		"keys, when the screen is still":     {does: []string{"awaits:keys", "say:4", "sleep:100", "say:4", "wait"}, met: messages.MetAwaitingInput, at: 100*time.Millisecond + messages.KeysStill},
		"keys later, too":                    {does: []string{"say:4", "sleep:2000", "awaits:keys", "wait"}, met: messages.MetAwaitingInput, at: 2 * time.Second},
		"keys, if nothing else goes on":      {does: []string{"awaits:only keys", "sleep:100", "say:4", "wait"}, met: messages.MetAwaitingInput, at: 100 * time.Millisecond},
		"not before something was shown":     {does: []string{"awaits:only keys", "wait"}},
		"no keys if nothing was shown":       {does: []string{"awaits:keys", "wait"}},
		"a listener":                         {does: []string{"sleep:1000", "listens:80", "wait"}, met: messages.MetListening, at: time.Second + messages.ListenStill},
		"a listener that says so":            {does: []string{"listens:80", "sleep:200", "say:4", "wait"}, met: messages.MetListening, at: 200*time.Millisecond + messages.ListenStill},
		"nothing":                            {does: []string{"say:4", "wait"}},
		"a call that says it":                {does: []string{"awaits:line", "wait"}, until: early(), met: messages.MetAwaitingInput},
		"not a call that waits for the exit": {does: []string{"awaits:line", "listens:80", "wait"}, until: &messages.Until{}, met: messages.MetNothing},
		"not on pipes":                       {does: []string{"awaits:line", "listens:80", "wait"}, pipes: true},
		"not on pipes, where a call says it": {does: []string{"awaits:line", "listens:80", "wait"}, pipes: true, until: early()},
		"an exit":                            {does: []string{"sleep:1000"}, at: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := b.open(answersEarly)
				began := time.Now()
				result := s.exec(messages.ExecCommand{Argv: append([]string{"prompt"}, c.does...), TTY: !c.pipes, Yield: new(yield), Until: c.until})
				took := time.Since(began)
				if c.met == "" && result.Met != nil || c.met != "" && (result.Met == nil || result.Met.Reason != c.met) {
					t.Errorf("%+v", result.Met)
				}
				at := c.at
				if result.Running && (c.met == "" || c.met == messages.MetNothing) {
					at = yield
				}
				if took < at || took > at+slack(at) {
					t.Errorf("it came after %v, and the reason after %v", took, at)
				}
			})
		})
	}
}

func TestTheDefaultYieldsStayForEarlyAnswers(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(answersEarly)
		began := time.Now()
		passes := func(what string, d time.Duration, met *messages.Met) {
			t.Helper()
			if took := time.Since(began); took != d || met != nil {
				t.Errorf("%s: %v, not %v; %+v", what, took, d, met)
			}
			began = time.Now()
		}
		first := s.exec(messages.ExecCommand{Argv: []string{"prompt", "cat"}, TTY: true})
		passes("exec", messages.DefaultExecYield, first.Met)
		id := first.Process
		passes("write", messages.DefaultWriteYield, s.call(messages.WriteStdin{Process: id, Bytes: []byte("a")}).result().Met)
		passes("poll", messages.MinPoll, s.call(messages.Poll{Process: id}).result().Met)
		passes("a short poll", messages.MinPoll, s.call(messages.Poll{Process: id, Yield: new(time.Second)}).result().Met)
	})
}

// A program that reads keys has news for a call only if it shows something that the call does not know.
func TestKeysEndACallOnlyAfterNews(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(answersEarly)
		id := s.exec(messages.ExecCommand{Argv: []string{"prompt", "awaits:keys", "say:4", "cat"}, TTY: true}).Process
		began := time.Now()
		if poll := s.call(messages.Poll{Process: id}).result(); poll.Met != nil || time.Since(began) != messages.MinPoll {
			t.Errorf("without news: %+v", poll.Met)
		}
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("shown"), NoWait: true}).result()
		if poll := s.call(messages.Poll{Process: id}).result(); poll.Met == nil || string(poll.Output) != "shown" {
			t.Errorf("what no call has returned: %+v", poll)
		}
		began = time.Now()
		write := s.call(messages.WriteStdin{Process: id, Bytes: []byte("b")}).result()
		if took := time.Since(began); write.Met == nil || took < messages.KeysStill || took > messages.KeysStill+slack(messages.KeysStill) {
			t.Errorf("a write: %v, %+v", took, write.Met)
		}
	})
}

// A write that nothing has come of is not answered because of what was shown before.
func TestKeysDoNotEndAWriteForWhatWasShownBefore(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(answersEarly)
		id := s.exec(messages.ExecCommand{Argv: []string{"prompt", "sleep:1000", "awaits:keys", "say:4", "wait"}, TTY: true, Until: &messages.Until{}, Yield: new(messages.MinYield)}).Process
		time.Sleep(2 * time.Second)
		if write := s.call(messages.WriteStdin{Process: id, Bytes: []byte("a")}).result(); write.Met != nil || len(write.Output) != 4 {
			t.Errorf("%q, %+v", write.Output, write.Met)
		}
	})
}

func TestAListenerIsNamedOnce(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(answersEarly)
		first := s.exec(messages.ExecCommand{Argv: []string{"prompt", "listens:80", "sleep:20000", "listens:81", "sleep:5000", "listens", "sleep:5000", "listens:81", "wait"}, TTY: true})
		var met []string
		if first.Met != nil {
			met = append(met, first.Met.Address)
		}
		began := time.Now()
		for time.Since(began) < time.Minute {
			if poll := s.call(messages.Poll{Process: first.Process}).result(); poll.Met != nil {
				met = append(met, poll.Met.Address)
			}
		}
		if !slices.Equal(met, []string{"127.0.0.1:80", "127.0.0.1:81", "127.0.0.1:81"}) {
			t.Errorf("%q", met)
		}
	})
}

// A call that waits for the end of a process says so.
func TestAPollWithoutTimeOutIsNotAnsweredEarly(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(answersEarly)
		id := s.exec(messages.ExecCommand{Argv: []string{"prompt", "awaits:line", "sleep:8000", "exit:3"}, TTY: true}).Process
		if poll := s.call(messages.Poll{Process: id, NoTimeout: true}).result(); poll.Running {
			t.Errorf("%+v", poll.Met)
		}
		id = s.exec(messages.ExecCommand{Argv: []string{"prompt", "awaits:line", "sleep:8000", "exit:3"}, TTY: true}).Process
		if poll := s.call(messages.WriteStdin{Process: id, NoTimeout: true}).result(); poll.Running {
			t.Errorf("%+v", poll.Met)
		}
	})
}

// A wait takes nothing: what it has named is news for a call, and it waits for the exit alone if it names nothing else.
func TestAWaitEndsEarlyIfItSaysSo(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(answersEarly)
		id := s.exec(messages.ExecCommand{Argv: []string{"prompt", "listens:80", "sleep:8000"}, TTY: true, Yield: new(messages.MinYield)}).Process
		wait := messages.Wait{NoTimeout: true, For: []messages.WaitFor{{Process: id, Until: early()}}}
		for range 2 {
			if reply, err := s.call(wait).reply(); err != nil || reply.(messages.Wakeups)[0].Met.Reason != messages.MetListening {
				t.Errorf("%+v, %v", reply, err)
			}
		}
		if poll := s.call(messages.Poll{Process: id}).result(); poll.Met == nil || poll.Met.Reason != messages.MetListening {
			t.Errorf("%+v", poll.Met)
		}
		wait.For[0].Until = nil
		if reply, err := s.call(wait).reply(); err != nil || reply.(messages.Wakeups)[0].Met.Reason != messages.MetExit {
			t.Errorf("%+v, %v", reply, err)
		}
	})
}

// What is new is named as soon as nothing was printed for long enough since it was found, rather than at a look some time after that.
func TestAListenerIsNamedAsSoonAsItMayBe(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(answersEarly)
		result := s.exec(messages.ExecCommand{Argv: []string{"prompt", "sleep:2000", "listens:80", "wait"}, TTY: true, Yield: new(8 * time.Second)})
		looks := b.machine.all()[0].lookedAt()
		if result.Met == nil || !slices.ContainsFunc(looks, time.Now().Add(-messages.ListenStill).Equal) {
			t.Errorf("%+v at %v, with looks at %v", result.Met, time.Now(), looks)
		}
	})
}
