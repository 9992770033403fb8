package system_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

func Example() {
	ctx := context.Background()
	sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{})
	greeter, err := sys.Spawn("greeter", func(ctx *system.Context) {
		if name, ok := ctx.Message().(string); ok {
			ctx.Respond("hello " + name)
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(system.Ask[string](ctx, sys, greeter, "world"))
	fmt.Println(sys.Shutdown(ctx))
	_, err = system.Ask[string](ctx, sys, greeter, "anyone")
	fmt.Println(errors.Is(err, messages.ErrClosed))
	// Output:
	// hello world <nil>
	// <nil>
	// true
}
