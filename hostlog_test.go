package execbus

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/internal/hostcode"
)

func TestTheHostsLoggerGetsWhatItWants(t *testing.T) {
	t.Parallel()
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	var text strings.Builder
	q := hostcode.NewQueue()
	logger := newHostLogger(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: &level})), q)
	h := logger.Handler().(hostLog)
	flush := func() {
		flushed := make(chan struct{})
		q.Submit(func() { close(flushed) })
		<-flushed
	}
	settle := func() { // the host is asked again, and has answered
		h.level.age = 0
		h.level.ask(h.host)
		flush()
		h.level.age = time.Hour
	}
	settle()
	ctx := context.Background()
	if logger.Enabled(ctx, slog.LevelInfo) || !logger.Enabled(ctx, slog.LevelWarn) {
		t.Error("the level is not the host's")
	}
	logger.Info("unwanted")
	logger.With("a", 1).WithGroup("g").With("b", 2).Warn("wanted", "c", 3)
	level.Set(slog.LevelDebug)
	settle()
	logger.Debug("wanted now")
	flush()
	level.Set(slog.LevelError)
	logger.Warn("unwanted since just now") // the host itself is asked, too
	settle()
	if logger.Enabled(ctx, slog.LevelWarn) {
		t.Error("a level that was raised is not noticed")
	}
	hostcode.CloseAll(time.Minute, q)
	if n := strings.Count(text.String(), "\n"); n != 2 || !strings.Contains(text.String(), "msg=wanted a=1 g.b=2 g.c=3\n") ||
		!strings.Contains(text.String(), `msg="wanted now"`) {
		t.Errorf("the log is\n%s", text.String())
	}
	if n := q.Dropped(); n != 0 {
		t.Errorf("%d records were dropped", n)
	}
}
