package execbus

import (
	"context"
	"errors"
	"time"

	"github.com/execbus/execbus/audit"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// AuditOptions say where what happens is recorded, and what a full disk means. See "The audit log" in the package doc.
type AuditOptions struct {
	// File is the audit log, by an absolute path. One that exists is continued. No confined command may change it, nor the file beside it
	// with its head. Empty means that there is none.
	File string
	// OnFull is audit.Stop or audit.Drop: whether nothing new begins while the log cannot be written, or events are dropped and counted.
	// Empty means audit.Stop.
	OnFull audit.OnFull
}

// auditor passes the events of a runtime on to its audit log. A nil one has none.
type auditor struct {
	log  *audit.Log
	over context.Context // ended when no more events come
	stop context.CancelFunc
	done chan struct{} // closed when all events are in the log
}

// startAudit opens the log before anything can happen.
func (r *Runtime) startAudit(o AuditOptions) error {
	if o.File == "" {
		return o.OnFull.Check()
	}
	log, err := audit.Open(audit.Options{File: o.File, OnFull: o.OnFull, Notice: r.notice, Anchored: func(h messages.AuditHead) {
		r.around.Bus.Publish(messages.AuditAnchored{Origin: messages.Origin{At: time.Now()}, File: o.File, AuditHead: h})
	}})
	if err != nil {
		return err
	}
	a := &auditor{log: log, done: make(chan struct{})}
	a.over, a.stop = context.WithCancel(context.Background())
	events, err := a.subscribe(r.around.Bus)
	if err != nil {
		return errors.Join(err, log.Close(context.Background()))
	}
	r.audit = a
	r.around.Protected = append(r.around.Protected, o.File, o.File+audit.HeadSuffix)
	go a.follow(r.around.Bus, events)
	return nil
}

// subscribe subscribes to what a log records.
func (a *auditor) subscribe(b *bus.Bus) (*bus.Subscription, error) {
	events, err := b.Subscribe(bus.Filter{Kinds: audit.Kinds()}, bus.SubscribeOptions{Name: "audit log", Lossless: true, Observer: true})
	if err == nil {
		context.AfterFunc(a.over, events.End)
	}
	return events, err
}

// follow passes events on until no more come. It never waits for the disk, so that it falls behind only where it gets no processor; then the
// log says that events are missing.
func (a *auditor) follow(b *bus.Bus, events *bus.Subscription) {
	defer close(a.done)
	for {
		event, err := events.Next(context.Background())
		switch {
		case err == nil:
			a.log.Append(event)
		case !errors.Is(err, messages.ErrSlowSubscriber):
			return
		default:
			a.log.Missed()
			if events, err = a.subscribe(b); err != nil {
				return // the bus is closed
			}
		}
	}
}

// admit returns an error if nothing new may begin.
func (a *auditor) admit() error {
	if a == nil {
		return nil
	}
	return a.log.Admit()
}

// auditEnd is how long the disk has for the end of the log.
const auditEnd = 5 * time.Second

// end waits until all that was published is in the log, and closes it.
func (a *auditor) end() error {
	if a == nil {
		return nil
	}
	a.stop()
	<-a.done
	ctx, cancel := context.WithTimeout(context.Background(), auditEnd)
	defer cancel()
	return a.log.Close(ctx)
}
