package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/execbus/execbus/messages"
)

// DecodeOutput reads the parameters of process/output, which are either JSON or raw output.
func DecodeOutput(raw []byte) (m OutputParams, err error) {
	if len(raw) > 0 && raw[0] == rawMark {
		return decodeRaw(raw)
	}
	return m, DecodeParams(raw, &m)
}

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

// rawMark begins a process/output with ExtensionRaw: no JSON begins with this byte. After it come the length of the process id, the
// id, the number of the event, a byte for the stream, and the unencoded chunk. The length and the number are varints.
const rawMark = 0

// rawStreams are the streams, indexed by their bytes.
var rawStreams = []Stream{messages.StreamStdout, messages.StreamStderr, messages.StreamPTY}

// AppendRawOutput appends the notification of a chunk of output for a client with ExtensionRaw, over a Conn that is Binary.
func AppendRawOutput(to []byte, process string, seq uint64, stream Stream, chunk []byte) []byte {
	to = binary.AppendUvarint(append(to, rawMark), uint64(len(process)))
	to = binary.AppendUvarint(append(to, process...), seq)
	for i, one := range rawStreams {
		if one == stream {
			to = append(to, byte(i))
			break
		}
	}
	return append(to, chunk...)
}

var errRaw = errors.New("it is neither JSON nor raw output")

// decodeRaw reads what AppendRawOutput writes. The chunk shares the memory of the text.
func decodeRaw(text []byte) (m OutputParams, err error) {
	if len(text) == 0 || text[0] != rawMark {
		return m, errRaw
	}
	text = text[1:]
	length, n := binary.Uvarint(text)
	if n <= 0 || length > uint64(len(text)-n) {
		return m, errRaw
	}
	m.ProcessID, text = string(text[n:n+int(length)]), text[n+int(length):]
	if m.Seq, n = binary.Uvarint(text); n <= 0 || n == len(text) || int(text[n]) >= len(rawStreams) {
		return m, errRaw
	}
	m.Stream, m.Chunk = rawStreams[text[n]], text[n+1:]
	return m, nil
}
