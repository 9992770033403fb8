package actors

import (
	"context"
	"fmt"

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

// rulesKeeper is the actor that owns the rules of a runtime. Sessions have snapshots, which the runtime's actor hands out.
type rulesKeeper struct {
	ctx     *system.Context
	runtime *system.PID
	newest  protocol.NewRules
	file    string // where amendments are appended; empty: they last as long as the runtime
}

func (k *rulesKeeper) receive(ctx *system.Context) {
	k.ctx = ctx
	switch m := ctx.Message().(type) {
	case protocol.Amend:
		k.amend(m)
	case appended:
		k.appended(m)
	}
}

// amend appends to the file, in a goroutine because the file's lock may block.
func (k *rulesKeeper) amend(m protocol.Amend) {
	file, asker := k.file, k.ctx.Sender()
	if _, err := k.newest.Rules.With(m.Prefix); err != nil || file == "" {
		k.appended(appended{m, asker, err})
		return
	}
	k.ctx.Go(func(context.Context) (result any) {
		defer func() {
			if reason := recover(); reason != nil { // the question must be answered
				result = appended{m, asker, fmt.Errorf("appending panicked: %v", reason)}
			}
		}()
		return appended{m, asker, rules.Append(file, m.Prefix)}
	})
}

// appended puts the rule into force in every session. The rules may have grown meanwhile.
func (k *rulesKeeper) appended(m appended) {
	rules, err := k.newest.Rules, m.err
	if err == nil {
		rules, err = rules.With(m.Prefix)
	}
	if err != nil {
		k.ctx.Send(m.asker, protocol.Amended{Amend: m.Amend, NewRules: k.newest, Err: err})
		return
	}
	k.newest = protocol.NewRules{Version: k.newest.Version + 1, Rules: rules}
	k.ctx.SendFor(m.asker, k.runtime, protocol.Distribute{Amended: protocol.Amended{Amend: m.Amend, NewRules: k.newest, Err: nil}})
}
