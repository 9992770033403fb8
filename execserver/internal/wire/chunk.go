package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
)

// Chunk is binary data, in JSON standard base64.
type Chunk []byte

// MarshalJSON implements json.Marshaler.
func (c Chunk) MarshalJSON() ([]byte, error) { return c.appendTo(nil), nil }

func (c Chunk) appendTo(to []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(to, '"'), c), '"')
}

var errNoBase64 = errors.New("it is not a string of standard base64")

// UnmarshalJSON implements json.Unmarshaler. Line breaks and missing padding are errors.
func (c *Chunk) UnmarshalJSON(text []byte) error {
	if len(text) < 2 || text[0] != '"' {
		return errNoBase64
	}
	digits := text[1 : len(text)-1]
	if bytes.IndexByte(digits, '\\') >= 0 { // an escaped slash, which is rare, or a line break
		digits = []byte(unquote(text))
		if bytes.ContainsAny(digits, "\r\n") {
			return errNoBase64
		}
	}
	data, err := base64.StdEncoding.Strict().AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(digits))), digits)
	if err != nil {
		return errNoBase64
	}
	*c = data
	return nil
}

// AppendOutput appends the notification of a chunk of output. It uses no reflection, because a flood consists of these notifications.
func AppendOutput(to []byte, process string, seq uint64, stream Stream, chunk []byte) []byte {
	name, _ := json.Marshal(process)
	to = append(to, `{"method":"`+ProcessOutput+`","params":{"processId":`...)
	to = append(append(to, name...), `,"seq":`...)
	to = strconv.AppendUint(to, seq, 10)
	to = append(append(append(to, `,"stream":"`...), stream...), `","chunk":`...)
	return append(Chunk(chunk).appendTo(to), `}}`...)
}
