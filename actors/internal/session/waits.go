package session

import (
	"slices"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/actors/internal/wait"
	"github.com/execbus/execbus/messages"
)

// expectation is an item of a wait that concerns processes which have not started: the one of a call, or any of an owner.
type expectation struct {
	call  messages.CallID
	owner string
	protocol.Observe
}

func (x expectation) fits(info messages.ProcessInfo) bool {
	return x.call != "" && x.call == info.Call || x.owner != "" && x.owner == info.Owner
}

// wait starts the actor of a call that waits, and lets it observe every process that the call concerns. Each of them is in use until the wait is
// answered.
func (v *supervisor) wait(m messages.Wait) {
	if len(m.For) == 0 {
		v.ctx.Respond(&messages.Error{Code: messages.ErrInvalidRequest, Op: "wait", Subject: "for", Detail: "there is none; name at least one process, call or owner"})
		return
	}
	c := &openCall{waits: true}
	var first []protocol.Target
	for i, item := range m.For {
		ids := v.named(item)
		if item.Process != 0 && len(ids) == 0 {
			v.ctx.Respond(unknownProcess(item.Process))
			return
		}
		for _, id := range ids {
			if e := v.entries[id]; e != nil && e.crashed != "" {
				v.ctx.Respond(crashError(e))
				return
			}
			first = append(first, protocol.Target{Item: i, Process: id})
		}
		if item.Owner != "" || len(ids) == 0 {
			c.expects = append(c.expects, expectation{item.Call, item.Owner, observe(i, item)})
		}
	}
	caller := v.open(c)
	if len(c.expects) > 0 {
		v.calls.expecting[caller.Call] = c
	}
	config := wait.Config{Caller: caller, Items: len(m.For), Any: m.Any, First: first, Paused: v.paused}
	if !m.NoTimeout {
		config.Time = new(messages.WaitYield(m.Yield, v.settings.LongestPoll))
	}
	c.home = wait.Spawn(v.ctx, config)
	for _, target := range first {
		v.observe(c.home, target.Process, observe(target.Item, m.For[target.Item]))
	}
}

func observe(at int, item messages.WaitFor) protocol.Observe {
	return protocol.Observe{Item: at, Until: item.Until, Unreported: item.Owner != ""}
}

// named are the processes that an item concerns now, the ended ones that are remembered, too. Of several with the same call it is the last.
func (v *supervisor) named(item messages.WaitFor) (ids []messages.ProcessID) {
	if item.Process != 0 {
		if v.entries[item.Process] != nil || v.records.find(item.Process) != nil {
			ids = append(ids, item.Process)
		}
		return ids
	}
	var last messages.ProcessInfo
	fits := func(info messages.ProcessInfo) {
		switch {
		case !(expectation{call: item.Call, owner: item.Owner}).fits(info):
		case item.Owner != "":
			ids = append(ids, info.Process)
		case last.Process == 0 || last.Began.Before(info.Began):
			last = info
		}
	}
	for _, e := range v.entries {
		if item.Owner == "" || e.crashed == "" {
			fits(e.info)
		}
	}
	for _, r := range v.records.all {
		fits(r.info)
	}
	if last.Process != 0 {
		ids = append(ids, last.Process)
	}
	return ids
}

// observe lets a wait observe a process.
func (v *supervisor) observe(by *system.PID, id messages.ProcessID, m protocol.Observe) {
	e := v.entries[id]
	if e == nil {
		v.ctx.Send(by, v.records.answer(id, m, v.settings))
		return
	}
	call := v.calls.open(&openCall{asker: by, entry: e})
	v.ctx.Send(e.actor, protocol.Request{Caller: protocol.Caller{Call: call, Asker: sender{v.ctx.System(), by}}, Message: m})
}

// expected lets the waits observe a process that they have waited for.
func (v *supervisor) expected(e *entry) {
	for id, c := range v.calls.expecting {
		for _, x := range c.expects {
			if x.fits(e.info) {
				v.observe(c.home, e.info.Process, x.Observe)
			}
		}
		c.expects = slices.DeleteFunc(c.expects, func(x expectation) bool { return x.call != "" && x.fits(e.info) })
		if len(c.expects) == 0 {
			delete(v.calls.expecting, id)
		}
	}
}

// release frees the processes that an actor observed that has answered its call, or has crashed.
func (v *supervisor) release(home *system.PID) {
	for _, id := range slices.Clone(v.calls.byAsker[home.Id]) {
		if c := v.calls.answered(id); c.entry != nil {
			v.ctx.Send(c.entry.actor, protocol.CancelCall{Call: id})
		}
	}
}
