package wire

import (
	"testing"
)

func BenchmarkOutput(b *testing.B) {
	chunk := make([]byte, MaxChunk)
	for i := range chunk {
		chunk[i] = byte(i * 7)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(chunk)))
		var to []byte
		for b.Loop() {
			to = AppendOutput(to[:0], "1000", 7, "pty", chunk)
		}
	})
	text := AppendOutput(nil, "1000", 7, "pty", chunk)
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(chunk)))
		for b.Loop() {
			if _, err := Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	m, _ := Parse(text)
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(chunk)))
		for b.Loop() {
			var p OutputParams
			if err := DecodeParams(m.Params, &p); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("websocket", func(b *testing.B) {
		b.SetBytes(int64(len(chunk)))
		here, there := websocketsOf(b, MaxMessage)
		defer here.Close()
		defer there.Close()
		go func() {
			for there.Write(b.Context(), text) == nil {
			}
		}()
		for b.Loop() {
			if _, err := here.Read(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
