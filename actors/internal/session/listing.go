package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Bounds of the looks for one list. A child of another spawner may be on another machine, so that most of a look is waiting.
const (
	listTime     = time.Second // for all of them
	lookedAt     = 4           // at once, of children whose calls return at once
	lookedAtElse = 64          // at once, of others
)

// inquiry is a look at one child for a list.
type inquiry struct {
	child  ptyio.Child
	asked  chan struct{} // see attempt
	awaits *messages.Awaits
}

// listNow answers a request for the processes that have not ended. What each waits for is looked up once, outside of the actor, and the answer
// waits for all that is found in time.
func (v *supervisor) listNow() {
	list := v.list(false)
	var ours, others []inquiry
	for i, info := range list {
		a := &v.entries[info.Process].attempt
		if info.State != messages.StateRunning && info.State != messages.StateExited || a.child == nil || a.tree != nil {
			continue
		}
		list[i].Awaits = &messages.Awaits{}
		one := inquiry{a.child, a.asked, list[i].Awaits}
		if ptyio.IsPrompt(a.child) {
			ours = append(ours, one)
		} else {
			others = append(others, one)
		}
	}
	if len(ours)+len(others) == 0 {
		v.ctx.Respond(list)
		return
	}
	call := v.open(&openCall{}).Call
	v.ctx.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, listTime)
		defer cancel()
		var looks sync.WaitGroup
		begin(ctx, &looks, ours, lookedAt)
		begin(ctx, &looks, others, lookedAtElse)
		looks.Wait()
		return answer{call, list}
	})
}

// begin begins the looks at some children, in at most so many goroutines.
func begin(ctx context.Context, looks *sync.WaitGroup, all []inquiry, most int) {
	next := make(chan inquiry, len(all))
	for _, one := range all {
		next <- one
	}
	close(next)
	for range min(most, len(all)) {
		looks.Go(func() {
			for one := range next {
				*one.awaits = one.look(ctx)
			}
		})
	}
}

// look looks at one child. One that has not answered an earlier question is not asked another, so that a child of a host's own that never
// answers costs one goroutine, however often the processes are listed.
func (q inquiry) look(ctx context.Context) messages.Awaits {
	late := messages.Awaits{Unknown: "it was not found out in time"}
	if ctx.Err() != nil {
		return late
	}
	inquirer, can := q.child.(ptyio.Inquirer)
	switch {
	case !can:
		return messages.Awaits{Unknown: "its spawner does not say"}
	case ptyio.IsPrompt(q.child):
		return found(inquirer)
	}
	select {
	case q.asked <- struct{}{}:
	case <-ctx.Done():
		return late
	}
	awaits, err := hostcode.Call[messages.Awaits]{Who: "its spawner", Do: func(context.Context) (messages.Awaits, error) {
		defer func() { <-q.asked }()
		return found(inquirer), nil
	}}.Wait(ctx)
	if failure, failed := errors.AsType[*hostcode.Failure](err); failed && !failure.Hangs {
		return messages.Awaits{Unknown: err.Error()}
	} else if failed {
		return late
	}
	return awaits
}

// found puts both questions to a child.
func found(inquirer ptyio.Inquirer) (awaits messages.Awaits) {
	var failed, failedToo error
	var listeners []ptyio.Listener
	awaits.Input, failed = inquirer.AwaitedInput()
	listeners, failedToo = inquirer.Listeners()
	for _, l := range listeners {
		awaits.Listening = append(awaits.Listening, l.Address.String())
	}
	slices.Sort(awaits.Listening)
	awaits.Listening = slices.Compact(awaits.Listening)
	awaits.Listening = awaits.Listening[:min(len(awaits.Listening), messages.MaxListening)]
	for _, err := range []error{failed, failedToo} {
		if typed := protocol.AsError("look at process", err); typed != nil {
			awaits.Unknown = typed.Detail
			break
		}
	}
	return awaits
}
