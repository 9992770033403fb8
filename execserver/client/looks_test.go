package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// looking are the extensions of a server that looks.
var looking = append(all[:len(all):len(all)], wire.ExtensionLooks)

// looked is the outcome of a question.
type looked struct {
	input     *messages.AwaitedInput
	listeners []ptyio.Listener
	err       error
}

// ask puts one of the questions to a child.
func (l *log) ask(method string) <-chan looked {
	came := make(chan looked, 1)
	go func() {
		var o looked
		if method == wire.ProcessAwaitedInput {
			o.input, o.err = l.Child.(ptyio.Inquirer).AwaitedInput()
		} else {
			o.listeners, o.err = l.Child.(ptyio.Inquirer).Listeners()
		}
		came <- o
	}()
	return came
}

func TestAServerThatDoesNotLookIsNotAsked(t *testing.T) {
	p := newPeer(t, all...)
	l := p.start(p.connect(), ptyio.Launch{TTY: true})
	for _, method := range []string{wire.ProcessAwaitedInput, wire.ProcessListeners} {
		if o := within(t, "an answer", l.ask(method)); !errors.Is(o.err, messages.ErrUnsupported) || o.input != nil || o.listeners != nil {
			t.Errorf("%s: %+v", method, o)
		}
	}
	p.finish(l, 1)
	l.ended(t)
}

// What the server has seen says nothing about a program whose output is still on its way, or whose input is.
func TestALookCountsOnlyWhenNothingIsOnItsWay(t *testing.T) {
	p := newPeer(t, looking...)
	l := p.start(p.connect(), ptyio.Launch{TTY: true})
	sees := func(came <-chan looked, seq uint64) *messages.AwaitedInput {
		t.Helper()
		m := p.expect(wire.ProcessAwaitedInput)
		if !strings.Contains(string(m.Params), l.id) {
			t.Errorf("%s", m.Params)
		}
		p.answer(m, wire.AwaitedInputResult{Input: &messages.AwaitedInput{Kind: messages.InputSecret, PID: 7, Program: "su"}, Seq: seq})
		o := within(t, "an answer", came)
		if o.err != nil {
			t.Error(o.err)
		}
		return o.input
	}
	if got := sees(l.ask(wire.ProcessAwaitedInput), 1); got != nil {
		t.Errorf("%+v, and its output has not come", got)
	}
	p.chunk(l, 1, "Password: ")
	l.awaitText(t, "Password: ")
	eventually(t, "the event is counted", func() bool { return l.Child.(*child).last.Load() == 1 })
	if got := sees(l.ask(wire.ProcessAwaitedInput), 1); got == nil || *got != (messages.AwaitedInput{Kind: messages.InputSecret, PID: 7, Program: "su"}) {
		t.Errorf("%+v", got)
	}
	asked := l.ask(wire.ProcessAwaitedInput)
	look := p.expect(wire.ProcessAwaitedInput)
	l.Write([]byte("x"), time.Time{}, func(ptyio.Taken, error) {})
	write := p.expect(wire.ProcessWrite)
	p.answer(write, wire.WriteResult{Status: wire.WriteAccepted, Taken: new(1)})
	eventually(t, "the write is answered", func() bool { _, idle := l.Child.(*child).input.idle(); return idle })
	p.answer(look, wire.AwaitedInputResult{Input: &messages.AwaitedInput{Kind: messages.InputLine}})
	if o := within(t, "an answer", asked); o.input != nil || o.err != nil {
		t.Errorf("%+v, from before the write", o)
	}
	l.Write([]byte("x"), time.Time{}, func(ptyio.Taken, error) {})
	if o := within(t, "an answer", l.ask(wire.ProcessAwaitedInput)); o.input != nil || o.err != nil { // and nobody is asked
		t.Errorf("%+v during a write", o)
	}
	p.answer(p.expect(wire.ProcessWrite), wire.WriteResult{Status: wire.WriteAccepted, Taken: new(1)})
	p.finish(l, 2)
	l.ended(t)
	for _, method := range []string{wire.ProcessAwaitedInput, wire.ProcessListeners} {
		if o := within(t, "an answer", l.ask(method)); o.input != nil || o.listeners != nil || o.err != nil {
			t.Errorf("after the end: %+v", o)
		}
	}
}

// answers are what a server may say to each question, and how many sockets the client believes in; -1: it refuses the answer.
var answers = []struct {
	method, text string
	believes     int
}{
	{wire.ProcessAwaitedInput, `{"seq":0,"input":{"kind":"line","pid":1,"program":"cat"}}`, 0},
	{wire.ProcessAwaitedInput, `{"seq":0}`, 0},
	{wire.ProcessAwaitedInput, `{"seq":0,"input":{"kind":"beyond","pid":1,"program":"cat"}}`, -1},
	{wire.ProcessAwaitedInput, `{"seq":-1,"input":{"kind":"line","pid":1,"program":"cat"}}`, -1},
	{wire.ProcessAwaitedInput, `{"seq":0,"input":{"kind":"line","pid":1,"program":"` + strings.Repeat("x", maxLooked) + `"}}`, -1},
	{wire.ProcessAwaitedInput, `7`, -1},
	{wire.ProcessListeners, `{"listeners":[{"address":"127.0.0.1:80","pid":1,"program":"x"},{"address":"[::]:80","pid":1,"program":"x"}]}`, 2},
	{wire.ProcessListeners, `{"listeners":null}`, 0},
	{wire.ProcessListeners, `{"listeners":[{"address":"example.com:80","pid":1,"program":"x"}]}`, -1},
	{wire.ProcessListeners, `{"listeners":[{"address":"[fe80::1%\u001b[31m]:80","pid":1,"program":"x"}]}`, -1},
	{wire.ProcessListeners, `{"listeners":[` + strings.Repeat(`{"address":"127.0.0.1:80","pid":1,"program":"x"},`, wire.MaxListeners) + `{"address":"127.0.0.1:80","pid":1,"program":"x"}]}`, -1},
	{wire.ProcessListeners, `[]`, -1},
}

func TestAnswersThatCannotBeTrueAreRefused(t *testing.T) {
	p := newPeer(t, looking...)
	l := p.start(p.connect(), ptyio.Launch{TTY: true})
	for _, c := range answers {
		came := l.ask(c.method)
		m := p.expect(c.method)
		p.say(`{"id":` + m.ID.String() + `,"result":` + c.text + `}`)
		o := within(t, "an answer", came)
		if refused := o.err != nil; refused != (c.believes < 0) || len(o.listeners) != max(c.believes, 0) {
			t.Errorf("%.100s: %+v", c.text, o)
		}
		if o.err != nil && (errors.Is(o.err, messages.ErrUnsupported) || !strings.Contains(o.err.Error(), "malformed") || len(o.err.Error()) > 2*maxText) {
			t.Errorf("%.100s: %.3000v", c.text, o.err)
		}
	}
	came := l.ask(wire.ProcessListeners)
	refused := &messages.Error{Code: messages.ErrUnsupported, Op: "look at process", Detail: "it is dark there"}
	data, _ := json.Marshal(refused)
	p.say(string(wire.AppendFailure(nil, p.expect(wire.ProcessListeners).ID, &wire.Fault{Code: wire.InvalidParams, Message: "dark", Data: data})))
	if o := within(t, "an answer", came); !errors.Is(o.err, messages.ErrUnsupported) {
		t.Errorf("%+v", o)
	}
	p.finish(l, 1)
	l.ended(t)
}

// A server that does not answer is waited for as long as the bound says, and a cut in between changes nothing.
func TestALookHasABoundAndOutlivesACut(t *testing.T) {
	p := newPeer(t, looking...)
	times, limits := quick()
	limits.look = 20 * time.Millisecond
	s := p.connectIn(times, limits)
	l := p.start(s, ptyio.Launch{TTY: true})
	silent := l.ask(wire.ProcessListeners)
	m := p.expect(wire.ProcessListeners)
	if o := within(t, "an answer", silent); o.err == nil || errors.Is(o.err, messages.ErrUnsupported) || !strings.Contains(o.err.Error(), "in time") {
		t.Errorf("%+v", o)
	}
	p.answer(m, wire.ListenersResult{}) // late, and no violation
	s.limits.look = patience
	again := l.ask(wire.ProcessListeners)
	p.expect(wire.ProcessListeners)
	_ = p.Conn.Close()
	p.resumed()
	p.answer(p.expect(wire.ProcessListeners), wire.ListenersResult{Listeners: []wire.Listener{{Address: "127.0.0.1:80"}}})
	if o := within(t, "an answer", again); o.err != nil || len(o.listeners) != 1 {
		t.Errorf("%+v", o)
	}
	p.finish(l, 1)
	l.ended(t)
}

// FuzzLook lets a server answer both questions with arbitrary text. What is believed can be shown.
func FuzzLook(f *testing.F) {
	for _, c := range answers {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		shown := func(name string) {
			if len(name) > 2*maxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("%q", name)
			}
		}
		var input wire.AwaitedInputResult
		if decode(text, &input) == nil && input.Input != nil && checkAwaited(input.Input) == nil {
			shown(input.Input.Program)
			if a := input.Input; a.Hidden && !a.Guess || strings.TrimSpace(a.String()) == "" {
				t.Errorf("%+v", a)
			}
		}
		var sockets wire.ListenersResult
		if decode(text, &sockets) != nil {
			return
		}
		found, err := listenersOf(sockets.Listeners)
		if err != nil {
			return
		}
		for _, l := range found {
			shown(l.Program)
			shown(l.Address.String())
			if !l.Address.IsValid() || len(found) > wire.MaxListeners {
				t.Errorf("%+v", l)
			}
		}
	})
}

// asThere runs a test with a session whose commands run on a real server, with looks or as one that is older.
func asThere(t *testing.T, test func(t *testing.T, session *execbus.Session, looks bool)) {
	for _, looks := range []bool{true, false} {
		t.Run(fmt.Sprint("looks: ", looks), func(t *testing.T) {
			extensions := looking
			if !looks {
				extensions = all
			}
			dial, _ := socketWay(t, newServer(t), 0, nil)
			runtime, err := execbus.Start(execbus.Options{Spawner: begun(t, dial, extensions)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := runtime.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
			session, err := runtime.OpenSession(execbus.SessionOptions{Dir: t.TempDir(), LongestPoll: patience})
			if err != nil {
				t.Fatal(err)
			}
			test(t, session, looks)
		})
	}
}

// Programs on a server end the calls of its client as those on this machine do. From an older server the calls come at the ends of their
// yields, and the session is told once.
func TestCallsEndForProgramsOnAServer(t *testing.T) {
	asThere(t, func(t *testing.T, session *execbus.Session, looks bool) {
		notices, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecNotice}})
		if err != nil {
			t.Fatal(err)
		}
		defer notices.Close()
		yield := patience
		if !looks {
			yield = time.Millisecond
		}
		until := &messages.Until{AwaitingInput: true}
		result, err := session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"sh", "-c", `printf 'name? '; read x; stty -echo; printf 'word? '; read y; stty raw; printf 'key? '; cat`},
			TTY: true, Yield: &yield, Until: until})
		if err != nil {
			t.Fatal(err)
		}
		if !looks {
			if result.Met.Reason != messages.MetNothing {
				t.Errorf("%+v", result.Met)
			}
			_, _ = session.Poll(t.Context(), messages.Poll{Process: result.Process, Yield: &yield, Until: &messages.Until{Listening: new(uint16)}})
			event, err := notices.Next(t.Context())
			if notice, is := event.(messages.ExecNotice); err != nil || !is || !strings.Contains(notice.Text, "the server does not say") {
				t.Errorf("%+v, %v", event, err)
			}
			list, err := session.List(t.Context())
			if err != nil || len(list) != 1 || list[0].Awaits == nil || !strings.Contains(list[0].Awaits.Unknown, "the server does not say") {
				t.Errorf("%+v, %v", list, err)
			}
			if event, more, _ := notices.TryNext(); more {
				t.Errorf("again: %+v", event)
			}
			return
		}
		for _, c := range []struct {
			shows string
			kind  messages.InputKind
		}{{"name? ", messages.InputLine}, {"word? ", messages.InputSecret}, {"key? ", messages.InputKeys}} {
			if m := result.Met; m == nil || m.Input == nil || m.Input.Kind != c.kind || m.Input.Guess || !strings.HasSuffix(string(result.Output), c.shows) {
				t.Fatalf("%q: %q, %+v", c.shows, result.Output, m)
			}
			list, err := session.List(t.Context())
			if err != nil || len(list) != 1 || list[0].Awaits == nil || list[0].Awaits.Input == nil || list[0].Awaits.Input.Kind != c.kind {
				t.Fatalf("%+v, %v", list, err)
			}
			if c.kind == messages.InputKeys {
				break
			}
			if result, err = session.Write(t.Context(), messages.WriteStdin{Process: result.Process, Bytes: []byte("x\n"), Yield: &yield, Until: until}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := osexec.LookPath("python3"); err != nil {
			t.Skip("skipped: ", err)
		}
		result, err = session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"python3", "-c", "import socket, time; time.sleep(0.1); s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(1000)"},
			Yield: &yield, Until: &messages.Until{Listening: new(uint16)}})
		if err != nil || result.Met == nil || result.Met.Reason != messages.MetListening || !strings.HasPrefix(result.Met.Address, "127.0.0.1:") {
			t.Errorf("%+v, %v", result, err)
		}
		found, err := session.Wait(t.Context(), messages.Wait{Any: true, Yield: &yield, For: []messages.WaitFor{
			{Process: result.Process, Until: &messages.Until{AwaitingInput: true}}, {Process: result.Process, Until: &messages.Until{Listening: new(uint16)}}}})
		if err != nil || len(found) != 1 || found[0].Item != 1 {
			t.Errorf("%+v, %v", found, err)
		}
	})
}
