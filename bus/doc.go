// Package bus carries events from publishers to subscribers. Publishing never waits for a subscriber.
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
// A subscriber gets every event that passes its [Filter] and whose Publish began after Subscribe had returned. The events of
// one process arrive in the order in which they were published, if only one goroutine at a time publishes for that process.
//
// Each subscription has a queue of its own. Publishing puts the event into the queues that want it and returns. Read with
// [Subscription.Next] or [Subscription.All], from any goroutine. Publishing wakes a reader of each subscription that waits in Next.
//
// # A subscriber that does not read
//
// A subscriber that does not read loses outputs, inputs and connections, and nothing else. It is told exactly what it lost:
//
//   - [messages.OutputDelta], [messages.TerminalInteraction] and [messages.NetworkConnection], called outputs, inputs and
//     connections here, share one queue. When the queue is full, the oldest of them is dropped. A [messages.Gap] takes its
//     place. The gap has the origin of the first lost event, the range of lost output, the number of lost deltas, the number
//     and bytes of lost inputs, and the number of lost connections, which a command can make as fast as output. Later losses
//     of the same process extend the gap until it is read, except that lost output never extends a gap that has only inputs.
//     So at most two gaps of a process wait, if the process's output is published without holes. Every byte and every input
//     is either delivered or in exactly one gap. An input that is larger than the whole bound is lost, and so are all
//     outputs and inputs that wait before it.
//   - A gap stands where the first lost event stood. So it comes before every later event of that process, even if all other
//     events of the process have been read. An event that was published between two lost ones comes after their gap.
//   - Every other event, called a lifecycle event here, is kept. Each has a weight, which [messages.Event] defines: the
//     bytes of its arguments, texts, questions, transcript. The subscription ends if 4,096 lifecycle events wait and one
//     more is published, or if lifecycle events and gaps would together weigh more than 64 MiB, or if 4,096 gaps wait and
//     one more is needed. The events that were queued before can still be read. After those, Next answers with an error that
//     matches messages.ErrSlowSubscriber and contains [SubscribeOptions.Name]. If no lifecycle event and no gap waits, the
//     next one is kept however heavy it is: otherwise no subscriber could ever get it.
//
// # Lossless subscriptions
//
// With [SubscribeOptions.Lossless] no output is ever dropped. Instead the subscription takes part in the publisher's flow
// control: each queued output event holds the [Credit] that it was published with, until the subscriber asks for the next
// event. So a publisher with a limited number of credits waits for the slowest lossless subscriber. An event that is made of
// the bytes of several batches holds the credits of all of them. A publisher that holds bytes back keeps their credit until
// it has published them.
//
// A lossless subscriber that stops reading makes the process wait, as a full pipe would. Close the subscription when nobody
// reads it any more; that releases all its holds at once.
//
// Lifecycle events carry no credit. Their limits hold for lossless subscriptions too: a subscription that exceeds them ends,
// and the process goes on. Inputs carry no credit either: the process does not make them, and nothing is gained if the
// typing person has to wait. In a lossless subscription inputs must not be lost, so they count and weigh as lifecycle
// events. So do connections, but only up to half of those limits: a command makes them, and must not be able to end a
// subscription. More of them are lost to a gap. Output that is published without a credit cannot be held back. If it finds the queue full, the subscription ends
// in the same way: no output may be lost silently.
//
// # Who is listening
//
// [Bus.Listening] tells a publisher that needs an answer whether any subscription asks for such events by their kind. Only a
// subscription that names the kind counts. A subscription that takes every kind, to log events or to show them, promises no
// answer, and neither does one with SubscribeOptions.Observer.
//
// # Ending
//
//   - Subscription.Close: the queue is discarded, and Next answers messages.ErrClosed at once. To end a subscription with a
//     context, use context.AfterFunc(ctx, sub.Close).
//   - Subscription.End: credits are released at once; queued events can still be read, then comes messages.ErrClosed.
//   - Bus.CloseSession: the same for all subscriptions that name this session and no other.
//   - Bus.Close: all credits are released at once; queued events can still be read, then comes messages.ErrClosed.
//   - Overrun, see above: credits are released at once; queued events can still be read, then comes
//     messages.ErrSlowSubscriber.
//
// A waiting Next returns in each of these cases. If its own context ends, it takes nothing and leaves the queued events to
// the other readers.
//
// # Bounds
//
// One subscription holds at most
//
//   - SubscribeOptions.Outputs outputs and inputs with SubscribeOptions.OutputBytes bytes (default 1,024 and 4 MiB); outputs
//     count with the capacity of their bytes, inputs with their weight,
//   - 4,096 lifecycle events and 4,096 gaps, which together weigh at most 64 MiB, or a single one of any weight,
//
// and below 2 MiB of bookkeeping. Events and their bytes are shared by all subscriptions that hold them, never copied. In a
// lossless subscription the publishers' credits replace the first bound. [Options.MaxSubscriptions] bounds the number of
// subscriptions.
//
// The cost of a publish grows with the number of subscriptions to its session plus those that name no session. Subscriptions
// to other sessions cost nothing. On a server CPU it takes some 40 nanoseconds to find the subscriptions. Each mismatch takes
// some 20, and a match, which takes one short lock, 60 to 100. Each of the readers that it wakes takes some 300 more. A publish
// allocates once. Subscribe and Subscription.Close together take 2 microseconds, or 2 milliseconds beside subscriptions to 10,000
// other sessions, because each copies the index of sessions.
//
// # What you must not assume
//
// That events of different processes arrive in any particular order, or that two subscribers see them in the same order.
//
// That an event is delivered to anyone: Publish does not say who got it, and an event that is published while Subscribe or
// Close runs may or may not arrive.
//
// That events are private copies: subscribers share an event and its bytes with each other and with the publisher, and none
// of them may change it.
//
// That the bounds count all memory exactly: memory that several events share, such as the name of a call, weighs with each
// lifecycle event and each gap, and not at all with output.
//
// That a gap always means lost output: if Deltas is 0, First and End have no meaning.
//
// That process ids are unique across sessions: filter by session too if the bus serves more than one.
package bus
