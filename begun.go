package execbus

import "context"

// begunKey is the key of what WithBegun keeps in a context.
type begunKey struct{}

// WithBegun returns a context for one call of a session. The call runs begun as soon as it has its place: calls of which
// one began before the other take effect in that order, however long each of them waits. A call that is refused before
// that does not run it. It is for doors that must keep an order and not wait for the answers; it must return at once.
func WithBegun(ctx context.Context, begun func()) context.Context {
	return context.WithValue(ctx, begunKey{}, begun)
}

// begun says that the call of a context has its place.
func begun(ctx context.Context) {
	if told, ok := ctx.Value(begunKey{}).(func()); ok {
		told()
	}
}
