package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/execbus/execbus/messages"
)

// OnFull says what happens while the log cannot be written, because its disk is full, fails, or does not answer.
type OnFull string

// The modes.
const (
	// Stop lets nothing new begin: Admit answers with an error. What runs goes on, and what is known of it waits in memory for the disk.
	Stop OnFull = "stop"
	// Drop lets everything go on.
	Drop OnFull = "drop"
)

// Check returns an error for an unknown mode.
func (f OnFull) Check() error {
	switch f {
	case "", Stop, Drop:
		return nil
	}
	return wrong("OnFull", fmt.Sprintf("there is no mode %q; use stop or drop", string(f)))
}

// Options of a Log. They are copied.
type Options struct {
	// File is the log, by an absolute path; a missing one is made, with its directory. Its head is in the file of that name with ".head".
	File string
	// OnFull is Stop if it is empty.
	OnFull OnFull
	// Anchored is told each head that is on the disk, and Notice once that the log cannot be written, and once that it can be again. A
	// goroutine of the log calls them, and they must not block. They may be nil.
	Anchored func(messages.AuditHead)
	Notice   func(text string)

	open  func(path string) (disk, error) // tests set what stands for a file
	retry time.Duration                   // tests set it
	most  int                             // tests set it: MaxQueuedBytes
}

// Bounds of a Log.
const (
	// MaxQueued and MaxQueuedBytes bound the events that wait for the disk. Events beyond them are counted, and not in the log.
	MaxQueued      = 1 << 16
	MaxQueuedBytes = 16 << 20
	// MaxLine bounds a line, in bytes. Of an event that needs more the log has the beginning, the length and the digest.
	MaxLine = 256 << 10
	// AnchorEvery is how often at most the log is synced to its disk.
	AnchorEvery = time.Second
	// Patience is how long the disk may take for a write before the log counts as one that cannot be written.
	Patience = 2 * time.Second

	retryAfter = time.Second
	batchBytes = 256 << 10 // of lines that one write has
)

// Log writes one audit log. Its methods are safe for concurrent use, and only Close waits for the disk.
type Log struct {
	options Options
	key     [32]byte // of the digests of input; it is never written
	place   place

	// The lock is for the few instructions that put an event into the queue or take some out. A message would not do: a mailbox has no
	// bound, and a publisher must not wait.
	mu      sync.Mutex
	queue   []queued
	bytes   int
	closing bool
	since   time.Time // when a write began that has not returned; zero if none is under way
	failure error     // of the newest write

	wake   chan struct{} // capacity 1: something was queued, or the log is closing
	stop   chan struct{} // closed by Close
	closed chan struct{} // closed when all is written that can be, with ending
	ending error
}

// queued is an event that waits for the disk, or a number of those that did not fit behind the ones before.
type queued struct {
	event   any
	kind    messages.EventKind
	origin  messages.Origin
	weight  int
	dropped *Dropped
}

// overhead is about what an event in the queue weighs beside what messages.Weight counts.
const overhead = 512

func wrong(field, detail string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Audit." + field, Detail: detail}
}

// Open opens a log, or goes on with one. Nobody else can write it until Close, or the end of this process. The first line of this run is
// on the disk when Open returns. A log that is not what its head says is an error: see Verify.
func Open(o Options) (*Log, error) {
	if err := o.OnFull.Check(); err != nil {
		return nil, err
	}
	if o.OnFull == "" {
		o.OnFull = Stop
	}
	if o.open == nil {
		o.open = openFile
	}
	o.retry, o.most = cmp.Or(o.retry, retryAfter), cmp.Or(o.most, MaxQueuedBytes)
	l := &Log{options: o, wake: make(chan struct{}, 1), stop: make(chan struct{}), closed: make(chan struct{})}
	_, _ = rand.Read(l.key[:]) // it never fails
	if err := l.place.begin(o); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// Append puts an event into the log. The event must not change afterwards. It does not block: an event that finds no room is counted, and
// the next line says how many were.
func (l *Log) Append(event messages.Event) {
	shown, weight, worth := l.shown(event)
	if !worth {
		return
	}
	q := queued{event: shown, kind: event.Kind(), origin: event.From(), weight: weight + overhead}
	part := 1
	if q.kind == messages.KindNetworkConnection || q.kind == messages.KindProgramExecuted {
		part = 2 // a command makes as many as it likes, and must leave room for the others
	}
	l.mu.Lock()
	if l.closing || len(l.queue) >= MaxQueued/part || l.bytes+q.weight > l.options.most/part {
		l.miss(1, false)
	} else {
		l.queue = append(l.queue, q)
		l.bytes += q.weight
	}
	l.mu.Unlock()
	l.awake()
}

// Missed says that events were lost on their way to Append, nobody knows how many.
func (l *Log) Missed() {
	l.mu.Lock()
	l.miss(0, true)
	l.mu.Unlock()
	l.awake()
}

// miss counts events that are not in the log. The caller holds the lock. There are never two counts in a row, so the queue keeps its bound.
func (l *Log) miss(events int64, more bool) {
	now := time.Now()
	if len(l.queue) == 0 || l.queue[len(l.queue)-1].dropped == nil {
		l.queue = append(l.queue, queued{dropped: &Dropped{From: now}})
	}
	d := l.queue[len(l.queue)-1].dropped
	d.Events, d.Unknown, d.To = d.Events+events, d.Unknown || more, now
}

func (l *Log) awake() {
	select {
	case l.wake <- struct{}{}:
	default: // it is due
	}
}

// Admit returns an error if nothing new may begin: under Stop, while the log cannot be written.
func (l *Log) Admit() error {
	if l.options.OnFull != Stop {
		return nil
	}
	l.mu.Lock()
	why := l.ill()
	l.mu.Unlock()
	if why == "" {
		return nil
	}
	return &messages.Error{Code: messages.ErrAuditFailed, Op: "audit", Subject: l.options.File,
		Detail: "the log cannot be written, and nothing new may begin without it: " + why + "; free the disk, and try again"}
}

// ill says why the log cannot be written; empty if it can. The caller holds the lock.
func (l *Log) ill() string {
	switch slow := time.Since(l.since); {
	case l.failure != nil:
		return l.failure.Error()
	case !l.since.IsZero() && slow > Patience:
		return fmt.Sprintf("the disk has not answered for %v", slow.Round(time.Second))
	case len(l.queue) > MaxQueued/2 || l.bytes > l.options.most/2:
		return "the disk is too slow for what happens"
	}
	return ""
}

// Head is how far the log goes that is on the disk or on its way there.
func (l *Log) Head() messages.AuditHead {
	l.place.mu.Lock()
	defer l.place.mu.Unlock()
	return l.place.head.AuditHead
}

// run writes what is queued until the log is closed.
func (l *Log) run() {
	defer close(l.closed)
	defer l.place.close()
	var timer <-chan time.Time // of the next sync, or the next try
	var unsynced, due bool
	for {
		wrote, err := l.drain()
		unsynced = unsynced || wrote
		if err == nil && due {
			err = l.disk(l.anchor)
			unsynced, due = err != nil, err != nil
		}
		l.settle(err)
		wake := l.wake
		switch {
		case err != nil: // new events do not make the disk better
			wake, timer = nil, time.After(l.options.retry)
		case unsynced && timer == nil:
			timer = time.After(AnchorEvery)
		}
		select {
		case <-l.stop:
			l.end()
			return
		case <-timer:
			timer, due = nil, due || unsynced
		case <-wake:
		}
	}
}

// drain writes what is queued, as far as the disk takes it. It reports whether it has written something.
func (l *Log) drain() (wrote bool, err error) {
	for {
		l.encode()
		if !l.place.unwritten() {
			return wrote, nil
		}
		if err := l.disk(l.place.write); err != nil {
			return wrote, err
		}
		wrote = true
	}
}

// encode makes lines of what is queued, for one write. Lines that could not be written come first.
func (l *Log) encode() {
	for len(l.place.pending) < batchBytes {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.queue = nil // what has grown in a rush
			l.mu.Unlock()
			return
		}
		q := l.queue[0]
		l.queue[0] = queued{}
		l.queue = l.queue[1:]
		l.bytes -= q.weight
		l.mu.Unlock()
		l.place.add(q)
	}
}

// disk makes one call that may wait for the disk. Admit sees how long it takes.
func (l *Log) disk(do func() error) error {
	l.mu.Lock()
	l.since = time.Now()
	l.mu.Unlock()
	err := do()
	l.mu.Lock()
	l.since = time.Time{}
	l.mu.Unlock()
	return err
}

// settle notes how the newest calls have ended, and tells the host when that has changed.
func (l *Log) settle(err error) {
	l.mu.Lock()
	before := l.failure
	l.failure = err
	l.mu.Unlock()
	if l.options.Notice == nil || (before == nil) == (err == nil) {
		return
	}
	text := "the audit log " + messages.Visible(l.options.File) + " can be written again"
	if err != nil {
		meaning := "nothing new may begin until it can"
		if l.options.OnFull == Drop {
			meaning = "what finds no room in memory meanwhile is counted, and not recorded"
		}
		text = fmt.Sprintf("the audit log %s cannot be written: %v; %s", messages.Visible(l.options.File), err, meaning)
	}
	l.options.Notice(text)
}

// anchor has the disk keep what was written, and tells the host.
func (l *Log) anchor() error {
	if err := l.place.sync(); err != nil {
		return err
	}
	if l.options.Anchored != nil {
		l.options.Anchored(l.Head())
	}
	return nil
}

// end writes the last line. If others are missing before it, the log has to look like that.
func (l *Log) end() {
	_, err := l.drain()
	if err == nil {
		l.place.own(&Closed{At: time.Now(), Dropped: l.place.lost})
		_, err = l.drain()
	}
	if anchoring := l.disk(l.anchor); err == nil {
		err = anchoring
	}
	if err != nil {
		l.ending = &messages.Error{Code: messages.ErrAuditFailed, Op: "close", Subject: l.options.File,
			Detail: fmt.Sprintf("the end of the audit log could not be written, and it will count as not closed: %v", err)}
	}
}

// Close writes what waits, and a last line that says so, and closes the files. Later events are not recorded. If ctx ends first, Close returns
// an error, and the rest is still written if the disk answers.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	first := !l.closing
	l.closing = true
	l.mu.Unlock()
	if first {
		close(l.stop)
	}
	select {
	case <-l.closed:
		return l.ending
	case <-ctx.Done():
		return &messages.Error{Code: messages.ErrCancelled, Op: "close", Subject: l.options.File,
			Detail: "the disk has not taken the end of the audit log yet: " + context.Cause(ctx).Error(), Like: messages.LikeOf(ctx.Err())}
	}
}
