package execbus

import "context"

// begunKey is the key under which WithBegun keeps its function in a context.
type begunKey struct{}

// WithBegun returns a context for one call of a session. The session runs begun once it has received the call. A host that makes its
// next call after begun keeps the order of its calls without waiting for their answers: requests to one process take effect in
// this order, and questions are asked in it. Commands still start side by side, in any order. A call that is refused before the
// session receives it does not run begun. begun must return at once.
func WithBegun(ctx context.Context, begun func()) context.Context {
	return context.WithValue(ctx, begunKey{}, begun)
}

// begun says that the call of a context has its place in the order.
func begun(ctx context.Context) {
	if told, ok := ctx.Value(begunKey{}).(func()); ok {
		told()
	}
}
