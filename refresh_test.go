package execbus_test

import (
	"testing"

	"github.com/execbus/execbus"
)

// refreshed counts what it is told.
type refreshed struct {
	execbus.Spawner
	times int
}

func (r *refreshed) Refresh() { r.times++ }

func TestRefreshIsPassedOnToTheSpawner(t *testing.T) {
	inner, err := execbus.NewSpawner()
	if err != nil {
		t.Fatal(err)
	}
	spawner := &refreshed{Spawner: inner}
	rt, err := execbus.Start(execbus.Options{Spawner: spawner})
	if err != nil {
		t.Fatal(err)
	}
	rt.Refresh()
	if err := rt.Shutdown(t.Context()); err != nil || spawner.times != 1 {
		t.Errorf("%d times, %v", spawner.times, err)
	}
}
