package execbus_test

import (
	"context"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// A call says that it has its place before it is answered, and one that is refused before does not say it.
func TestACallTellsWhenItHasBegun(t *testing.T) {
	session := must(onWarden().OpenSession(execbus.SessionOptions{Dir: "/"}))
	defer func() { _ = session.Close(context.Background()) }()
	begun := make(chan struct{})
	ctx, cancel := context.WithCancel(execbus.WithBegun(t.Context(), func() { close(begun) }))
	answered := make(chan error, 1)
	go func() {
		_, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "60"}, Yield: new(30 * time.Second)})
		answered <- err
	}()
	<-begun
	select {
	case err := <-answered:
		t.Errorf("it was answered already: %v", err)
	default:
	}
	cancel()
	if err := <-answered; err == nil {
		t.Error("a cancelled call has a result")
	}
	if _, err := session.List(execbus.WithBegun(ctx, func() { t.Error("a refused call has begun") })); err == nil {
		t.Error("a context that has ended starts something")
	}
}
