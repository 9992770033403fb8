package system

import (
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// The library may get other fields and another table of actors; ours must have the same.
func TestOurSystemHasWhatTheLibrarysHas(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	configure := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger })
	theirs, ours := actor.NewActorSystem(configure), newActorSystem(logger)
	if ours.Logger() != logger {
		t.Error("it has no logger")
	}
	for _, part := range []struct {
		ours, theirs any
		without      []string
	}{
		{ours, theirs, []string{"ID", "stopper"}}, // of remote actors, and of a Shutdown that we do not call
		{ours.ProcessRegistry, theirs.ProcessRegistry, nil},
	} {
		ours, theirs := reflect.ValueOf(part.ours).Elem(), reflect.ValueOf(part.theirs).Elem()
		for i := range theirs.NumField() {
			name := theirs.Type().Field(i).Name
			if ours.Field(i).IsZero() != (theirs.Field(i).IsZero() || slices.Contains(part.without, name)) {
				t.Errorf("%s.%s is %v, and theirs is %v", theirs.Type(), name, ours.Field(i), theirs.Field(i))
			}
		}
	}
	if ours.ProcessRegistry.Address != theirs.ProcessRegistry.Address {
		t.Errorf("the address is %q", theirs.ProcessRegistry.Address)
	}
	names := func(s *actor.ActorSystem) (names []string) {
		for _, bucket := range s.ProcessRegistry.LocalPIDs.LocalPIDs {
			if !bucket.IsEmpty() { // Keys starts goroutines
				names = append(names, bucket.Keys()...)
			}
		}
		slices.Sort(names)
		return names
	}
	if ours, theirs := names(ours), names(theirs); !slices.Equal(ours, theirs) {
		t.Errorf("registered are %q instead of %q", ours, theirs)
	}
}

func TestASystemIsMadeOfFewPieces(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	if n := testing.AllocsPerRun(10, func() { newActorSystem(logger) }); n > 2000 { // the library's own are 67,000
		t.Errorf("%.0f allocations", n)
	}
}
