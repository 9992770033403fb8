package process

import (
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
)

// From a process to itself, by timers and work.
type (
	deadline    struct{ call protocol.CallID }
	planned     struct{ *decision }
	spawnFailed struct {
		attempt int
		err     error
	}
	flushHeld    struct{ stream messages.Stream }
	dropOutput   struct{ attempt int }
	judgeNow     struct{ attempt int }
	runTimeout   struct{}
	runDrained   struct{}
	inputOverdue struct{ attempt int }
	// endOverdue says that a child which was asked to end, or was abandoned after that, has not ended in time.
	endOverdue struct {
		attempt   int
		abandoned bool
	}
	// wrote says how much of a write a child took.
	wrote struct {
		write uint64
		taken int
		err   error
	}
	// jobDone is the result of a call to a host's own child. It comes twice for a call that returns late.
	jobDone struct {
		attempt, job int
		err          error
	}
)
