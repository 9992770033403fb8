package session

import (
	"testing"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/messages"
)

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

func TestARecordWeighsWhatItKeeps(t *testing.T) {
	const size = 256 << 10
	unread, logged := output.New(), output.New()
	unread.Unread.Push(make([]byte, size))
	logged.Log.Append(messages.StreamStdout, make([]byte, size))
	for name, out := range map[string]output.Output{"unread": unread, "log": logged} {
		var r records
		r.add(&record{output: out})
		if r.bytes < size || r.bytes > 2*size {
			t.Errorf("%s: %d bytes of %d", name, r.bytes, size)
		}
	}
}
