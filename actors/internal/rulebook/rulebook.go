package rulebook

import (
	"context"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/policy/rules"
)

// appended is the result of appending to the file.
type appended struct {
	protocol.Amend
	asker *system.PID
	err   error
}

type rulebook struct {
	ctx    *system.Context
	newest protocol.NewRules
	file   string // where amendments are appended; empty: they last as long as the runtime
	// runtime hands out what is new.
	runtime *system.PID
}

// Spawn starts the actor of a runtime's rules, as a child of the runtime's actor. Amendments are appended to file; if that is empty
// they last as long as the runtime.
func Spawn(ctx *system.Context, first protocol.NewRules, file string) *system.PID {
	b := &rulebook{newest: first, file: file, runtime: ctx.Self()}
	return ctx.Spawn("rules", b.receive)
}

func (b *rulebook) receive(ctx *system.Context) {
	b.ctx = ctx
	switch m := ctx.Message().(type) {
	case system.Started, system.Stopping, system.Crashing:
	case protocol.Amend:
		b.amend(m)
	case appended:
		b.appended(m)
	default:
		ctx.Unexpected()
	}
}

// with returns a set of rules with one more.
func with(set *rules.Set, m protocol.Amend) (*rules.Set, error) {
	if m.Host != nil {
		return set.WithHost(*m.Host)
	}
	return set.With(m.Prefix)
}

// amend appends to the file, in a goroutine because the file's lock may block.
func (b *rulebook) amend(m protocol.Amend) {
	file, asker := b.file, b.ctx.Sender()
	if _, err := with(b.newest.Rules, m); err != nil || file == "" {
		b.appended(appended{m, asker, err})
		return
	}
	b.ctx.Go(func(context.Context) any {
		if m.Host != nil {
			return appended{m, asker, rules.AppendHost(file, *m.Host)}
		}
		return appended{m, asker, rules.Append(file, m.Prefix)}
	})
}

// appended puts the rule into force in every session. The rules may have grown meanwhile.
func (b *rulebook) appended(m appended) {
	rules, err := b.newest.Rules, m.err
	if err == nil {
		rules, err = with(rules, m.Amend)
	}
	if err != nil {
		b.ctx.Send(m.asker, protocol.Amended{Amend: m.Amend, NewRules: b.newest, Err: err})
		return
	}
	b.newest = protocol.NewRules{Version: b.newest.Version + 1, Rules: rules}
	b.ctx.SendFor(m.asker, b.runtime, protocol.Distribute{Amended: protocol.Amended{Amend: m.Amend, NewRules: b.newest}})
}
