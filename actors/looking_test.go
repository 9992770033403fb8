package actors

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// notices are those about looks.
func (s *talk) notices() []messages.ExecNotice {
	return probe.Of(s.events, func(e messages.ExecNotice) bool { return strings.Contains(e.Text, "yields") })
}

// A look fails for a moment where descriptors are lacking, or for good. It is tried again less and less often, and the host is told once.
func TestALookThatFailsIsTriedAgainUnlessItCannotSucceed(t *testing.T) {
	for name, c := range map[string]struct {
		does []string
		met  messages.MetReason
		most int // looks
	}{
		"for a moment":     {[]string{"prompt", "awaits:line", "blind:5", "wait"}, messages.MetAwaitingInput, 6},
		"for long":         {[]string{"prompt", "awaits:line", "blind:1000", "wait"}, messages.MetNothing, 60},
		"for good":         {[]string{"prompt", "awaits:line", "blind:-1", "wait"}, messages.MetNothing, 1},
		"of another":       {[]string{"other", "awaits:line", "blind:5", "wait"}, messages.MetAwaitingInput, 6},
		"because it ends":  {[]string{"look=leave", "awaits:line", "wait"}, messages.MetNothing, 1},
		"because it hangs": {[]string{"look=hang", "awaits:line", "wait"}, messages.MetNothing, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
				s := b.open(nil)
				until := &messages.Until{AwaitingInput: true}
				result := s.exec(messages.ExecCommand{Argv: c.does, TTY: true, Yield: new(10 * time.Second), Until: until})
				looks := b.machine.all()[0].lookedAt()
				if result.Met == nil || result.Met.Reason != c.met || len(looks) > c.most || len(looks) == 0 {
					t.Errorf("%+v after %d looks", result.Met, len(looks))
				}
				again := must[*messages.Result](b.host, s.supervisor, messages.Poll{Process: result.Process, Yield: new(10 * time.Second), Until: until})
				if again.Met.Reason != c.met {
					t.Errorf("again: %+v", again.Met)
				}
				more := len(b.machine.all()[0].lookedAt()) - len(looks)
				if c.most == 1 && more != 0 || more > 60 {
					t.Errorf("%d more looks", more)
				}
				synctest.Wait()
				if n := len(s.notices()); n != 1 {
					t.Errorf("%d notices", n)
				}
			})
		})
	}
}

func TestAPortThatCannotBeLookedForIsLookedForAgain(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		result := s.exec(messages.ExecCommand{Argv: []string{"prompt", "listens:80", "blind:4", "wait"}, Yield: new(10 * time.Second), Until: &messages.Until{Listening: new(uint16)}})
		looks := b.machine.all()[0].lookedAt()
		if result.Met == nil || result.Met.Reason != messages.MetListening || len(looks) != 5 || len(s.notices()) != 1 {
			t.Errorf("%+v after %d looks, %v", result.Met, len(looks), s.notices())
		}
		for i := 2; i < len(looks); i++ {
			if looks[i].Sub(looks[i-1]) < looks[i-1].Sub(looks[i-2]) {
				t.Errorf("a look that failed was tried again soon: %v", looks)
			}
		}
	})
}

// A program that the system does not show ends no call, unless the call takes guesses. Why it ends none is said once.
func TestAProgramThatIsHiddenEndsOnlyCallsThatGuess(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		run := func(until *messages.Until) *messages.Result {
			return s.exec(messages.ExecCommand{Argv: []string{"prompt", "awaits:hidden secret", "wait"}, TTY: true, Yield: new(2 * time.Second), Until: until})
		}
		got := run(&messages.Until{AwaitingInput: true, Guesses: true})
		synctest.Wait() // for notices
		if got.Met.Reason != messages.MetAwaitingInput || !got.Met.Input.Guess || len(s.notices()) != 0 {
			t.Errorf("%+v, %v", got.Met, s.notices())
		}
		for range 2 {
			if got := run(&messages.Until{AwaitingInput: true}); got.Met.Reason != messages.MetNothing {
				t.Errorf("%+v", got.Met)
			}
		}
		if got := run(early()); got.Met != nil {
			t.Errorf("early: %+v", got.Met)
		}
		synctest.Wait()
		if n := s.notices(); len(n) != 1 || !strings.Contains(n[0].Text, "guess") {
			t.Errorf("%v", n)
		}
	})
}

func TestAListSaysWhatEachProcessWaitsFor(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		for _, c := range []struct {
			does []string
			want string
		}{
			{[]string{"prompt", "awaits:line", "wait"}, "waits for input: a line"},
			{[]string{"prompt", "awaits:hidden secret", "wait"}, "perhaps waits for input: a secret: echo is off"},
			{[]string{"other", "awaits:keys", "listens:80", "wait"}, "waits for input: keys; listens on 127.0.0.1:80"},
			{[]string{"prompt", "wait"}, ""},
			{[]string{"prompt", "blind:1", "wait"}, "what it waits for is not known: there are no descriptors"},
			{[]string{"prompt", "blind:-1", "wait"}, "what it waits for is not known: it is dark"},
			{[]string{"look=panic", "wait"}, "what it waits for is not known: its spawner panicked: deliberate"},
			{[]string{"look=hang", "wait"}, "what it waits for is not known: it was not found out in time"},
		} {
			result := s.exec(messages.ExecCommand{Argv: c.does, Yield: new(time.Duration)})
			for range 3 { // and one that hangs is asked once
				began := time.Now()
				list := s.list()
				took := time.Since(began)
				if len(list) != 1 || list[0].Process != result.Process || list[0].Awaits == nil || list[0].Awaits.String() != c.want && c.does[1] != "blind:1" {
					t.Fatalf("%v: %+v", c.does, list[0].Awaits)
				}
				if took > time.Second || c.does[0] != "look=hang" && took != 0 {
					t.Errorf("%v: the list took %v", c.does, took)
				}
			}
			if n := b.machine.hangs(); n > 1 {
				t.Errorf("%v: %d questions hang", c.does, n)
			}
			records := must[messages.Processes](b.host, s.supervisor, ListProcesses{Records: true})
			if at := len(records) - 1; at < 0 || records[at].Awaits != nil {
				t.Errorf("a list of records looks: %+v", records)
			}
			if _, err := s.terminate(result.Process); err != nil {
				t.Fatal(err)
			}
		}
		waits := s.call(messages.ExecCommand{Argv: []string{"prompt", "asked"}, Yield: new(messages.MaxYield)})
		defer waits.cancel()
		synctest.Wait()
		for _, p := range s.list() {
			if p.Awaits != nil {
				t.Errorf("without a program: %+v", p)
			}
		}
	})
}

// A thousand processes are listed with a look at each, at a few at a time, and one that hangs holds up only the list that it is in.
func TestAListOfAThousandProcesses(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		const many = 1000
		s := b.open(func(c *shared.SessionConfig) { c.MaxProcesses, c.WarnProcesses = many+2, many+2 })
		for i := range many {
			kind := "prompt"
			if i%2 == 0 {
				kind = "other"
			}
			s.exec(messages.ExecCommand{Argv: []string{kind, "awaits:line", fmt.Sprint("listens:", i+1), "wait"}, Yield: new(time.Duration)})
		}
		synctest.Wait()
		began := time.Now()
		for i, p := range s.list() {
			if p.Awaits == nil || p.Awaits.Input == nil || len(p.Awaits.Listening) != 1 {
				t.Fatalf("process %d: %+v", i, p.Awaits)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("%v", took)
		}
		for _, c := range b.machine.all() {
			if looks := len(c.lookedAt()); looks != 2 { // for input and for ports
				t.Fatalf("%d looks", looks)
			}
		}
		hangs := s.exec(messages.ExecCommand{Argv: []string{"look=hang", "wait"}, Yield: new(time.Duration)})
		known := 0
		for _, p := range s.list() {
			if p.Awaits.Unknown == "" {
				known++
			} else if p.Process != hangs.Process {
				t.Errorf("%+v", p)
			}
		}
		if known != many {
			t.Errorf("%d are known", known)
		}
	})
}

// A list that is given up is answered at once, and so is one of a session that ends.
func TestAListThatNobodyWaitsFor(t *testing.T) {
	inBubble(t, bubbleOptions{}, func(t *testing.T, b *bubble) {
		s := b.open(nil)
		s.exec(messages.ExecCommand{Argv: []string{"look=hang", "wait"}, Yield: new(time.Duration)})
		began := time.Now()
		list := s.call(ListProcesses{})
		synctest.Wait()
		list.cancel()
		if _, err := list.reply(); time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		} else {
			wantError(t, "a list that was cancelled", err, messages.ErrCancelled)
		}
		list = s.call(ListProcesses{})
		synctest.Wait()
		must[Done](b.host, s.supervisor, CloseSession{})
		if _, err := list.reply(); err == nil {
			t.Error("a session that has ended is listed")
		}
	})
}
