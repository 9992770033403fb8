package process

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// keyboard says which person has taken the input of the process; the zero value means none.
type keyboard struct {
	id     messages.KeyboardID
	holder *messages.KeyboardHolder // nil if nobody has it; it is never changed, because lists share it
	used   time.Time                // when something came from it last
	idle   *system.Timer
}

func (k *keyboard) taken() bool { return k.holder != nil }

// takeKeyboard gives the input to a person. Input of others that waits is refused, unless the session lets it wait.
func (p *process) takeKeyboard(from protocol.Caller, holder string) {
	switch {
	case !p.decision.launch.TTY:
		p.reply(from, &messages.Error{Code: messages.ErrNotATerminal, Op: "take keyboard", Subject: p.id.String(),
			Detail: "the process has no terminal, and so no keyboard; write to it"})
		return
	case p.leaderExited():
		p.reply(from, &messages.Error{Code: messages.ErrWrongState, Op: "take keyboard", Subject: p.id.String(), Detail: "the program has exited and reads nothing any more; start it again"})
		return
	}
	k, before := &p.keyboard, ""
	if k.taken() {
		before = k.holder.Name
	}
	k.idle.Cancel()
	now, name := time.Now(), strings.ToValidUTF8(holder[:min(len(holder), messages.MaxHolder)], "")
	*k = keyboard{id: messages.KeyboardID(rand.Text()), used: now, holder: &messages.KeyboardHolder{Name: name, Since: now}}
	k.idle = p.ctx.After(p.Patience.Keyboard, keyboardIdle{k.id})
	p.Bus.Publish(messages.KeyboardTaken{Origin: p.origin(), Holder: k.holder.Name, Before: before})
	p.tellProgress()
	if p.settings.Keyboard != messages.KeyboardHolds {
		for _, held := range slices.Clone(p.input.held) {
			p.answer(held, p.keyboardTaken("write"))
		}
	}
	p.reply(from, &messages.Keyboard{Process: p.id, ID: k.id, Since: now})
}

// keyboardReturned gives the input back to everybody, and sends what waits for that.
func (p *process) keyboardReturned(why messages.KeyboardReturn) {
	if !p.keyboard.taken() {
		return
	}
	name := p.keyboard.holder.Name
	p.keyboard.idle.Cancel()
	p.keyboard = keyboard{}
	p.Bus.Publish(messages.KeyboardReturned{Origin: p.origin(), Holder: name, Why: why})
	if why != messages.ReturnedAtEnd {
		p.tellProgress()
		p.sendHeld()
	}
}

// keyboardIdle takes the keyboard from a person who does not type any more.
func (p *process) keyboardIdle(id messages.KeyboardID) {
	if !p.keyboard.taken() || id != p.keyboard.id {
		return
	}
	if left := p.Patience.Keyboard - time.Since(p.keyboard.used); left > 0 {
		p.keyboard.idle = p.ctx.After(left, keyboardIdle{id})
		return
	}
	p.keyboardReturned(messages.ReturnedIdle)
}

// barred is why a request may not touch the input now; nil if it may, or is none that does. What shows the keyboard counts as a sign
// of life of its holder.
func (p *process) barred(request any) error {
	var shown messages.KeyboardID
	waits := p.settings.Keyboard == messages.KeyboardHolds
	var op string
	switch m := request.(type) {
	case messages.WriteStdin:
		op, shown = "write", m.Keyboard
	case messages.CloseStdin:
		op, shown = "close stdin", m.Keyboard
	case messages.Resize:
		op, shown, waits = "resize", m.Keyboard, false
	case messages.ReturnKeyboard:
		if !p.keyboard.taken() {
			return nil
		}
		op, shown, waits = "return keyboard", m.Keyboard, false
	default:
		return nil
	}
	switch k := &p.keyboard; {
	case k.taken() && shown == k.id:
		k.used = time.Now()
		return nil
	case shown != "" && !k.taken():
		return &messages.Error{Code: messages.ErrWrongState, Op: op, Subject: p.id.String(), Detail: "the keyboard was given back; take it again"}
	case !k.taken() || shown == "" && waits:
		return nil
	}
	return p.keyboardTaken(op)
}

func (p *process) keyboardTaken(op string) *messages.Error {
	by := "a person has"
	if p.keyboard.holder.Name != "" {
		by = messages.Visible(p.keyboard.holder.Name) + " has"
	}
	return &messages.Error{Code: messages.ErrKeyboardTaken, Op: op, Subject: p.id.String(),
		Detail: by + " the keyboard of the process; nothing was sent, try again when it has been given back",
		Hint:   "wait for messages.KeyboardReturned, or set SessionOptions.Keyboard"}
}
