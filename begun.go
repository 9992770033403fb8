package execbus

import "context"

// begunKey is the key under which WithBegun keeps its function in a context.
type begunKey struct{}

// WithBegun returns a context for one call of a session. The call runs begun as soon as it has its place in the order of
// calls: the session receives a call that is made after that after this one, however long each of them waits. So what is done to one
// process is done in order, and questions come in order. Commands of different calls start side by side, in any order. A call that is
// refused earlier does not run begun. Use it to keep an order of calls without waiting for their answers. begun must return at once.
func WithBegun(ctx context.Context, begun func()) context.Context {
	return context.WithValue(ctx, begunKey{}, begun)
}

// begun says that the call of a context has its place in the order.
func begun(ctx context.Context) {
	if told, ok := ctx.Value(begunKey{}).(func()); ok {
		told()
	}
}
