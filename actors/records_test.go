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

	"github.com/execbus/execbus/bus"
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
		page := request[*messages.OutputPage](h, s.supervisor, test.read)
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
	wantError(t, "a read behind the end", err, messages.ErrOutputUnretained)
}

// bare is a supervisor without a system, for its pure parts.
func bare() *supervisor {
	v := &supervisor{entries: map[messages.ProcessID]*entry{}, expiry: &Timer{}}
	v.config.DeterministicIDs = true
	return v
}

// recordOf makes a record with so many bytes of output, half of them unread.
func recordOf(id, size int) *record {
	r := &record{info: messages.ProcessInfo{Process: messages.ProcessID(id)}, output: newOutput()}
	r.output.keep(messages.Stdout, make([]byte, size))
	return r
}

func TestRecordsAreBoundedByNumber(t *testing.T) {
	v := bare()
	for id := 1000; id < 1000+maxRecords+6; id++ {
		if got := v.reserve(); got != messages.ProcessID(id) {
			t.Fatalf("id %d, want %d", got, id)
		}
		v.remember(recordOf(id, 0))
	}
	if len(v.records) != maxRecords || v.record(1005) != nil || v.record(1006) == nil {
		t.Errorf("%d records, from %d", len(v.records), v.records[0].info.Process)
	}
}

func TestRecordsAreBoundedByBytes(t *testing.T) {
	v := bare()
	const size = 900 << 10
	for id := range 30 {
		v.remember(recordOf(1000+id, size))
		var held int64
		for _, r := range v.records {
			held += r.output.weight()
		}
		if held > maxRecordBytes || held != v.recordBytes {
			t.Fatalf("%d bytes in %d records, counted %d", held, len(v.records), v.recordBytes)
		}
	}
	if n := len(v.records); n < maxRecordBytes/(2*size)-1 || v.records[n-1].info.Process != 1029 {
		t.Errorf("%d records", n)
	}
	for len(v.records) > 0 {
		v.forgetOldest()
	}
	if v.recordBytes != 0 {
		t.Errorf("%d bytes in no record", v.recordBytes)
	}
}

// refusing is a spawner that starts nothing.
type refusing struct{}

func (refusing) Spawn(context.Context, ptyio.Launch) (ptyio.Child, error) {
	return nil, messages.ErrNoSuchProgram
}

func (refusing) Can(*ptyio.Confinement) (ptyio.Assurance, error) { return ptyio.Isolated, nil }

func (refusing) Close() error { return nil }

func TestRecordsAreForgottenAfterTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := NewSystem(slog.New(slog.DiscardHandler))
		h := &host{t: t, system: system, bus: bus.New(bus.Options{})}
		var err error
		h.runtime, err = system.StartRuntime(Surroundings{Bus: h.bus, Spawner: refusing{}, Logger: slog.New(slog.DiscardHandler), MaxProcesses: 1})
		if err != nil {
			t.Fatal(err)
		}
		supervisor := request[*PID](h, h.runtime, OpenSession{SessionConfig{Dir: "/", MaxProcesses: 1, DeterministicIDs: true}})
		remembered := func() string {
			var ids []string
			for _, info := range request[messages.Processes](h, supervisor, messages.ListProcesses{Records: true}) {
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
		time.Sleep(recordAge / 2)
		exec()
		if got := remembered(); got != "1000 1001" {
			t.Errorf("remembered: %s", got)
		}
		time.Sleep(recordAge/2 - time.Second)
		if got := remembered(); got != "1000 1001" {
			t.Errorf("just before its age: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := remembered(); got != "1001" {
			t.Errorf("just after its age: %s", got)
		}
		_, err = ask[any](h, supervisor, messages.Poll{Process: 1000})
		if gone := wantError(t, "a poll", err, messages.ErrUnknownProcess); gone.Code != messages.CodeUnknownProcess {
			t.Errorf("%+v", gone)
		}
		time.Sleep(recordAge / 2)
		if got := remembered(); got != "" {
			t.Errorf("after all ages: %s", got)
		}
		exec()
		time.Sleep(2 * recordAge)
		if got := remembered(); got != "" {
			t.Errorf("the timer was not set again: %s", got)
		}
		request[messages.Done](h, h.runtime, CloseRuntime{})
		if err := system.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestLongTextsAreClipped(t *testing.T) {
	long := strings.Repeat("ä", maxLabel)
	if got := clip(long); len(got) > maxLabel+len("…") || !strings.HasPrefix(long, strings.TrimSuffix(got, "…")) || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %.20q…", len(got), got)
	}
	if got := clip("short"); got != "short" {
		t.Errorf("%q", got)
	}
}
