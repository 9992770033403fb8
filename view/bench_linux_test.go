package view

import (
	"bytes"
	"fmt"
	"math/rand"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// flood is output of a kind: plain lines, coloured lines, a full-screen program, a progress bar, or text of many scripts.
func flood(kind string, size int) []byte {
	var b bytes.Buffer
	r := rand.New(rand.NewSource(1))
	for b.Len() < size {
		switch kind {
		case "plain":
			fmt.Fprintf(&b, "the quick brown fox jumps over the lazy dog %d\r\n", r.Int())
		case "coloured":
			fmt.Fprintf(&b, "\x1b[1;32m   Compiling\x1b[0m the-%d v%d.0.1 \x1b[2m(%d ms)\x1b[0m\r\n", r.Int(), r.Intn(9), r.Intn(999))
		case "screen":
			fmt.Fprintf(&b, "\x1b[%d;%dH\x1b[1;38;5;%dm%d \x1b[0mword\x1b[K", 1+r.Intn(24), 1+r.Intn(80), r.Intn(256), r.Intn(1000))
		case "bar":
			fmt.Fprintf(&b, "\r\x1b[K %3d%% |%s| %d.%d MB/s", r.Intn(100), bytes.Repeat([]byte("#"), r.Intn(40)), r.Intn(99), r.Intn(9))
		case "scripts":
			fmt.Fprintf(&b, "naïve 日本語 🎉 e\u0301 %d Straße\r\n", r.Int())
		}
	}
	return b.Bytes()
}

func BenchmarkViews(b *testing.B) {
	size := messages.Size{Rows: 24, Cols: 80}
	measure := func(b *testing.B, data []byte, do func()) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		b.SetBytes(int64(len(data)))
		from := threadTime(b)
		for b.Loop() {
			do()
		}
		b.ReportMetric(float64(len(data)*b.N)/1e6/(threadTime(b)-from).Seconds(), "MB/cpu-s")
	}
	for _, kind := range []string{"plain", "coloured", "screen", "bar", "scripts"} {
		data := flood(kind, 1<<20)
		b.Run("text/"+kind, func(b *testing.B) {
			var out []byte
			measure(b, data, func() { out = NewText(size).Append(out[:0], data) })
		})
		b.Run("screen/"+kind, func(b *testing.B) {
			measure(b, data, func() { NewScreen(size).Write(data) })
		})
	}
}

// threadTime is the processor time of this thread, which is the same on a busy machine.
func threadTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
