package wire

// DecodeOutput reads the parameters of process/output, which are either JSON or raw output.
func DecodeOutput(raw []byte) (m OutputParams, err error) {
	if len(raw) > 0 && raw[0] == rawMark {
		return decodeRaw(raw)
	}
	return m, DecodeParams(raw, &m)
}
