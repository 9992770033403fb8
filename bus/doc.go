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
//			fmt.Printf("[%s]\n", ev) // lost bytes 10 to 20 of output in 2 events
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
// It loses output and inputs and nothing else, and it is told exactly what it lost:
//
//   - [messages.OutputDelta] and [messages.TerminalInteraction], called outputs and inputs here, share one queue. When it is
//     full the oldest of them goes. In its place stands a [messages.Gap] with the origin of the first lost event, the
//     range of lost output and the number of deltas, and the number of lost inputs with their bytes. Later losses of the
//     same process extend the gap until it is read; but output never extends a gap of inputs alone. So at most two gaps of
//     a process are waiting, as long as its output is published without holes. Every byte and every input is delivered or
//     is in exactly one gap. An input that is larger than the whole bound is lost, too, with all that waits before it.
//   - A gap stands where the first lost event stood: before every later event of that process, also where all its other
//     events have been read. An event that was published between two lost ones therefore comes behind their gap.
//   - Every other event, called a lifecycle event here, is kept. It counts, and it weighs what [messages.Event] says: the
//     bytes of its arguments, texts, questions, transcript. When 4,096 of them wait and one more is published, or when they
//     and the gaps would weigh more than 64 MiB, the subscription ends: what was queued before can still be read, then Next
//     answers with an error that matches messages.ErrSlowSubscriber and contains [SubscribeOptions.Name]. The same happens
//     when 4,096 gaps wait and one more is needed. Where no lifecycle event and no gap waits, one is let in however heavy
//     it is: otherwise nobody could ever get it.
//
// # Lossless subscriptions
//
// With [SubscribeOptions.Lossless] no output is ever dropped. Instead the subscription takes part in the publisher's flow
// control: each queued output event holds the [Credit] it was published with, until the subscriber asks for the next
// event. A publisher that may have only so many credits outstanding then waits for the slowest lossless subscriber. An
// event that is made of the bytes of several batches holds the credits of all of them; a publisher that holds bytes back
// keeps their credit until they are out.
//
// A lossless subscriber that stops reading makes the process wait, as a full pipe would. Close the subscription when nobody
// reads it any more; that releases all its holds at once.
//
// Lifecycle events carry no credit; their limits hold here too and free the process in the end. Inputs carry none either,
// since it is not the process that makes them, and holding back a person who types frees nobody. As they must not be lost
// here they count and weigh as lifecycle events. Output that is published without a credit cannot be held back; once it
// finds the queue full it ends the subscription in the same way, because it must not be lost in silence.
//
// # Who is listening
//
// [Bus.Listening] tells a publisher that needs an answer whether anybody has asked for such events by their kind. Only a
// subscription that names the kind counts: one that takes everything, to log or to show it, promises no answer.
//
// # Ending
//
//   - Subscription.Close: the queue is discarded, Next answers messages.ErrClosed at once. A subscription that is to end
//     with a context is closed by context.AfterFunc(ctx, sub.Close).
//   - Subscription.End: credits are released at once; what is queued can still be read, then comes messages.ErrClosed.
//   - Bus.CloseSession: the same for all subscriptions that name this session and no other.
//   - Bus.Close: all credits are released at once; what is queued can still be read, then comes messages.ErrClosed.
//   - Overrun, see above: credits are released at once; what is queued can still be read, then messages.ErrSlowSubscriber.
//
// A waiting Next returns in each of these cases. If its own context ends it takes nothing, and leaves the queued events to
// the other readers.
//
// # Bounds
//
// One subscription holds at most
//
//   - SubscribeOptions.Outputs outputs and inputs with SubscribeOptions.OutputBytes bytes (default 1,024 and 4 MiB); of
//     outputs the capacity of their bytes counts, of inputs their weight,
//   - 4,096 lifecycle events and 4,096 gaps, which together weigh at most 64 MiB, or are a single one,
//
// and below 2 MiB of bookkeeping. Events and their bytes are shared by all subscriptions that hold them, never copied. In a
// lossless subscription the publishers' credits replace the first bound. [Options.MaxSubscriptions] bounds
// the number of subscriptions.
//
// The cost of a publish grows with the number of subscriptions to its session and of those that name no session; those of
// other sessions cost nothing. On a server CPU they are found in some 40 nanoseconds; each one that wants one other
// process or no output takes one nanosecond, any other mismatch some 20, and a match, one short lock, 60 to 100. It does
// not depend on who reads, and allocates once, whatever the number of subscriptions. Subscribe and Subscription.Close
// together take 1 to 3 microseconds, and 0.1 ms where 10,000 others have no session or share one: Close copies their list.
//
// # What you must not assume
//
// That events of different processes arrive in any particular order, or that two subscribers see them in the same one.
//
// That an event is delivered to anyone: Publish does not say who got it, and an event published while Subscribe or Close
// runs may or may not arrive.
//
// That events are private copies: subscribers share an event and its bytes with each other and with the publisher, and none of
// them may change it.
//
// That the bounds count all memory exactly: what several events share, such as the name of a call, weighs with each
// lifecycle event and each gap, and not at all with output.
//
// That a gap always means lost output: if Deltas is 0, First and End have no meaning.
//
// That process ids are unique across sessions: filter by session too where a bus serves more than one.
package bus
