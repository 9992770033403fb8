// Package bus carries events from those who publish them to everyone who listens, and never makes a publisher wait for
// a listener.
//
//	b := bus.New(bus.Options{})
//	defer b.Close()
//
//	sub, err := b.Subscribe(bus.Filter{Processes: []messages.ProcessID{1000}}, bus.SubscribeOptions{})
//	if err != nil {
//		return err
//	}
//	defer sub.Close()
//
//	for ev, err := range sub.All(ctx) {
//		if err != nil {
//			return err // matches messages.ErrClosed, ErrSlowSubscriber or ErrCancelled
//		}
//		switch ev := ev.(type) {
//		case messages.OutputDelta:
//			os.Stdout.Write(ev.Bytes)
//		case messages.Gap:
//			fmt.Printf("[%d bytes lost]\n", ev.End-ev.First)
//		case messages.ExecEnded:
//			return nil
//		}
//	}
//
// # What a subscriber gets
//
// Every event that passes its [Filter] and whose Publish began after Subscribe returned. The events of one process arrive
// in the order in which they were published, as long as one goroutine at a time publishes for that process.
//
// Each subscription has a queue of its own; publishing puts the event into the queues that want it and returns. Reading
// is [Subscription.Next] or [Subscription.All], from any goroutine; the bus starts none.
//
// # A subscriber that does not read
//
// It loses output and nothing else, and it is told exactly what it lost:
//
//   - When its queue of output is full, the oldest [messages.OutputDelta] goes. In its place stands a [messages.Gap] with
//     the origin of the first lost delta, the range of bytes and the number of deltas. Later losses of the same process
//     extend the gap until it is read, so at most one gap of a process is waiting, as long as its output is published
//     without holes. Every byte is delivered or is in exactly one gap.
//   - A gap stands where its first lost byte stood: before every later event of that process, also where all its other
//     events have been read. An event that was published between two lost deltas therefore comes behind their gap.
//   - Every other event, called a lifecycle event here, is kept. When 4,096 of them wait and one more is published, the
//     subscription ends: what was queued before can still be read, then Next answers with an error that matches
//     messages.ErrSlowSubscriber. The same happens when gaps of 4,096 processes wait and one more is needed, or when the
//     transcripts in the waiting ends of processes would exceed 64 MiB.
//
// # Lossless subscriptions
//
// With [SubscribeOptions.Lossless] no output is ever dropped. Instead the subscription takes part in the publisher's flow
// control: each queued output event holds the [Credit] it was published with, until the subscriber asks for the next
// event. A publisher that may have only so many credits outstanding then waits for the slowest lossless subscriber:
//
// A lossless subscriber that stops reading makes the process wait, as a full pipe would. Close it, or give it a Context
// that ends, when nobody reads it any more; that releases all its holds at once.
//
// Lifecycle events carry no credit; their limit of 4,096 holds here too and frees the process in the end. Output that is
// published without a credit cannot be held back; once it finds the queue full it ends the subscription in the same way,
// because it must not be lost in silence.
//
// # Who is listening
//
// [Bus.Listening] tells a publisher that needs an answer whether anybody has asked for such events by their kind. Only a
// subscription that names the kind counts: one that takes everything, to log or to show it, promises no answer.
//
// # Ending
//
//   - Subscription.Close, or the end of its Context: the queue is discarded, Next answers messages.ErrClosed at once.
//   - Bus.Close: all credits are released at once; what is queued can still be read, then comes messages.ErrClosed.
//   - Overrun, see above: credits are released at once; what is queued can still be read, then messages.ErrSlowSubscriber.
//
// A Next that waits wakes up in each of these cases.
//
// # Bounds
//
// One subscription holds at most
//
//   - SubscribeOptions.Outputs output events with SubscribeOptions.OutputBytes bytes (default 1,024 and 4 MiB),
//   - 4,096 lifecycle events, with 64 MiB of transcripts, and 4,096 gaps,
//
// which is 4 MiB of output and below 2 MiB of bookkeeping by default, and the transcripts. Events are shared by all subscriptions that hold
// them, never copied. In a lossless subscription the credits of the publishers take the place of the first bound.
// [Options.MaxSubscriptions] bounds the number of subscriptions.
//
// The cost of a publish grows with the number of subscriptions: by one to three nanoseconds for each that wants one other
// process or no output, by some 20 for any other mismatch, and by some 100, one short lock, for a match, on a server CPU.
// It does not depend on who reads, and allocates once, whatever the number of subscriptions. Subscribe and
// Subscription.Close together take 0.2 ms where 10,000 are open.
//
// # What you may not assume
//
// That events of different processes arrive in any particular order, or that two subscribers see them in the same one.
//
// That an event is delivered to anyone: Publish does not say who got it, and an event published while Subscribe or Close
// runs may or may not arrive.
//
// That events are private copies: a received event, with the bytes it points to, is read-only, and a publisher gives up
// the bytes it publishes for good.
//
// That the size of lifecycle events is bounded but for their transcripts: the bus counts the others, it does not weigh
// them.
//
// That process ids are unique across sessions: filter by session too where a bus serves more than one.
package bus
