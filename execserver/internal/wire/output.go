package wire

import (
	"fmt"
	"strconv"
)

// DecodeOutput reads the parameters of process/output, which are either valid JSON or raw output. A flood consists of them, so
// DecodeOutput uses no reflection, and scans each byte of the chunk no more often than it must.
func DecodeOutput(raw []byte) (OutputParams, error) {
	if len(raw) > 0 && raw[0] == rawMark {
		return decodeRaw(raw)
	}
	var m OutputParams
	list, err := members(raw)
	if err != nil {
		return m, err
	}
	missing := map[string]bool{"processId": true, "seq": true, "stream": true, "chunk": true}
	for _, one := range list {
		delete(missing, one.name)
		text := one.name == "processId" || one.name == "stream"
		switch {
		case text && one.value[0] != '"':
			err = fmt.Errorf("%s is not a string", one.name)
		case one.name == "processId":
			m.ProcessID = unquote(one.value)
		case one.name == "stream":
			m.Stream = Stream(unquote(one.value))
		case one.name == "seq":
			m.Seq, err = strconv.ParseUint(string(one.value), 10, 64)
		case one.name == "chunk":
			err = m.Chunk.UnmarshalJSON(one.value)
		}
		if err != nil {
			return m, err
		}
	}
	for name := range missing {
		return m, fmt.Errorf("%s is missing", name)
	}
	return m, nil
}
