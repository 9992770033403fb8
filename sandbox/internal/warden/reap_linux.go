package warden

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/execbus/execbus/sandbox/internal/tree"
)

// reapPause is the time between two searches for dead orphans. They are zombies until the next search.
const reapPause = 100 * time.Millisecond

// reap reaps dead orphans. Between two searches the signal of a dead child wakes nobody.
func reap(forest *tree.Forest) {
	died := make(chan os.Signal, 1)
	for {
		signal.Notify(died, syscall.SIGCHLD)
		forest.ReapOrphans()
		<-died
		signal.Stop(died)
		<-time.After(reapPause)
	}
}
