package bus_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// This subscriber reads late. It has lost the oldest output and finds a gap in its place; it gets all lifecycle events.
func Example() {
	b := bus.New(bus.Options{})
	sub, err := b.Subscribe(bus.Filter{Processes: []messages.ProcessID{1000}}, bus.SubscribeOptions{Outputs: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sub.Close()

	from := messages.Origin{Session: "s1", Process: 1000}
	b.Publish(messages.ExecStarted{Origin: from, Argv: []string{"seq", "4"}})
	for i, line := range []string{"1\n", "2\n", "3\n", "4\n"} {
		b.Publish(messages.OutputDelta{Origin: from, Offset: int64(2 * i), Bytes: []byte(line)})
	}
	b.Publish(messages.ExecEnded{Origin: from, Total: 8})
	b.Close()

	for ev, err := range sub.All(context.Background()) {
		switch ev := ev.(type) {
		case messages.ExecStarted:
			fmt.Println("started", ev.Argv)
		case messages.Gap:
			fmt.Printf("lost bytes %d to %d\n", ev.First, ev.End)
		case messages.OutputDelta:
			fmt.Printf("output %q\n", ev.Bytes)
		case messages.ExecEnded:
			fmt.Println("ended")
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// started [seq 4]
	// lost bytes 0 to 4
	// output "3\n"
	// output "4\n"
	// ended
	// read events: the bus is closed
}

// The credit tells a publisher when every lossless subscriber is done with the published output.
func ExampleBus_PublishOutput() {
	b := bus.New(bus.Options{})
	defer b.Close()
	sub, err := b.Subscribe(bus.Filter{}, bus.SubscribeOptions{Lossless: true})
	if err != nil {
		fmt.Println(err)
		return
	}

	credit := bus.NewCredit(func() { fmt.Println("the buffer is free") })
	b.PublishOutput(messages.OutputDelta{Bytes: []byte("hello")}, credit)
	credit.Release()

	ev, err := sub.Next(context.Background())
	fmt.Println(ev.Kind(), err)
	sub.Close() // the next call of Next would do it, too
	_, err = sub.Next(context.Background())
	fmt.Println(errors.Is(err, messages.ErrClosed))
	// Output:
	// output_delta <nil>
	// the buffer is free
	// true
}
