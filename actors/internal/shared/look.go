package shared

import (
	"context"
	"errors"
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
)

// lookPatience is how long a lookup may take: a search of messages.MaxGrepTime, and the searches of others before it.
const lookPatience = 3 * messages.MaxGrepTime

// Look runs a lookup in a goroutine, and passes on its result once. The returned function ends it early.
func Look(lookup output.Lookup, done func(result any)) (end func()) {
	bound, cancel := context.WithTimeout(context.Background(), lookPatience)
	hostcode.Call[any]{Who: "the disk", Patience: time.Second, Do: func(ctx context.Context) (any, error) { return lookup(ctx), nil }}.Go(bound, func(result any, err error) {
		cancel()
		if err == nil {
			err, _ = result.(error)
		}
		if err != nil {
			result = lookError(err)
		}
		done(result)
	})
	return cancel
}

func lookError(err error) error {
	if typed, is := errors.AsType[*messages.Error](err); is {
		return typed
	}
	failure := &messages.Error{Code: messages.ErrRuntimeFailure, Op: "read output", Detail: err.Error()}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		failure.Detail = "the disk did not answer in time; try again later"
	}
	return failure
}
