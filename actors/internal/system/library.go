package system

import (
	"log/slog"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/asynkron/protoactor-go/extensions"
	cmap "github.com/orcaman/concurrent-map"
)

const (
	// registryBuckets is the number of maps in the table of actors. Each has 32 parts.
	registryBuckets = 8
	// localAddress is the library's address of this process.
	localAddress = "nonhost"
)

// newActorSystem makes the library's system piece by piece. Its own function makes a table of actors with 1,024 times
// 32 maps: that is 67,000 allocations, 4 ms and 2.9 MB at each start, and 12 MiB after some ten thousand names. The library
// has no option for it.
func newActorSystem(logger *slog.Logger) *actor.ActorSystem {
	configure := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger })
	s := &actor.ActorSystem{Config: actor.Configure(configure), Extensions: extensions.NewExtensions()}
	if !setLogger(s, logger) {
		return actor.NewActorSystem(configure)
	}
	registry := &actor.ProcessRegistryValue{ActorSystem: s, Address: localAddress, LocalPIDs: &actor.SliceMap{}}
	for range registryBuckets {
		registry.LocalPIDs.LocalPIDs = append(registry.LocalPIDs.LocalPIDs, cmap.New())
	}
	s.ProcessRegistry = registry
	s.Root = actor.NewRootContext(s, actor.EmptyMessageHeader)
	s.Guardians = actor.NewGuardians(s)
	s.EventStream = eventstream.NewEventStream()
	s.DeadLetter = actor.NewDeadLetter(s)
	s.Extensions.Register(actor.NewMetrics(s, nil))
	s.ProcessRegistry.Add(actor.NewEventStreamProcess(s), "eventstream")
	return s
}

// setLogger sets the one field that the library needs and does not let others set. It reports whether there is such a field.
func setLogger(s *actor.ActorSystem, logger *slog.Logger) bool {
	field := reflect.ValueOf(s).Elem().FieldByName("logger")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*slog.Logger]() {
		return false
	}
	reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Set(reflect.ValueOf(logger))
	return true
}
