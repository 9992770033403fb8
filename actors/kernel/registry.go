package kernel

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
)

// registryBuckets is how many of the library's table of actors are kept.
const registryBuckets = 8

// shrink makes that table small. It has 1024 times 32 maps, and each allocates at its first use: 12 MiB
// after some ten thousand names, and every actor and every call needs a new one.
func shrink(registry *actor.ProcessRegistryValue) {
	all := registry.LocalPIDs.LocalPIDs
	registry.LocalPIDs = &actor.SliceMap{LocalPIDs: slices.Clone(all[:registryBuckets])}
	for _, bucket := range all {
		if bucket.IsEmpty() { // Items starts a goroutine for each of its 32 maps
			continue
		}
		for name, process := range bucket.Items() {
			registry.LocalPIDs.GetBucket(name).Set(name, process)
		}
	}
}
