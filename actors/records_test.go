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

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
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

// recordOf makes a record with so many bytes of output, half of them unread.
func recordOf(id, size int) *record {
	r := &record{info: messages.ProcessInfo{Process: messages.ProcessID(id)}, output: output.New()}
	for range size / (8 << 10) {
		delta := make([]byte, 8<<10)
		r.output.Log.Append(messages.StreamStdout, delta)
		r.output.Unread.Push(delta)
	}
	return r
}

func TestIDsCountUpAndAreNotGivenTwice(t *testing.T) {
	for _, random := range []bool{false, true} {
		v := &supervisor{entries: map[messages.ProcessID]*entry{}, ids: ids{random: random}}
		first := v.reserve()
		if !random && first != firstID {
			t.Errorf("the first id is %d", first)
		}
		wanted := first
		taken := func() {
			if wanted++; wanted == endID {
				wanted = firstID
			}
		}
		taken()
		v.entries[wanted] = &entry{}
		taken()
		v.records.add(recordOf(int(wanted), 0))
		taken()
		if got := v.reserve(); got != wanted {
			t.Errorf("id %d after %d, want %d", got, first, wanted)
		}
		v.ids.next = endID - 1
		if got := v.reserve(); got != endID-1 {
			t.Errorf("the last id is %d", got)
		}
		if got := v.reserve(); got != firstID && v.entries[firstID] == nil && v.records.find(firstID) == nil {
			t.Errorf("after the last id comes %d", got)
		}
	}
}

func TestRecordsAreBoundedByNumber(t *testing.T) {
	var r records
	for id := 1000; id < 1000+maxRecords+6; id++ {
		r.add(recordOf(id, 0))
	}
	if len(r.all) != maxRecords || r.find(1005) != nil || r.find(1006) == nil {
		t.Errorf("%d records, from %d", len(r.all), r.all[0].info.Process)
	}
}

func TestRecordsAreBoundedByBytes(t *testing.T) {
	var r records
	const size = 896 << 10
	for id := range 30 {
		r.add(recordOf(1000+id, size))
		var held int64
		for _, one := range r.all {
			held += one.output.Memory()
		}
		if held > maxRecordBytes || held != r.bytes {
			t.Fatalf("%d bytes in %d records, counted %d", held, len(r.all), r.bytes)
		}
	}
	if n := len(r.all); n < maxRecordBytes/(2*size)-1 || r.all[n-1].info.Process != 1029 {
		t.Errorf("%d records", n)
	}
	before := len(r.all)
	r.trim(r.bytes - 1)
	if len(r.all) != before-1 {
		t.Errorf("%d records of %d are left", len(r.all), before)
	}
	r.trim(0)
	if len(r.all) != 0 || r.bytes != 0 {
		t.Errorf("%d bytes in %d records", r.bytes, len(r.all))
	}
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
		if gone := wantError(t, "a poll", err, messages.ErrUnknownProcess); gone.Code != messages.ErrUnknownProcess {
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
		must[protocol.Done](h, h.runtime, CloseRuntime{})
		if err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestLongTextsAreClipped(t *testing.T) {
	long := strings.Repeat("ä", shared.MaxLabel)
	if got := shared.Clip(long); len(got) > shared.MaxLabel+len("…") || !strings.HasPrefix(long, strings.TrimSuffix(got, "…")) || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %.20q…", len(got), got)
	}
	if got := shared.Clip("short"); got != "short" {
		t.Errorf("%q", got)
	}
}
