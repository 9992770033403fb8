package wire

import (
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestOutputIsReadAsItIsWritten(t *testing.T) {
	for _, chunk := range []string{"x", "\x00\xff", "a longer text than one line of base64 would have, if base64 were cut into lines"} {
		m, err := Parse(AppendOutput(nil, `na"me`, 1<<63, messages.StreamStderr, []byte(chunk)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeOutput(m.Params)
		if err != nil || got.ProcessID != `na"me` || got.Seq != 1<<63 || got.Stream != messages.StreamStderr || string(got.Chunk) != chunk {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestRawOutputIsReadAsItIsWritten(t *testing.T) {
	for _, stream := range rawStreams {
		text := AppendRawOutput(nil, `na"me`, 1<<63, stream, []byte("\x00\n{"))
		m, err := Parse(text)
		if err != nil || m.Kind != Notification || m.Method != ProcessOutput {
			t.Fatalf("%+v, %v", m, err)
		}
		got, err := DecodeOutput(m.Params)
		if err != nil || got.ProcessID != `na"me` || got.Seq != 1<<63 || got.Stream != stream || string(got.Chunk) != "\x00\n{" {
			t.Errorf("%+v, %v", got, err)
		}
		for cut := range len(text) - 3 {
			if _, err := Parse(text[:cut]); err == nil {
				t.Errorf("%q is a message", text[:cut])
			}
		}
	}
	for _, text := range []string{"\x00", "\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01p", "\x00\x01p\x01\x03x", "\x00\x01p\x80"} {
		if m, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q became %+v", text, m)
		}
	}
}
