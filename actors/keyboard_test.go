package actors

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// typist is a process that repeats each line, and the means to type into it.
func typist(t *testing.T, o hostOptions, policy messages.KeyboardPolicy) (*talk, messages.ProcessID) {
	t.Helper()
	s := newHost(t, o).open(func(c *shared.SessionConfig) { c.Keyboard = policy })
	command := quick(`while read -r x; do echo "got $x"; done`)
	command.TTY = true
	return s, s.exec(command).Process
}

func (s *talk) take(id messages.ProcessID, who string) messages.KeyboardID {
	s.t.Helper()
	return must[*messages.Keyboard](s.host, s.supervisor, messages.TakeKeyboard{Process: id, Holder: who}).ID
}

func (s *talk) press(id messages.ProcessID, keyboard messages.KeyboardID, text string) error {
	_, err := ask[*messages.Result](s.host, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte(text), Keyboard: keyboard, NoWait: true})
	return err
}

func (s *talk) giveBack(id messages.ProcessID, keyboard messages.KeyboardID) error {
	_, err := ask[protocol.Done](s.host, s.supervisor, messages.ReturnKeyboard{Process: id, Keyboard: keyboard})
	return err
}

func TestWhoHasTheKeyboardTypesAlone(t *testing.T) {
	s, id := typist(t, hostOptions{}, "")
	poll := s.call(messages.Poll{Process: id, NoTimeout: true})
	mine := s.take(id, "Ada")
	if taken := probe.Expect[messages.KeyboardTaken](s.events, patience, nil); taken.Holder != "Ada" || taken.Process != id || taken.Before != "" {
		t.Errorf("%+v", taken)
	}
	awaitThat(t, "a list names the holder", func() bool { k := s.list()[0].Keyboard; return k != nil && k.Name == "Ada" && !k.Since.IsZero() })
	for op, request := range map[string]any{
		"write":       messages.WriteStdin{Process: id, Bytes: []byte("no\n")},
		"close stdin": messages.CloseStdin{Process: id},
		"resize":      messages.Resize{Process: id, Size: messages.Size{Rows: 30, Cols: 100}},
		"return":      messages.ReturnKeyboard{Process: id},
		"guessed":     messages.WriteStdin{Process: id, Bytes: []byte("no\n"), NoWait: true, Keyboard: "guessed"},
	} {
		_, err := ask[any](s.host, s.supervisor, request)
		wantError(t, op, err, messages.ErrKeyboardTaken)
	}
	if err := s.press(id, mine, "yes\n"); err != nil {
		t.Fatal(err)
	}
	must[protocol.Done](s.host, s.supervisor, messages.Resize{Process: id, Size: messages.Size{Rows: 30, Cols: 100}, Keyboard: mine})
	s.said(id, "got yes")
	if err := s.giveBack(id, mine); err != nil {
		t.Fatal(err)
	}
	if back := probe.Expect[messages.KeyboardReturned](s.events, patience, nil); back.Why != messages.ReturnedByHolder || back.Holder != "Ada" {
		t.Errorf("%+v", back)
	}
	if err := s.giveBack(id, mine); err != nil {
		t.Errorf("it is given back again: %v", err)
	}
	wantError(t, "a key after that", s.press(id, mine, "late\n"), messages.ErrWrongState)
	if poll.answered(0) {
		t.Error("what a person types has ended a poll")
	}
	s.write(id, "model\n")
	s.said(id, "got model")
	s.kill(id)
	poll.result()
}

// The output of a person's keys is for the polls of others, as all output is, and a key that becomes a signal works.
func TestAKeyboardTakesNoOutput(t *testing.T) {
	s, id := typist(t, hostOptions{}, "")
	mine := s.take(id, "")
	_, err := ask[*messages.Result](s.host, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte("x"), Keyboard: mine})
	wantError(t, "a write that takes output", err, messages.ErrInvalidRequest)
	if err := s.press(id, mine, "\x03"); err != nil {
		t.Fatal(err)
	}
	end := s.ended(id)
	if end.Status != messages.StatusSignaled(syscall.SIGINT) {
		t.Errorf("%v", end.EndRecord.Status)
	}
	if back := probe.Of[messages.KeyboardReturned](s.events, nil); len(back) != 1 || back[0].Why != messages.ReturnedAtEnd {
		t.Errorf("%+v", back)
	}
	for _, r := range must[messages.Processes](s.host, s.supervisor, protocol.ListProcesses{Records: true}) {
		if r.End == nil || r.Keyboard != nil {
			t.Errorf("%+v: somebody has the keyboard of what has ended", r)
		}
	}
}

func TestOthersWaitForTheKeyboardWhereTheSessionSaysSo(t *testing.T) {
	s, id := typist(t, hostOptions{}, messages.KeyboardHolds)
	mine := s.take(id, "Ada")
	first, second, interrupt := s.call(messages.WriteStdin{Process: id, Bytes: []byte("one\n")}), s.call(messages.WriteStdin{Process: id, Bytes: []byte("two\n")}),
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("\x03"), UntilTaken: true})
	_, err := ask[protocol.Done](s.host, s.supervisor, messages.Resize{Process: id, Size: messages.Size{Rows: 30, Cols: 100}})
	wantError(t, "a resize", err, messages.ErrKeyboardTaken)
	if err := s.press(id, mine, "me first\n"); err != nil {
		t.Fatal(err)
	}
	s.said(id, "got me first")
	second.cancel()
	_, err = second.reply()
	wantError(t, "a cancelled one", err, messages.ErrCancelled)
	if first.answered(0) || interrupt.answered(0) {
		t.Fatal("a write of others was answered while a person has the keyboard")
	}
	if err := s.giveBack(id, mine); err != nil {
		t.Fatal(err)
	}
	if first := first.result(); first.Taken != 4 {
		t.Errorf("%+v", first)
	}
	interrupt.result()
	end := s.ended(id)
	if text := string(end.Transcript); !strings.Contains(text, "got one") || strings.Contains(text, "two") {
		t.Errorf("%q", text)
	}
}

func TestTheLastToTakeAKeyboardHasIt(t *testing.T) {
	s, id := typist(t, hostOptions{}, "")
	ada, bob := s.take(id, "Ada"), s.take(id, "Bob")
	taken := probe.Expect(s.events, patience, func(e messages.KeyboardTaken) bool { return e.Holder == "Bob" })
	if taken.Before != "Ada" {
		t.Errorf("%+v", taken)
	}
	wantError(t, "keys of the first", s.press(id, ada, "no\n"), messages.ErrKeyboardTaken)
	wantError(t, "the first gives it back", s.giveBack(id, ada), messages.ErrKeyboardTaken)
	if err := s.press(id, bob, "yes\n"); err != nil {
		t.Fatal(err)
	}
	s.said(id, "got yes")
	s.kill(id)
}

func TestAnIdleKeyboardIsGivenBack(t *testing.T) {
	s, id := typist(t, hostOptions{patience: shared.Patience{Keyboard: 50 * time.Millisecond}}, "")
	s.take(id, "Ada")
	if back := probe.Expect[messages.KeyboardReturned](s.events, patience, nil); back.Why != messages.ReturnedIdle {
		t.Errorf("%+v", back)
	}
	s.write(id, "model\n")
	s.said(id, "got model")
	s.kill(id)
}

// A write that waited for an earlier one is refused when a person takes the keyboard, and is not sent later.
func TestWaitingWritesAreRefusedWhenTheKeyboardIsTaken(t *testing.T) {
	s, id := typist(t, hostOptions{}, "")
	first := s.call(messages.WriteStdin{Process: id, Bytes: []byte("one\n"), Yield: new(30 * time.Second)})
	s.said(id, "got one")
	second := s.call(messages.WriteStdin{Process: id, Bytes: []byte("two\n")})
	s.take(id, "Ada")
	_, err := second.reply()
	wantError(t, "a write that waited", err, messages.ErrKeyboardTaken)
	s.kill(id)
	first.result()
	if text := string(s.ended(id).Transcript); strings.Contains(text, "two") {
		t.Errorf("%q", text)
	}
}

func TestThereIsNoKeyboardWithoutATerminal(t *testing.T) {
	s := newHost(t, hostOptions{}).open(nil)
	command := quick("exec sleep 1000")
	command.OpenStdin = true
	id := s.exec(command).Process
	_, err := ask[*messages.Keyboard](s.host, s.supervisor, messages.TakeKeyboard{Process: id})
	wantError(t, "a process on pipes", err, messages.ErrNotATerminal)
	s.kill(id)
}
