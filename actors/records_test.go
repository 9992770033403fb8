package actors

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/internal/label"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestARecordIsReadAsTheProcessWas(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	done := s.exec(shell("printf 0123456789; printf err >&2; exit 3"))
	s.ended(done.Process)
	at := int64(4)
	for _, test := range []struct {
		read messages.ReadOutput
		want string
	}{
		{messages.ReadOutput{Offset: &at, Max: 3}, "456"},
		{messages.ReadOutput{AfterSeq: new(uint64)}, "0123456789err"},
		{messages.ReadOutput{Tail: 5}, "89err"},
		{messages.ReadOutput{Tail: 5_000}, "0123456789err"},
	} {
		test.read.Process = done.Process
		page := must[*messages.OutputPage](h, s.supervisor, test.read)
		var got strings.Builder
		for _, c := range page.Chunks {
			got.Write(c.Bytes)
		}
		if text := got.String(); len(text) != len(test.want) || !page.Ended || page.Total != 13 || page.LastSeq == 0 || len(page.Retained) != 1 {
			t.Errorf("%+v: %q, %+v", test.read, text, page)
		}
	}
	beyond := int64(14)
	_, err := ask[any](h, s.supervisor, messages.ReadOutput{Process: done.Process, Offset: &beyond})
	wantError(t, "a read after the end", err, messages.ErrOutputUnretained)
}

// refusing is a spawner that starts nothing.
type refusing struct{}

func (refusing) Spawn(context.Context, ptyio.Launch) (ptyio.Child, error) {
	return nil, messages.ErrNoSuchProgram
}

func (refusing) Resolver() ptyio.Resolver { return ptyio.Local() }
func (refusing) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	return ptyio.Enclosed(c), nil
}

func (refusing) Can(ptyio.Launch) (messages.Enforcement, error) {
	return messages.Enforcement{Level: messages.AssuranceIsolated}, nil
}
func (refusing) Close() error { return nil }

func TestRecordsAreForgottenAfterTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := system.NewSystem(slog.New(slog.DiscardHandler), system.Options{})
		h := &host{t: t, system: sys, bus: bus.New(bus.Options{})}
		var err error
		h.runtime, err = StartRuntime(sys, shared.Dependencies{Bus: h.bus, Spawner: refusing{}, Logger: slog.New(slog.DiscardHandler), MaxProcesses: 1})
		if err != nil {
			t.Fatal(err)
		}
		supervisor := must[*system.PID](h, h.runtime, OpenSession{shared.SessionConfig{Dir: "/", MaxProcesses: 1, DeterministicIDs: true}})
		remembered := func() string {
			var ids []string
			for _, info := range must[messages.Processes](h, supervisor, protocol.ListProcesses{Records: true}) {
				ids = append(ids, fmt.Sprint(info.Process))
			}
			return strings.Join(ids, " ")
		}
		exec := func() {
			_, err := ask[any](h, supervisor, messages.ExecCommand{Argv: []string{"x"}})
			wantError(t, "exec", err, messages.ErrSpawnFailed)
			synctest.Wait()
		}
		exec()
		time.Sleep(recordsLast / 2)
		exec()
		if got := remembered(); got != "1000 1001" {
			t.Errorf("remembered: %s", got)
		}
		time.Sleep(recordsLast/2 - time.Second)
		if got := remembered(); got != "1000 1001" {
			t.Errorf("just before its age: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := remembered(); got != "1001" {
			t.Errorf("just after its age: %s", got)
		}
		_, err = ask[any](h, supervisor, messages.Poll{Process: 1000})
		if gone := wantError(t, "a poll", err, messages.ErrUnknownProcess); gone.Code != messages.ErrUnknownProcess {
			t.Errorf("%+v", gone)
		}
		time.Sleep(recordsLast / 2)
		if got := remembered(); got != "" {
			t.Errorf("after all ages: %s", got)
		}
		exec()
		time.Sleep(2 * recordsLast)
		if got := remembered(); got != "" {
			t.Errorf("the timer was not set again: %s", got)
		}
		must[protocol.Done](h, h.runtime, CloseRuntime{})
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestLongTextsAreClipped(t *testing.T) {
	long := strings.Repeat("ä", label.Most)
	if got := label.Clip(long); len(got) > label.Most+len("…") || !strings.HasPrefix(long, strings.TrimSuffix(got, "…")) || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %.20q…", len(got), got)
	}
	if got := label.Clip("short"); got != "short" {
		t.Errorf("%q", got)
	}
}
