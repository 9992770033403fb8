package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/messages"
)

func Example() {
	ctx := context.Background()
	system := kernel.NewSystem(slog.New(slog.DiscardHandler), kernel.Options{})
	greeter, err := system.Spawn("greeter", func(ctx *kernel.Context) {
		if name, ok := ctx.Message().(string); ok {
			ctx.Respond("hello " + name)
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(kernel.Ask[string](ctx, system, greeter, "world"))
	fmt.Println(system.Shutdown(ctx))
	_, err = kernel.Ask[string](ctx, system, greeter, "anyone")
	fmt.Println(errors.Is(err, messages.ErrClosed))
	// Output:
	// hello world <nil>
	// <nil>
	// true
}
