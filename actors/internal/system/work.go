package system

import (
	"context"
	"errors"

	"github.com/execbus/execbus/internal/hostcode"
)

// WorkFailed is delivered instead of the result of work that was started with Detach and has failed.
type WorkFailed struct{ Err *hostcode.Failure }

// worked is the end of work that was started with Go. The owner counts such ends; once the owner is closed, root does.
type worked struct {
	system *System
	owner  *PID
	timer  *Timer // nil unless it was to begin later
	result any    // nil for none
}

// workCrashed is the result of work that panicked or ended its goroutine.
type workCrashed struct{ reason any }

// Discard informs root of work that ended after its owner.
func (w worked) Discard() {
	defer w.system.Send(w.system.root, workEnded{w.owner.Id})
	if owner, owns := w.result.(Discarder); owns {
		owner.Discard()
	}
}

// Go runs blocking work in another goroutine and delivers its result, unless that is nil, as a message to this actor.
// Its context ends with the actor; a result that owns something should be a Discarder, because it may come after the
// actor's end. Work that panics or ends its goroutine crashes the actor.
func (c *Context) Go(work func(context.Context) any) { go c.workOf(work, nil)() }

// workOf counts work, and returns what its goroutine does.
func (c *Context) workOf(work func(context.Context) any, timer *Timer) func() {
	end, ctx := worked{system: c.sys, owner: c.Self(), timer: timer}, c.workContext()
	c.working++
	return func() {
		end.result = workCrashed{"work ended its goroutine"}
		defer func() {
			if reason := recover(); reason != nil {
				end.result = workCrashed{reason}
				defer end.system.logPanic("actor crashed", end.owner, "work", reason)
			}
			end.system.Send(end.owner, end)
		}()
		end.result = work(ctx)
	}
}

// ended takes the result of work.
func (c *Context) ended(work worked) {
	c.working--
	c.forget(work.timer)
	switch result := work.result.(type) {
	case nil:
	case workCrashed:
		c.crash(result.reason)
	default:
		c.deliver(result, nil)
	}
}

// leaveWork makes root wait for the work that is still under way.
func (c *Context) leaveWork() {
	if c.working > 0 {
		c.Send(c.sys.root, workLeft{c.Self().Id, c.working})
		c.working = 0
	}
}

// Detach is Go for code of the host, which may never return: Shutdown does not wait for it, and a failure is delivered as
// WorkFailed. Code that does not return when its context ends costs a goroutine.
func (c *Context) Detach(work func(context.Context) any) {
	self, sys := c.Self(), c.sys
	deliver := func(result any, err error) {
		if failure, failed := errors.AsType[*hostcode.Failure](err); failed && !failure.Hangs { // otherwise the actor has ended
			sys.logger.Error("detached work failed", "actor", self.Id, "reason", failure.Error())
			result = WorkFailed{failure}
		}
		if result != nil {
			sys.Send(self, result)
		}
	}
	call := hostcode.Call[any]{Do: func(ctx context.Context) (any, error) { return work(ctx), nil }, Late: deliver}
	call.Go(c.workContext(), deliver)
}

// workContext is the context of all work of the actor. It ends with the actor.
func (c *Context) workContext() context.Context {
	if c.work == nil {
		c.work, c.endWork = context.WithCancel(context.Background())
	}
	return c.work
}
