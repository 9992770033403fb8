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

// What it takes DecodeParams takes, too, and as the same.
func FuzzDecodeOutput(f *testing.F) {
	const good = `{"processId":"1","seq":1,"stream":"stdout","chunk":"eA=="}`
	for _, text := range []string{good, `{}`, `[]`, `{"processId":1}`, `{"seq":-1}`, `{"seq":1.0}`, `{"chunk":"e\u0041=="}`, `{"chunk":7}`, `{"stream":null}`, `{"a":` + good + `}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := DecodeOutput(text)
		if err != nil {
			return
		}
		var want OutputParams
		if err := DecodeParams(text, &want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.ProcessID != want.ProcessID || got.Seq != want.Seq || got.Stream != want.Stream || string(got.Chunk) != string(want.Chunk) {
			t.Errorf("%s: %+v, not %+v", text, got, want)
		}
	})
}
