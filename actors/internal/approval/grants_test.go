package approval

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/policy"
)

func TestTheOldestGrantIsForgotten(t *testing.T) {
	sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{})
	pid, err := sys.Spawn("grants", func(ctx *system.Context) {
		if _, ok := ctx.Message().(string); !ok {
			return
		}
		var g grants
		for n := range maxGrants + 1 {
			g.add(ctx, &question{consults: []protocol.Consult{{Plan: policy.Plan{CacheKey: fmt.Sprint(n)}}}}, true, time.Hour)
		}
		g.add(ctx, &question{consults: []protocol.Consult{{Plan: policy.Plan{CacheKey: "2"}}}}, true, 0) // again
		ctx.Respond([]bool{len(g.all) == maxGrants, len(g.keys) == maxGrants, !g.has()("0"), g.has()("1"), g.has()("2"), g.has()(fmt.Sprint(maxGrants))})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := system.Ask[[]bool](t.Context(), sys, pid, "go"); err != nil || slices.Contains(got, false) {
		t.Errorf("%v, %v", got, err)
	}
	if err := sys.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
