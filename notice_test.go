package execbus

import (
	"log/slog"
	"testing"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

func TestANoticeOfTheSpawnerIsPublished(t *testing.T) {
	r := &Runtime{around: actors.Dependencies{Bus: bus.New(bus.Options{}), Logger: slog.New(slog.DiscardHandler)}}
	defer r.around.Bus.Close()
	events, err := r.around.Bus.Subscribe(bus.Filter{Kinds: []messages.EventKind{messages.KindExecNotice}}, bus.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.notice("less is claimed")
	event, err := events.Next(t.Context())
	if notice, ok := event.(messages.ExecNotice); err != nil || !ok || notice.Text != "less is claimed" || notice.At.IsZero() {
		t.Errorf("%+v, %v", event, err)
	}
}
