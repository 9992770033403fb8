package kernel

import "context"

// WorkLeft is delivered instead of the result of work that ended its goroutine (runtime.Goexit).
type WorkLeft struct{}

// WorkPanicked is delivered instead of the result of work that was started with Detach and panicked.
type WorkPanicked struct {
	Reason any // what was passed to panic
}

// workCrashed is delivered instead of the result of work that was started with Go and panicked.
type workCrashed struct{ reason any }

// Go runs blocking work in another goroutine and delivers its result, unless that is nil, as a message to this actor. Its
// context ends with the actor or by EndWork; a result that comes when the actor has ended and owns something should be a
// Discarder. A panic in work crashes the actor. The goroutine is used again: work must not leave it locked to a thread.
func (c *Context) Go(work func(context.Context) any) {
	self, ctx, sys := c.Self(), c.workContext(), c.sys
	c.Send(sys.root, workStarted{self.Id})
	sys.pool.Schedule(func() {
		defer sys.Send(sys.root, workEnded{self.Id})
		sys.run(ctx, self, work, func(reason any) {
			sys.Send(self, workCrashed{reason})
			sys.logPanic("actor crashed", self, "work", reason)
		})
	})
}

// Detach is Go for code of the host, which may never return: Shutdown does not wait for it, its goroutine is not used
// again, and a panic is delivered as WorkPanicked. A host that does not return when its context ends loses a goroutine.
func (c *Context) Detach(work func(context.Context) any) {
	self, ctx, sys := c.Self(), c.workContext(), c.sys
	go sys.run(ctx, self, work, func(reason any) {
		sys.Send(self, WorkPanicked{reason})
		sys.logPanic("detached work panicked", self, "work", reason)
	})
}

// EndWork ends the context of all work that is under way. Work that begins later gets another.
func (c *Context) EndWork() {
	if c.work != nil {
		c.endWork()
		c.work = nil
	}
}

func (c *Context) workContext() context.Context {
	if c.work == nil {
		c.work, c.endWork = context.WithCancel(context.Background())
	}
	return c.work
}

// run sends the owner one message, unless work returns nil.
func (s *System) run(ctx context.Context, owner *PID, work func(context.Context) any, panicked func(reason any)) {
	returned := false
	defer func() {
		if reason := recover(); reason != nil {
			panicked(reason)
		} else if !returned {
			s.Send(owner, WorkLeft{})
		}
	}()
	result := work(ctx)
	returned = true
	if result != nil {
		s.Send(owner, result)
	}
}
