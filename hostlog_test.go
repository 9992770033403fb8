package execbus

import (
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
	flush := func() {
		flushed := make(chan struct{})
		q.Submit(func() { close(flushed) })
		<-flushed
	}
	logger.Info("unwanted")
	logger.With("a", 1).WithGroup("g").With("b", 2).Warn("wanted", "c", 3)
	flush()
	level.Set(slog.LevelDebug)
	logger.Debug("wanted now")
	flush()
	level.Set(slog.LevelError)
	logger.Warn("unwanted since just now")
	hostcode.CloseAll(time.Minute, q)
	if n := strings.Count(text.String(), "\n"); n != 2 || !strings.Contains(text.String(), "msg=wanted a=1 g.b=2 g.c=3\n") ||
		!strings.Contains(text.String(), `msg="wanted now"`) {
		t.Errorf("the log is\n%s", text.String())
	}
	if n := q.Dropped(); n != 0 {
		t.Errorf("%d records were dropped", n)
	}
}
