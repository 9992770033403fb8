package wire

import (
	"encoding/binary"
	"errors"

	"github.com/execbus/execbus/messages"
)

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
