package wire

import (
	"bytes"
	"runtime"
	"testing"
)

// Messages of a flood are read into memory that was used before. The race detector keeps some of it back.
func TestLargeMessagesUseMemoryAgain(t *testing.T) {
	here, there := websocketsOf(t, MaxMessage)
	defer here.Close()
	defer there.Close()
	message := AppendRawOutput(nil, "p", 1, "pty", bytes.Repeat([]byte("x"), MaxChunk))
	const count = 400
	go func() {
		for range count {
			if here.Write(t.Context(), message) != nil {
				return
			}
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range count {
		got, err := there.Read(t.Context())
		if err != nil || !bytes.Equal(got, message) {
			t.Fatalf("message %d has %d bytes, %v", i, len(got), err)
		}
		clear(got) // the memory of another message is not harmed
		Recycle(got)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > count/2*MaxChunk {
		t.Errorf("%d messages took %d bytes of new memory", count, used)
	}
}

func TestASmallMessageAfterALargeOneHoldsLittleMemory(t *testing.T) {
	here, there := websocketsOf(t, MaxMessage)
	defer here.Close()
	defer there.Close()
	for _, size := range []int{MaxChunk, 100, 2 * MaxChunk, MaxChunk, 1} {
		message := bytes.Repeat([]byte("y"), size)
		go here.Write(t.Context(), message)
		got, err := there.Read(t.Context())
		if err != nil || !bytes.Equal(got, message) {
			t.Fatalf("%d of %d bytes, %v", len(got), size, err)
		}
		if size < MaxChunk && cap(got) > 1<<10 {
			t.Errorf("a message of %d bytes holds %d", size, cap(got))
		}
		Recycle(got[1:]) // neither a part nor an odd size is taken
	}
}
