package actors

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/messages"
)

// deliberate crashes whatever actor it is sent to.
type deliberate struct{}

// witness knows the living actors of a system, and crashes them on demand.
type witness struct {
	mu     sync.Mutex // actors run beside each other, and the test beside them
	living map[string]*system.PID
}

// before is for system.Options.
func (w *witness) before(self *system.PID, message any) {
	switch m := message.(type) {
	case deliberate:
		panic("deliberate")
	case protocol.Request:
		if resize, ok := m.Message.(messages.Resize); ok && resize.Size == deadly {
			panic("deadly")
		}
	case system.Started:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.living[self.Id] = self
	case system.Terminated: // a parent is told of each child, unless it is ending itself: then its own parent is
		w.mu.Lock()
		defer w.mu.Unlock()
		maps.DeleteFunc(w.living, func(name string, _ *system.PID) bool {
			return name == m.PID.Id || strings.HasPrefix(name, m.PID.Id+"/")
		})
	}
}

// actors are those whose name contains part.
func (w *witness) actors(part string) []*system.PID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(w.living)), func(pid *system.PID) bool { return !strings.Contains(pid.Id, part) })
}
