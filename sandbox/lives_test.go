//go:build linux

package sandbox_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// go test ./sandbox -run RandomLives -lives 10m -timeout 0 takes three times as long.
var lives = flag.Duration("lives", 0, "how long to start and end random trees with each spawner, `TIME`; by default 30 trees")

// life returns a script whose processes fork all the time, and of which each ends when it is asked. With orphans some leave the
// session and lose their parents, where the direct spawner does not find them.
func life(dice *rand.Rand, orphans bool, depth int) string {
	if depth == 0 {
		return []string{"sleep 1000", "exec sleep 1000", "while :; do sleep 0.001; done", "while :; do (exit 0); done",
			"while :; do sleep 0.001 | sleep 0.002; done", "while :; do sleep 1000 & kill $!; wait; done",
			fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); done; sleep 1000", dice.IntN(3000))}[dice.IntN(7)]
	}
	a, b := life(dice, orphans, depth-1), life(dice, orphans, depth-1)
	forms := []string{"(%s) & %s", "(%s) & (%s) & wait", "{ %s; } | { %s; }", "set -m; (%s) & %s", "(set -m; (%s) & wait) & %s"}
	if orphans {
		forms = append(forms, "((%s) &) ; %s", "(setsid -w bash -c '%s' &) ; %s", "setsid bash -c '%s' & %s")
	}
	return fmt.Sprintf(forms[dice.IntN(len(forms))], a, b)
}

func TestRandomLivesEndWhenTheyAreAsked(t *testing.T) {
	for _, kind := range []string{"warden", "direct", "isolated"} {
		t.Run(kind, func(t *testing.T) {
			spawner, e := newSpawner(t, sandbox.Options{Direct: kind == "direct"}), ptyio.Enclosure(nil)
			if kind == "isolated" {
				spawner, e = isolating(t, workspace(t.TempDir()))
			}
			seed, until := rand.Uint64(), time.Now().Add(*lives)
			var all sync.WaitGroup
			for worker := range 3 {
				all.Go(func() {
					dice := rand.New(rand.NewPCG(seed, uint64(worker)))
					n := 0
					for ; (n < 10 || time.Now().Before(until)) && !t.Failed(); n++ {
						script := life(dice, kind != "direct", dice.IntN(3))
						if err := live(spawner, e, script, dice); err != nil {
							t.Errorf("%s: %v", script, err)
						}
					}
					t.Logf("%d lives", n)
				})
			}
			all.Wait()
		})
	}
}

// live starts a tree, and ends it at some time with a grace that nothing may wait for.
func live(spawner ptyio.Spawner, e ptyio.Enclosure, script string, dice *rand.Rand) error {
	l, ended := bash(dice.IntN(2) == 0, script), make(chan messages.TreeReport, 1)
	l.Sandbox, l.Grace = e, new(time.Hour) // what the leader leaves behind gets this one
	l.Events = func(event ptyio.Event) {
		switch event := event.(type) {
		case ptyio.Output:
			event.Release()
		case ptyio.TreeEnded:
			ended <- event.TreeReport
		}
	}
	child, err := spawner.Spawn(context.Background(), l)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(dice.IntN(20_000)) * time.Microsecond)
	child.EndTree(time.Hour)
	select {
	case report := <-ended:
		if len(report.Survivors) > 0 {
			return fmt.Errorf("%+v", report)
		}
		return nil
	case <-time.After(patience):
		defer child.EndTree(0)
		return fmt.Errorf("pid %d and what it has started do not end when they are asked", child.PID())
	}
}
